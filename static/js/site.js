// What a page cannot do without a script, and works without: everything here only spares a visitor a slip.
"use strict";

// A second click does not send a form again. The service itself takes each form once, whoever sends it.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.sent) {
    event.preventDefault();
    return;
  }
  form.dataset.sent = "yes";
  if (event.submitter) event.submitter.setAttribute("aria-disabled", "true");
});

// What is shown once is gone when the page is left, also from what the browser keeps for its back button.
window.addEventListener("pagehide", () => {
  for (const shown of document.querySelectorAll("[data-shown-once]")) shown.textContent = "";
});

// A page that the browser had kept takes its forms again.
window.addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  for (const form of document.querySelectorAll("form[data-sent]")) {
    delete form.dataset.sent;
    for (const button of form.querySelectorAll("[aria-disabled]")) button.removeAttribute("aria-disabled");
  }
});

// A menu closes with Escape, and when something else is used.
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
