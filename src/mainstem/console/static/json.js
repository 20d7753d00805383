// JSON as text: splitting an array into its elements, and printing a value with line breaks. Neither builds values, so
// numbers and duplicate keys stay exactly as they were sent, and a message of many megabytes costs one pass.

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Return the elements of a JSON array as texts. The text must be valid JSON. */
export function splitArray(text) {
  const elements = [];
  let at = text.indexOf("[") + 1;
  let from = at;
  let depth = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = endOfString(text, at);
      continue;
    }
    if (code === 0x5b || code === 0x7b) depth += 1;
    else if (code === 0x5d || code === 0x7d) {
      if (depth === 0) break;
      depth -= 1;
    } else if (code === 0x2c && depth === 0) {
      elements.push(text.slice(from, at).trim());
      from = at + 1;
    }
    at += 1;
  }
  const last = text.slice(from, at).trim();
  if (last) elements.push(last);
  return elements;
}

/** Return the members of a JSON object: a Map from their names to their values as texts. The text must be valid JSON. */
export function splitObject(text) {
  const members = new Map();
  let at = text.indexOf("{") + 1;
  let depth = 0;
  let name = null;
  let from = at;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      const end = endOfString(text, at);
      if (depth === 0 && name === null) name = JSON.parse(text.slice(at, end));
      at = end;
      continue;
    }
    if (depth === 0 && (code === 0x2c || code === 0x7d)) {
      if (name !== null) members.set(name, text.slice(from, at).trim());
      name = null;
      if (code === 0x7d) break;
    } else if (depth === 0 && code === 0x3a) from = at + 1;
    else if (code === 0x5b || code === 0x7b) depth += 1;
    else if (code === 0x5d || code === 0x7d) depth -= 1;
    at += 1;
  }
  return members;
}

/** Return where the string that begins at `at` ends: the index after its closing quote. */
function endOfString(text, at) {
  for (;;) {
    at = text.indexOf('"', at + 1);
    if (at < 0) return text.length;
    let slashes = 0;
    while (text.charCodeAt(at - 1 - slashes) === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return at + 1;
  }
}

const PIECE = 4096;
const SCALAR = /[^\s,:[\]{}"]+/y;
const SPACE = /\s+/y;

/**
 * Yield `[kind, text]` pieces of a value, printed with indentation. Kinds: "key", "string", "number", "word", "mark".
 * Long strings come in several pieces, so that a caller can stop at any size. Text that is not JSON ends with the rest
 * of it as it is.
 */
export function* printJson(text) {
  let at = 0;
  let depth = 0;
  const open = [];
  let empty = false;
  const line = () => `\n${"  ".repeat(depth)}`;
  while (at < text.length) {
    SPACE.lastIndex = at;
    if (SPACE.test(text)) at = SPACE.lastIndex;
    if (at >= text.length) return;
    const character = text[at];
    if (character === "{" || character === "[") {
      if (empty) yield ["mark", line()];
      open.push(character);
      depth += 1;
      empty = true;
      yield ["mark", character];
      at += 1;
    } else if (character === "}" || character === "]") {
      depth = Math.max(0, depth - 1);
      open.pop();
      yield ["mark", empty ? character : line() + character];
      empty = false;
      at += 1;
    } else if (character === ",") {
      yield ["mark", `,${line()}`];
      at += 1;
    } else if (character === ":") {
      yield ["mark", ": "];
      at += 1;
    } else {
      if (empty) yield ["mark", line()];
      empty = false;
      let end;
      let kind;
      if (character === '"') {
        end = endOfString(text, at);
        SPACE.lastIndex = end;
        const next = SPACE.test(text) ? SPACE.lastIndex : end;
        kind = open.at(-1) === "{" && text[next] === ":" ? "key" : "string";
      } else {
        SCALAR.lastIndex = at;
        if (!SCALAR.test(text)) return;
        end = SCALAR.lastIndex;
        kind = /[-0-9]/.test(character) ? "number" : "word";
      }
      for (; at < end; at += PIECE) yield [kind, text.slice(at, Math.min(end, at + PIECE))];
      at = end;
    }
  }
}
