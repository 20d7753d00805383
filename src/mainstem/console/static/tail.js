// A live list: it follows a source, keeps the latest items, and can be paused.

import { connection } from "./api.js";
import { button, element, iconButton, notice, replace } from "./dom.js";
import { formatBytes, formatCount, formatShort } from "./formats.js";
import * as session from "./session.js";
import { VirtualTable } from "./table.js";

/** How much a list holds. What is older is dropped from it, and counted. */
export const KEPT_ITEMS = 5000;
const HIDDEN_MS = 30_000;
const KEPT_SIZE = 64 * 1024 * 1024;

/** The latest items, up to a number and a total size. */
export class Ring {
  #items = [];
  #start = 0;
  #size = 0;
  dropped = 0;
  total = 0;

  get length() {
    return this.#items.length - this.#start;
  }

  get size() {
    return this.#size;
  }

  at(index) {
    return this.#items[this.#start + index];
  }

  push(item) {
    this.#items.push(item);
    this.#size += item.size ?? 0;
    this.total += 1;
    while (this.length > KEPT_ITEMS || (this.#size > KEPT_SIZE && this.length > 1)) {
      this.#size -= this.#items[this.#start].size ?? 0;
      this.#items[this.#start] = undefined;
      this.#start += 1;
      this.dropped += 1;
    }
    if (this.#start > KEPT_ITEMS) {
      this.#items.splice(0, this.#start);
      this.#start = 0;
    }
  }
}

/**
 * `new Tail({ label, noun, columns, source, detail, signal })`; put `tail.element` on the page, then `tail.start(from)`.
 *
 * - source({ from, signal, push, say }): an async function that reads from the position `from` until `signal` is
 *   aborted or the source has ended. It calls `push(items, next)` with items and the position after them, once it has
 *   received them completely: after a pause or a lost connection, reading continues at the last `next`. `say(text)`
 *   shows what it does ("Reading", "Live", "Closed"). An item should have `size`, about how many bytes it needs.
 * - columns: as in VirtualTable. detail(item) returns the nodes to show for a selected item.
 *
 * However much arrives, the list is rendered once per frame.
 */
export class Tail {
  constructor({ label, noun = "message", columns, source, detail, signal, actions = [], empty = "New ones appear here as they are committed." }) {
    Object.assign(this, { noun, source, signal, empty });
    this.showDetail = detail;
    this.ring = new Ring();
    this.position = null;
    this.following = true;
    this.paused = false;
    this.table = new VirtualTable({ label, columns, rowHeight: 30, onOpen: (item, index) => this.open(item, index), onScroll: () => this.#scrolled() });
    this.table.element.classList.add("tail-rows");
    this.state = element("span", { class: "tail-state", role: "status" });
    this.numbers = element("span", { class: "muted tail-numbers" });
    this.pauseButton = button("Pause", () => (this.paused ? this.resume() : this.pause()), { icon: "pause", kind: "small" });
    this.endButton = button("To the end", () => this.#toEnd(), { icon: "down", kind: "small" });
    this.endButton.hidden = true;
    this.detail = element("section", { class: "detail", "aria-label": `Selected ${noun}`, hidden: true });
    this.placeholder = element("div", { class: "tail-empty" });
    this.element = element(
      "div",
      { class: "tail" },
      element("div", { class: "toolbar" }, this.pauseButton, this.endButton, actions, this.state, this.numbers),
      element("div", { class: "tail-panes" }, element("div", { class: "tail-list" }, this.table.element, this.placeholder), this.detail),
    );
    this.lastTop = 0;
    this.rates = [];
    connection.watch(({ online }) => this.reading && this.#say(...(online ? ["Reading"] : ["Reconnecting", "warn"])), signal);
    session.demand.watch((reason) => this.reading && this.#say(...(reason === null ? ["Reading"] : ["Waiting for a token", "warn"])), signal);
    document.addEventListener("visibilitychange", () => this.#hide(document.hidden), { signal });
    const clock = setInterval(() => this.#count(), 1000);
    signal.addEventListener("abort", () => (clearInterval(clock), this.stop()), { once: true });
  }

  /** Forget everything, and read from a position. */
  start(from) {
    this.stop();
    this.ring = new Ring();
    this.table.selected = -1;
    this.table.focused = 0;
    this.position = from;
    this.settled = false;
    this.drawnDropped = 0;
    this.following = true;
    this.lastTop = 0;
    this.close();
    this.resume();
  }

  pause() {
    if (this.reading === null) return;
    this.stop();
    this.paused = true;
    this.#say("Paused");
    this.#draw();
  }

  resume() {
    this.paused = false;
    this.pauseButton.hidden = false;
    this.#say("Reading");
    this.#draw();
    this.#run();
  }

  stop() {
    this.reading?.abort(new DOMException("stopped", "AbortError"));
    this.reading = null;
  }

  open(item, index) {
    this.table.select(index);
    this.selected = item;
    this.detail.hidden = false;
    this.element.classList.add("has-detail");
    replace(this.detail, element("div", { class: "row spread detail-head" }, element("h3", {}, `Selected ${this.noun}`), iconButton("Close", "close", () => this.close())), this.showDetail(item));
  }

  close() {
    this.detail.hidden = true;
    this.selected = null;
    this.element.classList.remove("has-detail");
    this.table.select(-1);
  }

  async #run() {
    const reading = (this.reading = new AbortController());
    try {
      await this.source({
        from: this.position,
        signal: reading.signal,
        push: (items, next) => {
          if (reading.signal.aborted) return;
          for (const item of items) this.ring.push(item);
          this.position = next;
          this.#plan();
        },
        say: (text, kind) => this.reading === reading && this.#say(text, kind),
      });
    } catch (error) {
      if (reading.signal.aborted) return;
      this.#say(error.message, "bad");
    }
    this.reading = null;
    this.settled = true;
    this.pauseButton.hidden = true; // the source has ended: there is nothing to pause
    this.#plan();
  }

  /** Give the connection back while nobody looks: a browser has only six for all of its tabs. */
  #hide(hidden) {
    clearTimeout(this.hiding);
    if (hidden && this.reading) {
      this.hiding = setTimeout(() => {
        this.stop();
        this.asleep = true;
      }, HIDDEN_MS);
    } else if (!hidden && this.asleep) {
      this.asleep = false;
      if (!this.paused) this.resume();
    }
  }

  #say(text, kind = "") {
    // Whether the source has been read to its end, so that an empty list means that there is nothing.
    if (kind === "good" && !this.settled) {
      this.settled = true;
      this.#plan();
    }
    if (this.state.textContent !== text) {
      this.#drawNow(); // a new state is true of the rows that are shown
      this.state.textContent = text;
    }
    this.state.className = `tail-state ${kind}`;
  }

  #plan() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.#draw();
    });
  }

  /** Draw what is planned without waiting for the next frame. */
  #drawNow() {
    if (!this.frame) return;
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.#draw();
  }

  #draw() {
    const { table, ring } = this;
    const gone = ring.dropped - (this.drawnDropped ?? 0);
    this.drawnDropped = ring.dropped;
    if (table.selected >= 0 && gone > 0) table.selected = Math.max(-1, table.selected - gone);
    table.focused = Math.max(0, Math.min(table.focused - Math.max(0, gone), ring.length - 1));
    if (!this.following && gone > 0) table.element.scrollTop -= gone * table.rowHeight; // what one reads stays in view
    table.setItems(ring);
    if (this.following) table.scrollToEnd();
    this.lastTop = table.element.scrollTop;
    this.placeholder.hidden = ring.length > 0 || !this.settled;
    if (!this.placeholder.hidden) replace(this.placeholder, notice(`No ${this.noun}s yet`, this.empty));
    this.endButton.hidden = this.following;
    replace(this.pauseButton, ...button(this.paused ? "Resume" : "Pause", null, { icon: this.paused ? "play" : "pause" }).childNodes);
    this.#number();
  }

  #number() {
    const { ring } = this;
    const rate = this.rates.length > 1 ? (this.rates.at(-1) - this.rates[0]) / (this.rates.length - 1) : 0;
    const parts = [`${formatCount(ring.total)} received`];
    if (ring.dropped) parts.push(`${formatCount(ring.dropped)} older ones dropped from this list`);
    if (rate > 0 && !this.paused) parts.push(`${formatShort(rate)}/s`);
    this.numbers.textContent = ring.total ? parts.join(" · ") : "";
    this.numbers.title = `This list holds up to ${formatCount(KEPT_ITEMS)} ${this.noun}s or ${formatBytes(KEPT_SIZE)}.`;
  }

  #count() {
    this.rates.push(this.ring.total);
    if (this.rates.at(-1) < this.rates[0]) this.rates = [this.ring.total];
    if (this.rates.length > 5) this.rates.shift();
    this.#number();
  }

  /** Stop following once the reader scrolls up, and follow again from the end. */
  #scrolled() {
    const top = this.table.element.scrollTop;
    if (top < this.lastTop - this.table.rowHeight / 2) this.following = false;
    else if (this.table.atEnd) this.following = true;
    this.lastTop = top;
    this.endButton.hidden = this.following;
  }

  #toEnd() {
    this.following = true;
    this.#draw();
  }
}
