// Copy the text of `data-copy`, or else of the `pre` beside the button, when a button is pressed, and announce it.
"use strict";

const SHOWN_MS = 2000;
const pressed = new Set();
const announcement = document.createElement("p");
announcement.className = "visually-hidden";
announcement.setAttribute("role", "status");
document.body.append(announcement);

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button || pressed.has(button)) return;
  pressed.add(button);
  const label = [...button.childNodes];
  button.textContent = announcement.textContent = (await copy(textFor(button))) ? "Copied" : "Not copied";
  setTimeout(() => {
    button.replaceChildren(...label);
    pressed.delete(button);
    announcement.textContent = "";
  }, SHOWN_MS);
});

function textFor(button) {
  return button.dataset.copy || button.parentElement.querySelector("pre").textContent;
}

// Return whether the text was copied. Browsers offer the clipboard's own interface only over HTTPS.
async function copy(text) {
  if (!navigator.clipboard) return copySelected(text);
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
}

function copySelected(text) {
  const focused = document.activeElement;
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  document.body.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  focused?.focus({ preventScroll: true });
  return copied;
}
