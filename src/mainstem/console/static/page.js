// Parts that all pages share.

import { element } from "./dom.js";

/** Return the head of a page: its title, what it is about, and buttons. */
export function pageHead(title, { about = null, actions = [], above = null } = {}) {
  return element(
    "div",
    { class: "page-head" },
    element("div", { class: "page-title" }, above, element("h1", {}, title), about && element("p", { class: "muted" }, about)),
    element("div", { class: "row page-actions" }, actions),
  );
}

/** Return a box with a heading. */
export function panel(title, ...children) {
  return element("section", { class: "panel", "aria-label": title }, element("h2", {}, title), children);
}

/** Return the address of a stream's page. */
export function streamHref(path) {
  return `#/stream/${encodeURIComponent(path.toWellFormed())}`;
}

/** Call `run` now and then every `ms`, except while the tab is hidden, until `signal` is aborted. */
export function repeat(run, ms, signal) {
  let timer = 0;
  const turn = async () => {
    clearTimeout(timer);
    if (signal.aborted || document.hidden) return;
    await run();
    clearTimeout(timer);
    if (!signal.aborted) timer = setTimeout(turn, ms);
  };
  document.addEventListener("visibilitychange", turn, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  return turn();
}
