// Parts that all pages share.

import { notify } from "./dialogs.js";
import { button, element, notice } from "./dom.js";
import * as session from "./session.js";

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

/** Return the address of a partition's page. */
export function partitionHref(name) {
  return `#/partition/${encodeURIComponent(name.toWellFormed())}`;
}

/** Return the address of a subscription's page. */
export function subscriptionHref(id) {
  return `#/subscription/${encodeURIComponent(id.toWellFormed())}`;
}

/**
 * Return what stands in place of an empty list: what the page is for, and a command to begin with. In the command, `{url}`
 * is the address of this server.
 */
export function beginning(title, text, command, ...actions) {
  const url = session.ROOT.href.replace(/\/$/, "");
  const line = command.replace("{url}", url);
  const copy = navigator.clipboard ? button("Copy", () => navigator.clipboard.writeText(line).then(() => notify("Copied.")), { kind: "small", icon: "copy" }) : null;
  const node = notice(title, text, copy, actions);
  node.querySelector("p").after(element("pre", { class: "payload command", tabindex: 0, "aria-label": "Command" }, line));
  return node;
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
