// Enhancements of all pages. Every page also works without JavaScript.
"use strict";

// Submit a form once, even if its button is clicked twice. The server also accepts each form only once.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.sent) {
    event.preventDefault();
    return;
  }
  form.dataset.sent = "yes";
  if (event.submitter) event.submitter.setAttribute("aria-disabled", "true");
});

// Remove secrets that are shown once when the page is left, also from the back/forward cache.
window.addEventListener("pagehide", () => {
  for (const shown of document.querySelectorAll("[data-shown-once]")) shown.textContent = "";
});

// Allow forms to be submitted again on a page restored from the back/forward cache.
window.addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  for (const form of document.querySelectorAll("form[data-sent]")) {
    delete form.dataset.sent;
    for (const button of form.querySelectorAll("[aria-disabled]")) button.removeAttribute("aria-disabled");
  }
});

// Close menus on Escape, and on a click outside.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false;
    if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
  }
});
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

// Focus the search on "/", Ctrl+K or Command+K. On narrow screens it is in the menu.
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
  const isSlash = event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey;
  const isCommand = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
  if (!isSlash && !isCommand) return;
  const fields = [...document.querySelectorAll("[data-search]")];
  if (!fields.length) return;
  event.preventDefault();
  let field = fields.find((one) => one.checkVisibility());
  if (!field) {
    field = fields.at(-1);
    field.closest("details").open = true;
  }
  field.focus();
  field.select();
});
