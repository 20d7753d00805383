// Messages of the sync protocol, as the client encodes them, and as it decodes and checks them.

import { protocolFault } from "./errors.js";
import * as limits from "./limits.js";

export const VERSION = "1.0";

export function encodeMessage(type, payload, msgId) {
  const message = { type, payload, protocol_version: VERSION };
  if (msgId !== undefined) message.msg_id = msgId;
  return JSON.stringify(message);
}

// Checks of values. A field with a default may be absent or null.

const isText = (value) => typeof value === "string";
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const isId = (value) => Number.isSafeInteger(value) && value >= 0;
const isList = (isItem) => (value) => Array.isArray(value) && value.every(isItem);
const isTexts = isList(isText);

function check(condition, reason) {
  if (!condition) throw protocolFault(reason);
}

/** Return the value of a field, or its default. */
function field(object, name, isValid, ...fallback) {
  const value = object[name] ?? fallback[0];
  check((value === fallback[0] && fallback.length) || isValid(value), `the field ${name}`);
  return value;
}

const list = (object, name, decode, ...fallback) => field(object, name, isList(isObject), ...fallback).map(decode);

const decodeFault = (fault) => ({ field: field(fault, "field", isText, ""), message: field(fault, "message", isText, "") });

const decodeResult = (result) => ({
  id: field(result, "id", isText),
  status: field(result, "status", isText),
  committedId: field(result, "committed_id", isId, null),
  reason: field(result, "reason", isText, null),
  errors: list(result, "errors", decodeFault, []),
  committedAt: field(result, "status_updated_at", isText, ""),
});

const decodeEvent = (event) => ({
  committedId: field(event, "committed_id", (id) => isId(id) && id > 0),
  id: field(event, "id", (id) => isText(id) && id),
  clientId: field(event, "client_id", isText, ""),
  partitions: field(event, "partitions", (names) => isTexts(names) && names.length),
  event: field(event, "event", isObject),
  committedAt: field(event, "status_updated_at", isText, ""),
});

const decodeSnapshot = (snapshot) => {
  check("state" in snapshot, "the field state");
  return {
    partition: field(snapshot, "partition", isText),
    committedId: field(snapshot, "committed_id", isId),
    state: snapshot.state,
  };
};

const PAYLOADS = {
  connected(payload) {
    const announced = field(payload, "limits", isObject, {});
    return {
      head: field(payload, "server_last_committed_id", isId, null),
      messageBytesMax: field(announced, "message_bytes_max", Number.isInteger, limits.SUBMIT_BYTES_MAX),
      batchItemsMax: field(announced, "batch_items_max", Number.isInteger, limits.BATCH_ITEMS_MAX),
      draftsMax: field(announced, "drafts_max", Number.isInteger, limits.IN_FLIGHT_MAX),
    };
  },
  submit_events_result: (payload) => list(payload, "results", decodeResult),
  event_broadcast: decodeEvent,
  sync_response: (payload) => ({
    events: list(payload, "events", decodeEvent),
    nextSince: field(payload, "next_since_committed_id", isId),
    until: field(payload, "sync_to_committed_id", isId),
    hasMore: field(payload, "has_more", (value) => value === !!value),
    snapshots: list(payload, "snapshots", decodeSnapshot, []),
    truncated: field(payload, "history_truncated", isTexts, []),
  }),
  error: (payload) => ({
    code: field(payload, "code", isText),
    message: field(payload, "message", isText, ""),
    details: field(payload, "details", isObject, {}),
  }),
};

// A number with as many digits, or such an exponent, may be beyond the range of a double. JSON.parse makes it Infinity.
const HUGE = /\d{309}|[eE]\+?\d{3}/;
const refuseInfinity = (_, value) => (check(Math.abs(value) !== Infinity, "a number out of range"), value);

/** Return the type, the msg_id and the payload of a message; the payload is null for a type that clients do not use. */
export function decodeMessage(text) {
  check(isText(text) && text.length <= limits.MESSAGE_BYTES_MAX, "a message that is binary or too long");
  let message;
  try {
    message = JSON.parse(text, HUGE.test(text) ? refuseInfinity : undefined);
  } catch {
    check(false, "a message that is not JSON");
  }
  check(isObject(message), "a message that is not an object");
  const type = field(message, "type", isText);
  const payload = field(message, "payload", isObject);
  field(message, "protocol_version", (version) => version === VERSION);
  return {
    type,
    msgId: field(message, "msg_id", (id) => isText(id) || Number.isInteger(id), null),
    payload: Object.hasOwn(PAYLOADS, type) ? PAYLOADS[type](payload) : null,
  };
}
