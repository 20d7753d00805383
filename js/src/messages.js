// Messages of the sync protocol, as the client encodes them, and as it decodes and checks them.

import { protocolFault } from "./errors.js";
import * as limits from "./limits.js";

export const VERSION = "1.0";

export function encodeMessage(type, payload, msgId) {
  const message = { type, payload, protocol_version: VERSION };
  if (msgId !== undefined) message.msg_id = msgId;
  return JSON.stringify(message);
}

const isText = (value) => typeof value === "string";
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const isId = (value) => Number.isSafeInteger(value) && value >= 0;
const isTexts = (value) => Array.isArray(value) && value.every(isText);

function check(condition) {
  if (!condition) {
    throw protocolFault("the server sent something that is not a message of the sync protocol");
  }
}

/** Return the value of an optional field. */
function optional(object, name, isValid, fallback) {
  const value = object[name] ?? undefined;
  check(value === undefined || isValid(value));
  return value ?? fallback;
}

function list(object, name, decode) {
  check(Array.isArray(object[name]));
  return object[name].map((item) => {
    check(isObject(item));
    return decode(item);
  });
}

const optionalList = (object, name, decode) => (object[name] == null ? [] : list(object, name, decode));

function decodeFault(fault) {
  return { field: optional(fault, "field", isText, ""), message: optional(fault, "message", isText, "") };
}

function decodeResult(result) {
  check(isText(result.id) && isText(result.status));
  return {
    id: result.id,
    status: result.status,
    committedId: optional(result, "committed_id", isId, null),
    reason: optional(result, "reason", isText, null),
    errors: optionalList(result, "errors", decodeFault),
    committedAt: optional(result, "status_updated_at", isText, ""),
  };
}

function decodeEvent(event) {
  check(isId(event.committed_id) && isText(event.id) && isTexts(event.partitions));
  if (!isObject(event.event)) {
    throw protocolFault(`the event at committed id ${event.committed_id} is not a JSON object`);
  }
  if (event.committed_id < 1 || !event.id || !event.partitions.length) {
    throw protocolFault(`the event at committed id ${event.committed_id} is malformed`);
  }
  return {
    committedId: event.committed_id,
    id: event.id,
    clientId: optional(event, "client_id", isText, ""),
    partitions: event.partitions,
    event: event.event,
    committedAt: optional(event, "status_updated_at", isText, ""),
  };
}

function decodeSnapshot(snapshot) {
  check(isText(snapshot.partition) && isId(snapshot.committed_id) && snapshot.state !== undefined);
  return { partition: snapshot.partition, committedId: snapshot.committed_id, state: snapshot.state };
}

const PAYLOADS = {
  connected(payload) {
    const announced = optional(payload, "limits", isObject, {});
    return {
      head: optional(payload, "server_last_committed_id", isId, null),
      limits: {
        messageBytesMax: optional(announced, "message_bytes_max", Number.isInteger, limits.SUBMIT_BYTES_MAX),
        batchItemsMax: optional(announced, "batch_items_max", Number.isInteger, limits.BATCH_ITEMS_MAX),
        draftsMax: optional(announced, "drafts_max", Number.isInteger, limits.IN_FLIGHT_MAX),
      },
    };
  },
  submit_events_result: (payload) => ({ results: list(payload, "results", decodeResult) }),
  event_broadcast: decodeEvent,
  sync_response(payload) {
    check(isId(payload.next_since_committed_id) && isId(payload.sync_to_committed_id));
    check(typeof payload.has_more === "boolean");
    return {
      events: list(payload, "events", decodeEvent),
      nextSince: payload.next_since_committed_id,
      until: payload.sync_to_committed_id,
      hasMore: payload.has_more,
      snapshots: optionalList(payload, "snapshots", decodeSnapshot),
      truncated: optional(payload, "history_truncated", isTexts, []),
    };
  },
  error(payload) {
    check(isText(payload.code));
    return {
      code: payload.code,
      message: optional(payload, "message", isText, ""),
      details: optional(payload, "details", isObject, {}),
    };
  },
};

// A number with as many digits, or such an exponent, may be beyond the range of a double. JSON.parse makes it Infinity.
const HUGE = /\d{309}|[eE]\+?\d{3}/;
const refuseInfinity = (_, value) => (check(value !== Infinity && value !== -Infinity), value);

/** Return the type, the msg_id and the payload of a message; the payload is null for a type that clients do not use. */
export function decodeMessage(text) {
  check(isText(text) && text.length <= limits.MESSAGE_BYTES_MAX);
  let message = null;
  try {
    message = HUGE.test(text) ? JSON.parse(text, refuseInfinity) : JSON.parse(text);
  } catch {
    check(false);
  }
  check(isObject(message) && isText(message.type) && isObject(message.payload) && isText(message.protocol_version));
  const version = message.protocol_version;
  if (version !== VERSION) {
    const shown = JSON.stringify(version.slice(0, 16));
    throw protocolFault(`the server speaks protocol version ${shown}, and this client ${VERSION}`);
  }
  const msgId = optional(message, "msg_id", (value) => isText(value) || Number.isInteger(value), null);
  const decode = Object.hasOwn(PAYLOADS, message.type) ? PAYLOADS[message.type] : null;
  return { type: message.type, msgId, payload: decode && decode(message.payload) };
}
