// Check the job form while it changes, show what its controls write into the profile, read profile files into it, and
// mark refused lines. Without JavaScript, its buttons do the same, except for the marks.
"use strict";

const WAIT_MS = 700;
const NO_ANSWER = "The profile could not be checked. If your session has ended, log in again in another tab.";
const form = document.getElementById("job-form");
let timer, isChecking, isOutdated;
if (form) start();

function start() {
  const profile = form.elements.namedItem("profile");
  const file = form.elements.namedItem("file");
  form.addEventListener("input", () => later());
  form.addEventListener("change", (event) => (event.target === file ? readFile(file.files[0]) : later()));
  profile.addEventListener("scroll", placeMarks, { passive: true });
  document.getElementById("refused").addEventListener("click", (event) => {
    const button = event.target.closest("[data-line]");
    if (button) select(profile, Number(button.dataset.line));
  });
  form.addEventListener("submit", (event) => {
    if (!isTooLarge(profile)) return;
    event.preventDefault();
    event.stopPropagation();
    profile.focus();
  });
  profile.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    profile.classList.add("dropping");
  });
  profile.addEventListener("dragleave", () => profile.classList.remove("dropping"));
  profile.addEventListener("drop", (event) => {
    profile.classList.remove("dropping");
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    readFile(event.dataTransfer.files[0]);
  });
  mark();
  if (profile.value.trim()) check();
}

// Put a file's text into the form, unless it is too large or not text. The file itself is not sent.
async function readFile(chosen) {
  const profile = form.elements.namedItem("profile");
  form.elements.namedItem("file").value = "";
  if (!chosen) return;
  if (chosen.size > form.dataset.maxBytes) return showProblem(form.dataset.tooLarge);
  try {
    profile.value = new TextDecoder("utf-8", { fatal: true }).decode(await chosen.arrayBuffer());
  } catch {
    return showProblem(form.dataset.notText);
  }
  showProblem("");
  check();
}

function showProblem(text) {
  const problem = document.getElementById("profile-problem");
  problem.textContent = text;
  problem.hidden = !text;
}

function isTooLarge(profile) {
  const lines = profile.value.replaceAll("\r\n", "\n");
  const large = lines.length > form.dataset.maxBytes || new Blob([lines]).size > form.dataset.maxBytes;
  showProblem(large ? form.dataset.tooLarge : "");
  return large;
}

function later() {
  clearTimeout(timer);
  timer = setTimeout(check, WAIT_MS);
}

// Check the form. During a check, remember only that another one is needed.
async function check() {
  clearTimeout(timer);
  if (isChecking) {
    isOutdated = true;
    return;
  }
  if (isTooLarge(form.elements.namedItem("profile"))) return;
  setChecking(true);
  try {
    const { value } = form.elements.namedItem("profile");
    const chosen = [...document.querySelectorAll("#fight select")].map((control) => control.value);
    show(await answer(), { value, chosen });
  } catch {
    document.getElementById("verdict").textContent = NO_ANSWER;
  }
  setChecking(false);
  if (!isOutdated) return;
  isOutdated = false;
  later();
}

function setChecking(is) {
  isChecking = is;
  document.querySelector(".job-check").setAttribute("aria-busy", String(is));
}

async function answer() {
  const data = new FormData(form);
  data.append("part", "check");
  const response = await fetch(form.dataset.check, { method: "POST", body: data, redirect: "error" });
  if (!response.ok) throw new Error(`status ${response.status}`);
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

// Replace the parts of the check. Parts that stay the same are not announced again.
function show(fresh, sent) {
  showWritten(fresh, sent);
  for (const id of ["verdict", "price", "findings", "refused"]) {
    const [old, part] = [document.getElementById(id), fresh.getElementById(id)];
    if (old.innerHTML !== part.innerHTML) old.replaceChildren(...part.childNodes);
  }
  const profile = form.elements.namedItem("profile");
  profile.ariaInvalid = document.querySelector("#refused table") ? "true" : null;
  document.getElementById("id_profile_error")?.remove();
  mark();
}

// Show the profile as the controls changed it, unless it was edited meanwhile: then the next check writes them again.
function showWritten(fresh, sent) {
  const profile = form.elements.namedItem("profile");
  if (profile.value !== sent.value) return;
  const [controls, written] = [fresh.querySelectorAll("#fight select"), fresh.getElementById("written")];
  document.querySelectorAll("#fight select").forEach((control, index) => {
    control.options[0].textContent = controls[index].options[0].textContent;
    if (written && control.value === sent.chosen[index]) control.value = "";
  });
  if (written) profile.value = written.value;
}

// Mark the refused lines beside the text.
function mark() {
  const lines = [...document.querySelectorAll("#refused [data-line]")].map((button) => button.dataset.line);
  document.getElementById("marks").replaceChildren(
    ...lines.map((line) => {
      const one = document.createElement("span");
      one.dataset.line = line;
      return one;
    }),
  );
  placeMarks();
}

function placeMarks() {
  const profile = form.elements.namedItem("profile");
  const { top, height } = lineBox(profile);
  const first = profile.offsetTop + profile.clientTop + top - profile.scrollTop;
  for (const one of document.getElementById("marks").children) {
    const start = first + (one.dataset.line - 1) * height;
    one.hidden = start < profile.offsetTop || start + height > profile.offsetTop + profile.offsetHeight;
    one.style.top = `${start}px`;
    one.style.height = `${height}px`;
  }
}

// Select a line of the text and scroll to it.
function select(profile, line) {
  const before = profile.value.split("\n", line - 1).join("\n").length;
  const start = line > 1 ? before + 1 : 0;
  const end = profile.value.indexOf("\n", start);
  profile.focus();
  profile.setSelectionRange(start, end < 0 ? profile.value.length : end);
  profile.scrollTop = (line - 1) * lineBox(profile).height - profile.clientHeight / 2;
  profile.scrollIntoView({ block: "nearest" });
}

function lineBox(profile) {
  const style = getComputedStyle(profile);
  return { top: parseFloat(style.paddingTop), height: parseFloat(style.lineHeight) };
}
