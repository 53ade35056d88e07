// Light and dark: the system's choice, until a person chooses.

const KEY = "interlock.theme";

function read() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

const system = matchMedia("(prefers-color-scheme: dark)");

export function current() {
  return read() || (system.matches ? "dark" : "light");
}

export function apply() {
  document.documentElement.dataset.theme = current();
}

export function toggle() {
  try {
    localStorage.setItem(KEY, current() === "dark" ? "light" : "dark");
  } catch {
    // A browser that stores nothing keeps the system's theme.
  }
  apply();
}

system.addEventListener("change", apply);
apply();
