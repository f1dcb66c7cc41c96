// Remember in which language the reader wants to see examples. Without JavaScript, each example opens by itself.
"use strict";

const LANGUAGE = "docs-language";
const examples = [...document.querySelectorAll("details[data-language]")];

function show(language) {
  for (const one of examples) if (one.dataset.language === language) one.open = true;
}

try {
  show(localStorage.getItem(LANGUAGE));
} catch {
  // The browser stores nothing for this site.
}
for (const one of examples) {
  one.querySelector("summary").addEventListener("click", (event) => {
    event.preventDefault();
    const place = one.getBoundingClientRect().top;
    show(one.dataset.language);
    // Examples above this one can have changed their height.
    scrollBy(0, one.getBoundingClientRect().top - place);
    try {
      localStorage.setItem(LANGUAGE, one.dataset.language);
    } catch {
      // As above.
    }
  });
}
