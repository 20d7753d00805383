// What an event and its partitions are: names in their normal form, and the canonical text that decides equality.

import { MainstemError } from "./errors.js";
import * as limits from "./limits.js";

const encoder = new TextEncoder();

export const byteLength = (text) => encoder.encode(text).length;

/** Compare two names by code points, which is the order of their UTF-8 bytes. JavaScript compares UTF-16 units. */
export function compareNames(a, b) {
  const [left, right] = [[...a], [...b]];
  const at = left.findIndex((character, index) => character !== right[index]);
  if (at < 0 || at >= right.length) return left.length - right.length;
  return left[at].codePointAt(0) - right[at].codePointAt(0);
}

function require(condition, field, rule) {
  if (!condition) throw new MainstemError("invalid_draft", `${field} must ${rule}`, { field });
}

/** Return the names as a sorted set in NFC, as the server compares them. */
export function normaliseFilter(names, least = 0, most = limits.FILTER_PARTITIONS_MAX) {
  require(Array.isArray(names), "partitions", "be an array of names");
  const partitions = [...new Set(names.map(normaliseName))].sort(compareNames);
  const count = partitions.length;
  require(count >= least && count <= most, "partitions", `have ${least} to ${most} names`);
  return partitions;
}

/** Return the same for the partitions of an event. */
export const normalisePartitions = (names) => normaliseFilter(names, 1, limits.EVENT_PARTITIONS_MAX);

function normaliseName(name) {
  const most = limits.PARTITION_NAME_BYTES_MAX;
  // A composed character decomposes into at most four; the cost of normalising a longer name has no bound.
  const normal = isText(name) && name.length <= 8 * most ? name.normalize("NFC") : "";
  require(hasBytes(normal, most), "partitions", `have names of 1 to ${most} bytes of UTF-8`);
  return normal;
}

const isText = (value) => typeof value === "string" && value.isWellFormed();
const hasBytes = (text, most) => text.length > 0 && byteLength(text) <= most;

/** Return the text by which a retry is recognised (RFC 8785). Both arguments must be valid. */
export const canonicalContent = (partitions, event) =>
  `{"event":${canonicalize(event)},"partitions":${JSON.stringify(partitions)}}`;

function canonicalize(value, levels = Infinity) {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  require(levels > 0, "event", `have at most ${limits.JSON_DEPTH_MAX} levels`);
  const write = (inner) => canonicalize(inner, levels - 1);
  if (Array.isArray(value)) return `[${value.map(write).join()}]`;
  const members = Object.keys(value).sort(); // by UTF-16 units, as the RFC asks
  return `{${members.map((key) => `${JSON.stringify(key)}:${write(value[key])}`).join()}}`;
}

/** Return a copy of an event, made of what JSON has. Throw `invalid_draft` if no server would accept it. */
export function copyEvent(event) {
  let text;
  try {
    text = JSON.stringify(event, requireJson);
  } catch (error) {
    require(error instanceof MainstemError, "event", `be JSON: ${error.message}`); // a cycle, or a toJSON that fails
    throw error;
  }
  require(text?.[0] === "{", "event", "be an object");
  const copy = JSON.parse(text);
  canonicalize(copy, limits.JSON_DEPTH_MAX);
  return copy;
}

/** Refuse what JSON.stringify would silently leave out or write as null. */
function requireJson(key, value) {
  require(isText(key) && (typeof value !== "string" || isText(value)), "event", "have no lone surrogate");
  require(typeof value !== "number" || Number.isFinite(value), "event", "have no NaN and no Infinity");
  require(!["bigint", "function", "symbol"].includes(typeof value), "event", `have no ${typeof value}`);
  return value;
}

/** Return a draft, or throw `invalid_draft`. The store assigns its clock. */
export function makeDraft(id, partitions, event) {
  const most = limits.EVENT_ID_BYTES_MAX;
  require(isText(id) && hasBytes(id, most), "id", `be a text of 1 to ${most} bytes`);
  const draft = { clock: 0, id, partitions: normalisePartitions(partitions), event: copyEvent(event) };
  const size = draftBytes(draft) + SUBMIT_OVERHEAD_BYTES + 1;
  require(size <= limits.SUBMIT_BYTES_MAX, "event", `take at most ${limits.SUBMIT_BYTES_MAX} bytes, not ${size}`);
  return { ...draft, bytes: byteLength(JSON.stringify(draft.event)) };
}

/** Return the size of a draft in a submit message. */
export const draftBytes = ({ id, partitions, event }) => byteLength(JSON.stringify({ id, partitions, event }));

/** The size of a submit message without its drafts. */
export const SUBMIT_OVERHEAD_BYTES = JSON.stringify({
  type: "submit_events",
  payload: { events: [] },
  protocol_version: "1.0",
  msg_id: "9".repeat(20),
}).length;

/** Return whether a draft and what the store has under its id are the same event. */
export const isSame = (draft, known) =>
  canonicalContent(draft.partitions, draft.event) === canonicalContent(known.partitions, known.event);
