// A list that the server sends in pages: it loads the next one when somebody wants to see it.

import { getJson } from "./api.js";
import { add, element, field, notice, replace } from "./dom.js";
import { formatCount, plainText } from "./formats.js";
import { repeat } from "./page.js";
import { VirtualTable } from "./table.js";

const PAGE = 1000;
const TYPING_MS = 250;
const REFRESH_MS = 3000;

/**
 * `new PagedList({ path, name, noun, query, signal, onChange })`, then `more()`.
 *
 * The reply of `path` to `query` has its items under `name`, and `next`: what to send as `after`, or null at the end. `onChange` is
 * called after every page. `problem` is a sentence if a page could not be loaded.
 */
export class PagedList {
  constructor({ path, name, noun, query, signal, onChange }) {
    Object.assign(this, { path, name, noun, query, onChange });
    this.items = [];
    this.next = "";
    this.loading = false;
    this.problem = null;
    this.stopping = new AbortController();
    if (signal.aborted) this.stop();
    signal.addEventListener("abort", () => this.stop(), { once: true });
  }

  get complete() {
    return this.next === null;
  }

  stop() {
    this.stopping.abort(new DOMException("stopped", "AbortError"));
  }

  /** Load the next page, unless one is under way or nothing follows. */
  async more() {
    if (this.complete || this.problem) return;
    await this.#load(this.next, (page) => this.items.push(...page[this.name]));
  }

  /** Load the list again, if it has just one page; a longer one would move while it is read. */
  async refresh() {
    if (!this.complete || this.items.length > PAGE) return;
    await this.#load("", (page) => (this.items = page[this.name]));
  }

  async #load(after, take) {
    const { signal } = this.stopping;
    if (this.loading || signal.aborted) return;
    this.loading = true;
    try {
      const page = await getJson(this.path, { ...this.query, after, limit: PAGE }, signal);
      take(page);
      this.next = page.next;
      this.problem = null;
    } catch (error) {
      if (signal.aborted) return;
      this.problem = error.message;
    }
    this.loading = false;
    this.onChange();
  }

  /** Return what the list holds, as a sentence. */
  describe() {
    if (this.problem) return this.problem;
    const count = formatCount(this.items.length);
    if (this.complete) return this.items.length ? `${count} ${this.noun}${this.items.length === 1 ? "" : "s"}` : "";
    if (this.items.length) return `${count} ${this.noun}s loaded; more follow as you scroll`;
    return this.query.search ? `Searching${this.next ? `, up to ${plainText(this.next)}` : ""}…` : "Loading…";
  }
}

/**
 * Show a list by name on a page, below its head, with a filter by prefix, and keep it current.
 *
 * - label, path, name, noun: as in VirtualTable and PagedList. `columns` and `rowClass` are those of the table.
 * - href(item): the address that a row opens. `example` is a prefix, for the filter.
 * - empty(): what to show while there is nothing at all.
 *
 * Returns `{ restart }`, which loads the list again from its beginning.
 */
export function showList({ main, query, signal, setQuery }, { label, path, name, noun, columns, rowClass = null, href, example, empty }) {
  const prefix = element("input", { type: "search", value: query.get("prefix") ?? "", placeholder: example, spellcheck: "false", autocapitalize: "off" });
  const status = element("p", { class: "muted list-status", role: "status" });
  const table = new VirtualTable({ label, columns, rowClass, onOpen: (item) => (location.hash = href(item)), onNearEnd: () => list?.more() });
  const none = element("div", { hidden: true });
  let list = null;
  add(
    main,
    element("form", { class: "filters", role: "search", onsubmit: (event) => (event.preventDefault(), restart()) }, field("Begins with", prefix)),
    status,
    element("div", { class: "boxed fill" }, table.element, none),
  );

  function refill() {
    table.setItems(list.items, { complete: list.complete });
    if (status.textContent !== list.describe()) status.textContent = list.describe();
    const nothing = list.complete && !list.items.length;
    // What is there already stays, with the focus in it.
    if (nothing && none.hidden) replace(none, list.query.prefix ? notice(`No ${noun} matches`, "Try a shorter text, or clear the filter.") : empty());
    table.element.hidden = nothing;
    none.hidden = !nothing;
  }

  function restart() {
    setQuery({ prefix: prefix.value });
    list?.stop();
    list = new PagedList({ path, name, noun, query: { prefix: prefix.value }, signal, onChange: refill });
    table.element.scrollTop = 0;
    table.focused = 0;
    none.hidden = true;
    refill();
    return list.more();
  }

  let typing = 0;
  prefix.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(restart, TYPING_MS);
  });
  restart().then(() => repeat(() => list.refresh(), REFRESH_MS, signal));
  return { restart };
}
