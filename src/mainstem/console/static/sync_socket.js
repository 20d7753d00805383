// Submitting events: one short connection of the sync protocol per command.

import { apiUrl } from "./api.js";
import * as session from "./session.js";

const WAIT_MS = 15_000;
const VERSION = "1.0";
const UNKNOWN = "so it is unknown whether the event was committed. Submit it again: it is committed once at most.";

/** Whether the token can submit at all: the protocol knows clients by the id in their tokens. */
export function maySubmit() {
  const mine = session.identity.value;
  return mine !== null && (!mine.authenticates || mine.client_id !== null);
}

/** Return a new id for an event. */
export function makeEventId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  // A page that was loaded over plain HTTP, from another machine, has only this.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/**
 * Submit one event, given as JSON text, and return its committed id. A repetition with the same id commits nothing new.
 * Raises an Error with a sentence for people.
 */
export function submitEvent(id, partitions, json) {
  return new Promise((resolve, reject) => {
    const url = apiUrl("/v1/sync");
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url);
    let submitted = false;
    const finish = (settle, value) => {
      clearTimeout(timer);
      settle(value);
      socket.close(1000);
    };
    const fail = (text) => finish(reject, new Error(text));
    const lost = () => fail(submitted ? `The connection was lost, ${UNKNOWN}` : "The server cannot be reached. Nothing was submitted.");
    const timer = setTimeout(() => fail(submitted ? `The server does not answer, ${UNKNOWN}` : "The server does not answer. Nothing was submitted."), WAIT_MS);
    const say = (type, payload) => socket.send(`{"type":"${type}","protocol_version":"${VERSION}","payload":${payload}}`);
    socket.addEventListener("open", () => say("connect", JSON.stringify(describeClient())));
    socket.addEventListener("error", lost);
    socket.addEventListener("close", lost);
    socket.addEventListener("message", ({ data }) => {
      const { type, payload } = JSON.parse(data);
      if (type === "connected") {
        submitted = true;
        // The event is sent as it was written: a number keeps all of its digits.
        say("submit_events", `{"events":[{"id":${JSON.stringify(id)},"partitions":${JSON.stringify(partitions)},"event":${json}}]}`);
      } else if (type === "submit_events_result") {
        const [result] = payload.results;
        if (result.status === "committed") finish(resolve, result.committed_id);
        else fail(describeRejection(result));
      } else if (type === "error") fail(`${sentence(payload.message)}${payload.code === "server_error" && submitted ? ` The server failed, ${UNKNOWN}` : ""}`);
    });
  });
}

function describeClient() {
  const { Authorization: header } = session.authorization();
  const client = { client_id: session.identity.value?.client_id ?? "console" };
  return header === undefined ? client : { ...client, token: header.replace(/^Bearer /, "") };
}

function describeRejection({ reason, errors }) {
  const found = (errors ?? []).map(({ field, message }) => (field ? `${field}: ${message}` : message)).join("; ");
  return `The server rejected the event: ${found || reason}.`;
}

function sentence(text) {
  const found = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(found) ? found : `${found}.`;
}
