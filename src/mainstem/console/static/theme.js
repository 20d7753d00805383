// Light or dark: as the system, unless the reader has chosen one of them. The choice is kept in this browser.

const KEY = "mainstem-theme";
const THEMES = ["auto", "light", "dark"];

export function restoreTheme() {
  let theme = "auto";
  try {
    theme = localStorage.getItem(KEY) ?? "auto";
  } catch {
    // storage is disabled: the theme is that of the system
  }
  return apply(THEMES.includes(theme) ? theme : "auto");
}

/** Choose the next theme, and return its name. */
export function cycleTheme() {
  const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // it lasts until the page is closed
  }
  return apply(next);
}

function apply(theme) {
  document.documentElement.dataset.theme = theme;
  return theme;
}
