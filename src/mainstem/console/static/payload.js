// One payload, readable: JSON with line breaks, text as text, bytes as a hex dump, each only as far as one wants to see.

import { element, button, replace, untrusted } from "./dom.js";
import { notify } from "./dialogs.js";
import { decodeUtf8, dumpHex, formatBytes } from "./formats.js";
import { printJson } from "./json.js";

const TEXT_FIRST = 32 * 1024;
const TEXT_MORE = 256 * 1024;
const HEX_FIRST = 4 * 1024;
const HEX_MORE = 32 * 1024;

/**
 * Return a view of a payload, which is `{ json: text }`, `{ text }` or `{ bytes }`.
 *
 * `loadBytes`, for text, fetches the bytes that the server keeps: text over an event stream is always UTF-8, so bytes
 * that are not have been replaced there.
 */
export function showPayload({ json = null, text = null, bytes = null }, { loadBytes = null } = {}) {
  const body = element("pre", { class: "payload", tabindex: 0, "aria-label": "Content" });
  const more = element("div", { class: "row payload-more" });
  const bar = element("div", { class: "segmented", role: "group", "aria-label": "Show as" });
  const views = {};
  if (json !== null) Object.assign(views, { Formatted: () => pieces(printJson(json), json.length), Raw: () => plain(json) });
  if (text !== null) views.Text = () => plain(text);
  if (bytes !== null) {
    views.Hex = () => hex(bytes);
    const decoded = bytes.length <= TEXT_MORE * 4 ? decodeUtf8(bytes) : null;
    if (decoded) views.Text = () => plain(decoded);
  } else if (loadBytes) {
    views.Hex = async () => {
      replace(body, "Loading the bytes…");
      hex(await loadBytes());
    };
  }

  function plain(content) {
    pieces(slices(content), content.length);
  }

  /** Print pieces of text until the limit, and offer the rest. */
  function pieces(source, total) {
    replace(body);
    let shown = 0;
    const print = (limit) => {
      const fragment = document.createDocumentFragment();
      const until = shown + limit;
      let ended = false;
      while (shown < until) {
        const { done, value } = source.next();
        if (done) {
          ended = true;
          break;
        }
        const [kind, content] = value;
        shown += content.length;
        const node = untrusted(content, { lines: true });
        if (kind) node.classList.add(`json-${kind}`);
        fragment.append(node);
      }
      body.append(fragment);
      replace(
        more,
        ended || shown >= total * 40 ? null : [element("span", { class: "muted" }, `Cut: this message has ${formatBytes(total)}.`), button("Show more", () => print(TEXT_MORE), { kind: "small" })],
      );
    };
    print(TEXT_FIRST);
  }

  function hex(content) {
    replace(body);
    let shown = 0;
    const print = (limit) => {
      const end = Math.min(content.length, shown + limit);
      body.append((shown ? "\n" : "") + dumpHex(content, shown, end));
      shown = end;
      replace(
        more,
        shown < content.length
          ? [element("span", { class: "muted" }, `${formatBytes(shown)} of ${formatBytes(content.length)}`), button("Show more", () => print(HEX_MORE), { kind: "small" })]
          : null,
      );
    };
    print(HEX_FIRST);
  }

  const choose = (name) => {
    for (const one of bar.children) one.setAttribute("aria-pressed", String(one.textContent === name));
    replace(more);
    Promise.resolve(views[name]()).catch((error) => replace(body, error.message));
  };
  const names = Object.keys(views);
  replace(bar, names.map((name) => element("button", { type: "button", "aria-pressed": "false", onclick: () => choose(name) }, name)));
  choose(names[0]);
  const copied = json ?? text;
  const copy = copied !== null && navigator.clipboard ? button("Copy", () => navigator.clipboard.writeText(copied).then(() => notify("Copied.")), { kind: "quiet small", icon: "copy" }) : null;
  return element("div", { class: "payload-view" }, element("div", { class: "row spread" }, bar, copy), body, more);
}

function* slices(text) {
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + 4096);
    if (end < text.length && /[\ud800-\udbff]/.test(text[end - 1])) end += 1; // not within a character
    yield [null, text.slice(at, end)];
    at = end;
  }
}

/** Return the beginning of a payload on one line, for lists. */
export function summarise({ json = null, text = null, bytes = null }, length = 240) {
  if (bytes !== null) {
    let hexes = "";
    for (const byte of bytes.subarray(0, 32)) hexes += `${byte.toString(16).padStart(2, "0")} `;
    return element("span", { class: "mono" }, `${hexes}${bytes.length > 32 ? "…" : ""}`);
  }
  const content = json ?? text;
  const short = content.length > length ? `${content.slice(0, length).toWellFormed()}…` : content;
  return untrusted(json === null ? short : short.replace(/\s+/g, " "));
}
