// Line charts of the last minutes.

import { element, replace, svg } from "./dom.js";
import { formatSpan, formatTime } from "./formats.js";

const WIDTH = 480;
const HEIGHT = 176;
const LEFT = 52;
const BOTTOM = 20;
const TOP = 8;
const SPAN_MS_MIN = 60_000;

/**
 * `new LineChart({ title, series, format, spanMs })`, where series are the names of its lines, and spanMs is how much it
 * shows at most; then
 * `chart.add(time, [value or null, ...])`, in the order of the series. A null is a gap.
 */
export class LineChart {
  constructor({ title, series, format, spanMs }) {
    Object.assign(this, { title, series, format, spanMs });
    this.points = [];
    this.drawing = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    this.legend = element("ul", { class: "legend" });
    this.element = element("section", { class: "panel", "aria-label": title }, element("div", { class: "chart-head" }, element("h2", {}, title), this.legend), this.drawing);
    this.drawing.addEventListener("pointermove", (event) => this.#point(event));
    this.drawing.addEventListener("pointerleave", () => this.#point(null));
    this.resizing = new ResizeObserver(() => this.draw());
    this.resizing.observe(this.drawing);
    this.draw();
  }

  add(time, values) {
    this.points.push({ time, values });
    while (this.points.length && this.points[0].time < time - this.spanMs) this.points.shift();
    this.draw();
  }

  draw() {
    const width = this.drawing.clientWidth || WIDTH;
    const height = this.drawing.clientHeight || HEIGHT;
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const end = this.points.at(-1)?.time ?? Date.now();
    const span = Math.min(this.spanMs, Math.max(SPAN_MS_MIN, end - (this.points[0]?.time ?? end)));
    const known = this.points.flatMap(({ values }) => values.filter((value) => value !== null));
    const top = roundUp(Math.max(0, ...known));
    this.scale = {
      width,
      height,
      x: (time) => LEFT + (1 - (end - time) / span) * (width - LEFT - 4),
      y: (value) => TOP + (1 - value / top) * (height - TOP - BOTTOM),
    };
    const { x, y } = this.scale;
    const lines = [0, top / 2, top].map((value) => [
      svg("line", { class: "grid", x1: LEFT, x2: width - 4, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, this.format(value)),
    ]);
    const times = [
      svg("text", { x: LEFT, y: height - 4 }, `${formatSpan(span / 1000)} ago`),
      svg("text", { x: width - 4, y: height - 4, "text-anchor": "end" }, "now"),
    ];
    const paths = this.series.map((_, index) => svg("path", { class: `series s${index + 1}`, d: this.#path(index) })).reverse(); // the first is on top
    replace(this.drawing, lines, times, this.hovered && svg("line", { class: "cursor", x1: x(this.hovered.time), x2: x(this.hovered.time), y1: TOP, y2: height - BOTTOM }), paths);
    this.#drawLegend();
  }

  #path(index) {
    const { x, y } = this.scale;
    let text = "";
    let pen = false;
    for (const { time, values } of this.points) {
      const value = values[index];
      if (value === null) pen = false;
      else {
        text += `${pen ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
        pen = true;
      }
    }
    return text;
  }

  #drawLegend() {
    const shown = this.hovered ?? this.points.at(-1);
    const entries = this.series.map((name, index) => [name, this.format(shown?.values[index] ?? null)]);
    replace(this.legend, entries.map(([name, value], index) => element("li", {}, element("span", { class: `dot s${index + 1}` }), `${name} `, element("strong", {}, value))), this.hovered && element("li", {}, formatTime(this.hovered.time).slice(11)));
    this.drawing.setAttribute("aria-label", `${this.title}: ${entries.map(([name, value]) => `${name} ${value}`).join(", ")}`);
  }

  #point(event) {
    if (event === null || !this.points.length) this.hovered = null;
    else {
      const at = event.clientX - this.drawing.getBoundingClientRect().left;
      const distance = ({ time }) => Math.abs(this.scale.x(time) - at);
      this.hovered = this.points.reduce((best, point) => (distance(point) < distance(best) ? point : best));
    }
    this.draw();
  }
}

/** The next number of the form 1, 2 or 5 times a power of ten. */
function roundUp(number) {
  if (number <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(number));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= number);
}
