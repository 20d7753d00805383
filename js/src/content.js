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

const invalid = (field, text) => new MainstemError("invalid_draft", text, { field });

/** Return the names as a sorted set in NFC, as the server compares them. */
export function normaliseFilter(names) {
  const most = limits.FILTER_PARTITIONS_MAX;
  const partitions = [...new Set(toArray(names).map(normaliseName))].sort(compareNames);
  if (partitions.length > most) throw invalid("partitions", `a client can follow at most ${most} partitions`);
  return partitions;
}

/** Return the same for the partitions of an event, of which there is at least one. */
export function normalisePartitions(names) {
  const partitions = normaliseFilter(names);
  const most = limits.EVENT_PARTITIONS_MAX;
  if (!partitions.length) throw invalid("partitions", "an event must have at least one partition");
  if (partitions.length > most) throw invalid("partitions", `an event can have at most ${most} partitions`);
  return partitions;
}

function toArray(names) {
  if (typeof names === "string" || typeof names?.[Symbol.iterator] !== "function") {
    throw invalid("partitions", "partitions must be an array of strings");
  }
  return [...names];
}

function normaliseName(name) {
  const most = limits.PARTITION_NAME_BYTES_MAX;
  if (typeof name !== "string") throw invalid("partitions", "partitions must be an array of strings");
  if (!name) throw invalid("partitions", "a partition name must not be empty");
  if (!name.isWellFormed()) throw invalid("partitions", "a partition name has a lone surrogate");
  // A composed character decomposes into at most four; the cost of normalising a longer name has no bound.
  const normal = name.length > 8 * most ? name : name.normalize("NFC");
  if (byteLength(normal) > most) {
    throw invalid("partitions", `a partition name can have at most ${most} bytes of UTF-8`);
  }
  return normal;
}

/** Return the text by which a retry is recognised (RFC 8785). Both arguments must be valid. */
export const canonicalContent = (partitions, event) =>
  `{"event":${canonicalize(event)},"partitions":${JSON.stringify(partitions)}}`;

export function canonicalize(value) {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalize).join()}]`;
  const members = Object.keys(value).sort(); // by UTF-16 units, as the RFC asks
  return `{${members.map((key) => `${JSON.stringify(key)}:${canonicalize(value[key])}`).join()}}`;
}

/** Return a copy of an event, made of what JSON has. Throw `invalid_draft` if no server would accept it. */
export function copyEvent(event) {
  if (event === null || typeof event !== "object" || Array.isArray(event)) {
    throw invalid("event", "the event must be an object");
  }
  let copy;
  try {
    copy = JSON.parse(JSON.stringify(event, refuseUnencodable));
  } catch (error) {
    throw error instanceof MainstemError ? error : invalid("event", `the event cannot be written as JSON: ${error.message}`);
  }
  if (copy === null || typeof copy !== "object" || Array.isArray(copy)) {
    throw invalid("event", "the event must be an object");
  }
  if (depth(copy) > limits.JSON_DEPTH_MAX) {
    throw invalid("event", `the event is nested more than ${limits.JSON_DEPTH_MAX} levels deep`);
  }
  return copy;
}

function refuseUnencodable(key, value) {
  const kind = typeof value;
  if (!key.isWellFormed() || (kind === "string" && !value.isWellFormed())) {
    throw invalid("event", "a string in the event has a lone surrogate");
  }
  if (kind === "number" && !Number.isFinite(value)) throw invalid("event", "JSON has no NaN and no Infinity");
  if (kind === "bigint" || kind === "function" || kind === "symbol") throw invalid("event", `JSON has no ${kind}`);
  return value;
}

/** Return how many levels of arrays and objects a value has. */
function depth(value) {
  let level = [value];
  let levels = 0;
  while ((level = level.filter((inner) => inner !== null && typeof inner === "object")).length) {
    levels += 1;
    level = level.flatMap((inner) => Object.values(inner));
  }
  return levels;
}

/** Return a draft, or throw `invalid_draft`. The store assigns its clock. */
export function makeDraft(id, partitions, event) {
  if (typeof id !== "string" || !id || byteLength(id) > limits.EVENT_ID_BYTES_MAX) {
    throw invalid("id", `the id must be 1 to ${limits.EVENT_ID_BYTES_MAX} bytes long`);
  }
  if (!id.isWellFormed()) throw invalid("id", "the id is not valid Unicode text");
  const draft = { clock: 0, id, partitions: normalisePartitions(partitions), event: copyEvent(event) };
  const size = draftBytes(draft) + SUBMIT_OVERHEAD_BYTES + 1;
  if (size > limits.SUBMIT_BYTES_MAX) {
    throw invalid("event", `the event takes ${size} bytes; the limit is ${limits.SUBMIT_BYTES_MAX}`);
  }
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
