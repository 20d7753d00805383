// Numbers, times and payloads as text for people. Nothing here touches the page.

// Controls, marks of direction, zero-width and invisible characters, line separators, lone surrogates, tags.
const HIDDEN = /[\u0000-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]|\p{Surrogate}/gu;

/**
 * Split text into parts, where `escaped` parts stand for characters that cannot be seen: `[{text, escaped}]`.
 * With `lines`, line feeds and tabs stay as they are.
 */
export function showHidden(text, { lines = false } = {}) {
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (lines && (found[0] === "\n" || found[0] === "\t")) continue;
    if (found.index > from) parts.push({ text: text.slice(from, found.index), escaped: false });
    parts.push({ text: escapeCharacter(found[0]), escaped: true });
    from = found.index + found[0].length;
  }
  if (from < text.length) parts.push({ text: text.slice(from), escaped: false });
  return parts;
}

/** Return text with the characters that cannot be seen as escapes, for titles and for comparisons. */
export function plainText(text) {
  return showHidden(text).map((part) => part.text).join("");
}

function escapeCharacter(character) {
  const code = character.codePointAt(0);
  if (code === 0xa0) return "\\xa0";
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\u{${code.toString(16)}}`;
}

// Numbers

const WHOLE = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** 12 345 */
export function formatCount(number) {
  return number === null || number === undefined ? "–" : WHOLE.format(number).replaceAll(",", "\u202f");
}

/** 1.2k, 3.4M: for charts and tiles. */
export function formatShort(number) {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  const size = Math.abs(number);
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= limit) return `${trim(number / (unit === "k" ? 1e3 : limit))}${unit}`;
  }
  return size >= 100 || Number.isInteger(number) ? formatCount(number) : trim(number);
}

function trim(number) {
  return Math.abs(number) >= 100 ? number.toFixed(0) : Math.abs(number) >= 10 ? number.toFixed(1) : String(Number(number.toFixed(2)));
}

/** 1.5 MiB */
export function formatBytes(bytes) {
  if (bytes === null || bytes === undefined || Number.isNaN(bytes)) return "–";
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit < UNITS.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(bytes) : trim(bytes)} ${UNITS[unit]}`;
}

/** 1.2 ms, from seconds. */
export function formatSeconds(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 0.001) return `${trim(seconds * 1e6)} µs`;
  if (seconds < 1) return `${trim(seconds * 1e3)} ms`;
  return seconds < 120 ? `${trim(seconds)} s` : formatSpan(seconds);
}

/** 3 d 4 h: the two largest units of a span of seconds. */
export function formatSpan(seconds) {
  seconds = Math.max(0, Math.round(seconds));
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
    const number = Math.floor(seconds / size);
    seconds -= number * size;
    if (number || (unit === "s" && !parts.length)) parts.push(`${number} ${unit}`);
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

// Times

/** 2026-07-01 12:30:00, in the time zone of the reader. */
export function formatTime(time) {
  const date = time instanceof Date ? time : new Date(time);
  if (Number.isNaN(date.getTime())) return "–";
  const two = (number) => String(number).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** How long ago a time was, such as "3 h 5 min". */
export function formatAge(time) {
  const then = new Date(time).getTime();
  return Number.isNaN(then) ? "–" : formatSpan((Date.now() - then) / 1000);
}

// Payloads

export function isJson(contentType) {
  return mediaType(contentType) === "application/json";
}

/** Whether the server sends a stream of this content type as text. */
export function isText(contentType) {
  return mediaType(contentType).startsWith("text/");
}

export function mediaType(contentType) {
  return (contentType || "").split(";")[0].trim().toLowerCase();
}

/** Return the text of UTF-8 bytes, or null if they are not UTF-8. */
export function decodeUtf8(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

export function decodeBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

/** Return lines of `00000010  68 65 6c 6c 6f ...  |hello...|` for the bytes from `start` to `end`. */
export function dumpHex(bytes, start = 0, end = bytes.length) {
  const lines = [];
  for (let at = start; at < end; at += 16) {
    const row = bytes.subarray(at, Math.min(at + 16, end));
    let hex = "";
    let text = "";
    for (let column = 0; column < 16; column += 1) {
      if (column === 8) hex += " ";
      if (column < row.length) {
        hex += `${row[column].toString(16).padStart(2, "0")} `;
        text += row[column] >= 0x20 && row[column] < 0x7f ? String.fromCharCode(row[column]) : ".";
      } else hex += "   ";
    }
    lines.push(`${at.toString(16).padStart(8, "0")}  ${hex} |${text}|`);
  }
  return lines.join("\n");
}
