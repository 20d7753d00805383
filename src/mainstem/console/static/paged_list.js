// A list that the server sends in pages: it loads the next one when somebody wants to see it.

import { getJson } from "./api.js";
import { formatCount } from "./formats.js";

const PAGE = 1000;

/**
 * `new PagedList({ path, name, noun, query, signal, onChange })`, then `more()`.
 *
 * The reply of `path` has its items under `name`, and `next`: what to send as `after`, or null at the end. `onChange` is
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
    return this.items.length ? `${count} ${this.noun}s loaded; more follow as you scroll` : "Loading…";
  }
}
