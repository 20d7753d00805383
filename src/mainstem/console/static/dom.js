// Elements. Everything is built from text and attributes; no text is ever parsed as markup (the Content-Security-Policy
// refuses that too, by Trusted Types).

import { showHidden } from "./formats.js";

const SVG = "http://www.w3.org/2000/svg";

/**
 * Return a new element: `element("button", { class: "primary", onclick: save }, "Save")`.
 *
 * Properties that begin with `on` are listeners; true and false set or omit an attribute; null and undefined are
 * omitted; `dataset` is an object. Children are nodes, text, numbers, or arrays of them; null and false are left out.
 */
export function element(name, properties = {}, ...children) {
  return fill(document.createElement(name), properties, children);
}

/** The same for SVG. */
export function svg(name, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, name), properties, children);
}

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(node.dataset, value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  add(node, children);
  return node;
}

/** Append children, as `element` does. */
export function add(node, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

/** Replace everything in a node. */
export function replace(node, ...children) {
  node.replaceChildren();
  return add(node, children);
}

/**
 * Return text of unknown origin as a node. Control characters, marks that change the direction of text, and other
 * characters that cannot be seen stand there as escapes, so that a name cannot pretend to be another one.
 */
export function untrusted(text, { lines = false } = {}) {
  const parts = showHidden(text, { lines });
  const fragment = document.createDocumentFragment();
  for (const { text: part, escaped } of parts) {
    fragment.append(escaped ? element("span", { class: "escape" }, part) : part);
  }
  return element("bdi", { class: "untrusted" }, fragment);
}

/** Return a button with a label; `icon` names a symbol of `icons` and `quiet` makes it look like text. */
export function button(label, onclick, { kind = "", icon = null, title = null, disabled = false, pressed = null } = {}) {
  return element(
    "button",
    { type: "button", class: `button ${kind}`, onclick, title, disabled, "aria-pressed": pressed === null ? null : String(pressed) },
    icon && drawIcon(icon),
    element("span", {}, label),
  );
}

/** Return a button that shows only an icon; its label is for screen readers and the tooltip. */
export function iconButton(label, icon, onclick, properties = {}) {
  return element("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...properties }, drawIcon(icon));
}

let fields = 0;

/** Return a labelled input. `control` is the input, select or textarea; `hint` stands below it. */
export function field(label, control, hint = null) {
  control.id ||= `field-${++fields}`;
  const note = hint && element("small", { id: `${control.id}-hint` }, hint);
  if (note) control.setAttribute("aria-describedby", note.id);
  return element("div", { class: "field" }, element("label", { for: control.id }, label), control, note);
}

/** Return a select with `[value, label]` options. */
export function select(options, value, properties = {}) {
  const node = element("select", properties, options.map(([key, label]) => element("option", { value: key }, label)));
  node.value = value;
  return node;
}

/** Return a checkbox with its label. */
export function checkbox(label, checked, onchange = null) {
  const input = element("input", { type: "checkbox", onchange });
  input.checked = checked;
  const node = element("label", { class: "check" }, input, element("span", {}, label));
  node.input = input;
  return node;
}

/** Return a small label such as "closed". `kind`: "", "good", "warn", "bad". */
export function badge(text, kind = "") {
  return element("span", { class: `badge ${kind}` }, text);
}

/** Return a message in place of content: an empty list, a page that needs another token, an error. */
export function notice(title, text, ...actions) {
  return element(
    "div",
    { class: "notice" },
    element("h2", {}, title),
    element("p", {}, text),
    actions.length ? element("div", { class: "row" }, actions) : null,
  );
}

/** Return the pairs of a description list; a value of null leaves its row out. */
export function facts(pairs) {
  return element(
    "dl",
    { class: "facts" },
    pairs.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
  );
}

const ICONS = {
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  pause: "M9 6v12M15 6v12",
  play: "M8 5l11 7-11 7z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M19 5l-1.5 1.5M6.5 17.5L5 19",
  moon: "M20 14.5A8 8 0 0 1 9.5 4 8 8 0 1 0 20 14.5z",
  auto: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  help: "M9 9a3 3 0 1 1 4.5 2.6c-1 .6-1.5 1.2-1.5 2.4M12 17.5v.5M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z",
  key: "M14 10a4 4 0 1 0-3.5 4L13 16.5h2.5V19H18v2h3v-3l-7-7z",
  plus: "M12 5v14M5 12h14",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16 16l4.5 4.5",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  lock: "M7 11V8a5 5 0 0 1 10 0v3M6 11h12v9H6z",
  down: "M12 5v13M6 12l6 6 6-6",
  up: "M12 19V6M6 12l6-6 6 6",
  branch: "M7 4v16M7 14c6 0 10-2 10-7M17 4v3",
  chart: "M4 19h16M6 15l4-5 4 3 5-7",
  list: "M8 6h12M8 12h12M8 18h12M4 6h.01M4 12h.01M4 18h.01",
  log: "M6 3h9l4 4v14H6zM9 11h7M9 15h7",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  pen: "M4 20l1-4L16 5l3 3L8 19z",
  grid: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  bell: "M6 17V11a6 6 0 0 1 12 0v6l2 1H4zM10 21h4",
  users: "M9 5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM2.5 20c0-4 3-6 6.5-6s6.5 2 6.5 6M16 5.5a3.5 3.5 0 0 1 0 6.5M18 14.5c2.5.8 3.5 3 3.5 5.5",
  flow: "M4 6h6v5H4zM14 13h6v5h-6zM10 8.5h4a3 3 0 0 1 3 3V13",
};

/** Return one of the icons as an SVG element that screen readers skip. */
export function drawIcon(name) {
  return svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" }, svg("path", { d: ICONS[name] }));
}
