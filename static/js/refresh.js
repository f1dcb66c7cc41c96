// Refresh part of a page by changing only what differs, to keep focus, selection, open menus and scroll positions.
"use strict";

let updatedAt = new Date();

document.addEventListener("htmx:beforeSwap", (event) => {
  const { target, xhr, shouldSwap } = event.detail;
  if (!shouldSwap) return;
  event.detail.shouldSwap = false;
  const fresh = new DOMParser().parseFromString(xhr.responseText, "text/html").getElementById(target.id);
  // For example the login page
  if (!fresh) return showFailure(target);
  updatedAt = new Date();
  const focused = document.activeElement;
  update(target, fresh);
  if (focused && !focused.isConnected) target.focus({ preventScroll: true });
});

for (const failure of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(failure, (event) => showFailure(event.detail.target));
}

// The next update removes the message, because the fresh element does not contain it.
function showFailure(target) {
  if (document.getElementById("not-updated")) return;
  const message = document.createElement("p");
  message.id = "not-updated";
  message.setAttribute("role", "alert");
  message.textContent = `Not updated since ${updatedAt.toISOString().slice(11, 19)} UTC. Reload the page.`;
  target.prepend(message);
}

// Make an element equal to a fresh one. A form that was just submitted stays unchanged, and so does selected text in
// an element whose lines change their order.
function update(element, fresh) {
  if (element.dataset.sent || isHeld(element)) return;
  updateAttributes(element, fresh);
  let next = element.firstChild;
  for (const child of [...fresh.childNodes]) {
    const match = matching(next, child);
    if (!match) {
      element.insertBefore(child, next);
      continue;
    }
    while (next !== match) next = removed(next);
    if (match.nodeType === Node.ELEMENT_NODE) update(match, child);
    else if (match.data !== child.data) match.data = child.data;
    next = match.nextSibling;
  }
  while (next) next = removed(next);
}

function isHeld(element) {
  const selection = getSelection();
  return "hold" in element.dataset && !selection.isCollapsed && selection.containsNode(element, true);
}

// Return the first sibling, beginning with `next`, that `fresh` replaces, or null. Text matches only `next`.
function matching(next, fresh) {
  if (fresh.nodeType !== Node.ELEMENT_NODE) return next?.nodeType === fresh.nodeType ? next : null;
  while (next && !isSame(next, fresh)) next = next.nextSibling;
  return next;
}

function isSame(node, fresh) {
  if (node.nodeName !== fresh.nodeName || node.id !== fresh.id) return false;
  // A row that arrives changes the ones below in place, so that they do not move.
  return Boolean(node.id) || node.nodeName === "TR" || node.className === fresh.className;
}

function removed(node) {
  const following = node.nextSibling;
  node.remove();
  return following;
}

function updateAttributes(element, fresh) {
  for (const { name } of [...element.attributes]) {
    if (name !== "open" && !fresh.hasAttribute(name)) element.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "open" && element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
}
