// A table that keeps only the visible rows in the document, for lists of any length.

import { element, replace } from "./dom.js";

const SPARE = 8;

/**
 * `new VirtualTable({ label, columns, rowHeight, onOpen, onNearEnd, rowClass })`, then `setItems(items)`.
 *
 * - columns: `[{ label, class, cell: (item, index) => node | text }]`. Widths come from CSS, by the class: the layout is
 *   fixed, so that columns do not move while one scrolls. The class "wide" hides a column at phone width.
 * - items: an array, or anything with `length` and `at(index)`.
 * - onOpen(item, index): a click or Enter on a row. Without it, rows cannot be focused.
 * - onNearEnd(): called when the last rows come into view, to load more.
 * - Arrow keys, Page Up and Down, Home and End move the focus between rows.
 *
 * `element` is the scrolling box; `refresh()` renders again after items have changed in place; `selected` is the index
 * of the row that is marked, or -1; `atEnd` says whether the last row is in view.
 */
export class VirtualTable {
  constructor({ label, columns, rowHeight = 40, onOpen = null, onNearEnd = null, onScroll = null, rowClass = null }) {
    Object.assign(this, { columns, rowHeight, onOpen, onNearEnd, onScroll, rowClass });
    this.items = [];
    this.selected = -1;
    this.focused = 0;
    this.complete = true;
    this.rows = new Map();
    this.above = element("tbody", { class: "spacer", "aria-hidden": "true" }, element("tr", {}, element("td", {})));
    this.below = element("tbody", { class: "spacer", "aria-hidden": "true" }, element("tr", {}, element("td", {})));
    this.body = element("tbody", {});
    this.table = element(
      "table",
      { class: "virtual", role: onOpen ? "grid" : null, "aria-label": label },
      element("thead", {}, element("tr", {}, columns.map((column) => element("th", { scope: "col", class: column.class }, column.label)))),
      this.above,
      this.body,
      this.below,
    );
    this.element = element("div", { class: "table-box", tabindex: onOpen ? -1 : 0, onscroll: () => this.#scrolled(), onkeydown: (event) => this.#press(event) }, this.table);
    this.body.addEventListener("click", (event) => this.#click(event));
    new ResizeObserver(() => this.render()).observe(this.element);
  }

  setItems(items, { complete = true } = {}) {
    this.items = items;
    this.complete = complete;
    this.refresh();
  }

  /** Render all visible rows again, because what they show has changed. */
  refresh() {
    this.stale = true;
    this.render();
  }

  get atEnd() {
    const box = this.element;
    return box.scrollTop + box.clientHeight >= box.scrollHeight - this.rowHeight;
  }

  scrollToEnd() {
    this.element.scrollTop = this.element.scrollHeight;
    this.render();
  }

  scrollToIndex(index) {
    const box = this.element;
    const head = this.table.tHead.offsetHeight;
    const top = index * this.rowHeight;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + this.rowHeight + head > box.scrollTop + box.clientHeight) box.scrollTop = top + this.rowHeight + head - box.clientHeight;
    this.render();
  }

  select(index) {
    this.rows.get(this.selected)?.removeAttribute("aria-selected");
    this.selected = index;
    this.rows.get(index)?.setAttribute("aria-selected", "true");
  }

  render() {
    const box = this.element;
    const count = this.items.length;
    const first = Math.max(0, Math.min(count, Math.floor(box.scrollTop / this.rowHeight)) - SPARE);
    const last = Math.min(count, first + Math.ceil((box.clientHeight || 600) / this.rowHeight) + 2 * SPARE);
    const active = this.body.contains(document.activeElement) ? document.activeElement.closest("tr") : null;
    if (this.stale || first !== this.first || last !== this.last) {
      for (const [index, row] of this.rows) {
        if (index >= first && index < last) continue;
        row.remove();
        this.rows.delete(index);
      }
      const rows = [];
      for (let index = first; index < last; index += 1) {
        let row = this.rows.get(index);
        if (!row) this.rows.set(index, (row = this.#make(index)));
        else if (this.stale) this.#fill(row, index);
        rows.push(row);
      }
      this.#place(rows);
      this.above.rows[0].cells[0].style.height = `${first * this.rowHeight}px`;
      this.below.rows[0].cells[0].style.height = `${(count - last) * this.rowHeight}px`;
      Object.assign(this, { first, last, stale: false });
      // Arrow keys continue from the box. Moving the focus makes the browser compute the layout, so it comes last: with
      // half of the rows, the box would be shorter, and would scroll.
      if (active && !active.isConnected) box.focus({ preventScroll: true });
      if (this.onOpen) this.#markStop();
      this.table.setAttribute("aria-rowcount", this.complete ? count + 1 : -1);
    }
    if (last >= count - 2 * SPARE) this.onNearEnd?.();
  }

  /** Let Tab lead to the row that had the focus last, or to the nearest one that is in the document. */
  #markStop() {
    const stop = Math.max(this.first, Math.min(this.focused, this.last - 1));
    for (const [index, row] of this.rows) row.tabIndex = index === stop ? 0 : -1;
  }

  /** Put the rows into the body in order, without moving those that are there already: moving one loses the focus. */
  #place(rows) {
    let next = this.body.firstElementChild;
    for (const row of rows) {
      if (row === next) next = next.nextElementSibling;
      else this.body.insertBefore(row, next);
    }
    while (next) {
      const gone = next;
      next = next.nextElementSibling;
      const index = Number(gone.dataset.index);
      if (this.rows.get(index) === gone) this.rows.delete(index);
      gone.remove();
    }
  }

  #make(index) {
    const row = element("tr", { dataset: { index } });
    row.style.height = `${this.rowHeight}px`;
    this.#fill(row, index);
    return row;
  }

  #fill(row, index) {
    const item = this.items.at(index);
    replace(row, this.columns.map((column) => element("td", { class: column.class }, column.cell(item, index))));
    row.className = this.rowClass?.(item) ?? "";
    row.setAttribute("aria-rowindex", index + 2);
    if (index === this.selected) row.setAttribute("aria-selected", "true");
    else row.removeAttribute("aria-selected");
  }

  #scrolled() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.render();
      this.onScroll?.();
    });
  }

  #click(event) {
    const row = event.target.closest("tr");
    if (!row || !this.onOpen || event.target.closest("a, button, input") || String(window.getSelection())) return;
    this.#focus(Number(row.dataset.index), false);
    this.onOpen(this.items.at(Number(row.dataset.index)), Number(row.dataset.index));
  }

  #press(event) {
    const row = event.target.closest("tbody tr");
    const here = event.target === this.element || (row && event.target === row);
    if (!here || !this.onOpen || !this.items.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const index = row ? Number(row.dataset.index) : this.focused;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 1);
    const target = { ArrowDown: index + 1, ArrowUp: index - 1, PageDown: index + page, PageUp: index - page, Home: 0, End: this.items.length - 1 }[event.key];
    if (target !== undefined) {
      event.preventDefault();
      this.#focus(Math.max(0, Math.min(this.items.length - 1, target)), true);
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.onOpen(this.items.at(index), index);
    }
  }

  #focus(index, move) {
    this.focused = index;
    if (move) this.scrollToIndex(index);
    this.#markStop();
    if (move) this.rows.get(index)?.focus({ preventScroll: true });
  }
}
