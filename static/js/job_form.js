// Check the job form while it changes, and read profile files into it. Without JavaScript, its buttons do the same.
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
  document.getElementById("check").addEventListener("click", (event) => {
    event.preventDefault();
    check();
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
    show(await answer());
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
function show(fresh) {
  for (const id of ["verdict", "findings", "refused"]) {
    const [old, part] = [document.getElementById(id), fresh.getElementById(id)];
    if (old.innerHTML !== part.innerHTML) old.replaceChildren(...part.childNodes);
  }
}
