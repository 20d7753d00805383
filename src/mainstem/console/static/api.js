// Requests to the server: the token, retries, problem documents, and event streams over fetch (EventSource can send no
// token).
//
// A GET waits for a server that cannot be reached, and for a token if the server asks for one, and then continues; the
// header of the page says what it waits for. A command is sent once: it fails with an ApiError.

import * as session from "./session.js";
import { Watched } from "./state.js";

const BACKOFF_MS = [250, 500, 1000, 2000, 4000, 8000];
const SLICE_MS = 12;

/** `{online: true}`, or `{online: false, retryAt: ms}` while the server cannot be reached. */
export const connection = new Watched({ online: true, retryAt: null });

/** An error that the server has reported. `message` is a sentence for people. */
export class ApiError extends Error {
  constructor(status, problem) {
    super([capitalise(problem.detail ?? `The server replied with ${status}.`), problem.hint && capitalise(problem.hint)].filter(Boolean).join(" "));
    this.name = "ApiError";
    this.status = status;
    this.code = problem.code ?? "unknown";
    this.problem = problem;
  }
}

function capitalise(text) {
  const sentence = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(sentence) ? sentence : `${sentence}.`;
}

/** Return the URL of an API path such as "/v1/streams". Parameters that are null, undefined or "" are left out. */
export function apiUrl(path, query = {}) {
  const url = new URL(path.replace(/^\//, ""), session.ROOT);
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") url.searchParams.append(name, one);
    }
  }
  return url;
}

/** Return the API path of a stream, for `apiUrl` and the functions below. */
export function streamPath(path) {
  return `${session.config.stream_prefix}/${encodePath(path)}`;
}

/** Percent-encode a name for a URL, but leave its slashes. */
export function encodePath(path) {
  return path.toWellFormed().split("/").map(encodeURIComponent).join("/");
}

/** Send a request, and return the Response of a success. Raises ApiError otherwise. */
export async function request(method, path, { query, headers, body, signal, cache = "no-store" } = {}) {
  const patient = method === "GET" || method === "HEAD";
  for (let failures = 0; ; ) {
    let reply;
    try {
      reply = await fetch(apiUrl(path, query), { method, body, signal, cache, headers: { ...session.authorization(), ...headers } });
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (!patient) throw new ApiError(0, { detail: "the server cannot be reached, so it is unknown whether it has carried this out" });
      await waitForServer(failures++, signal);
      continue;
    }
    if (reply.status === 503 && patient) {
      await reply.body?.cancel();
      await waitForServer(failures++, signal);
      continue;
    }
    if (!connection.value.online) connection.set({ online: true, retryAt: null });
    if (reply.ok || reply.status === 304) return reply;
    const problem = await readProblem(reply);
    if (reply.status === 401) {
      await session.waitForToken(problem.detail ?? "the server asks for a token", signal);
      continue;
    }
    throw new ApiError(reply.status, problem);
  }
}

async function readProblem(reply) {
  // A reply to HEAD has no body; its reason is in a header.
  const challenge = /error_description="([^"]*)"/.exec(reply.headers.get("WWW-Authenticate") ?? "")?.[1];
  const body = await reply.json().catch(() => ({}));
  return { detail: challenge, ...body };
}

/** Return the body of a GET as a value. */
export async function getJson(path, query = {}, signal = undefined) {
  return (await request("GET", path, { query, signal })).json();
}

/** Send a command, with a JSON body if there is one. */
export async function send(method, path, { query, headers, json, body, signal } = {}) {
  if (json !== undefined) {
    body = JSON.stringify(json);
    headers = { "Content-Type": "application/json", ...headers };
  }
  return request(method, path, { query, headers, body, signal });
}

let retryNow = new AbortController();

/** End the pause before the next try. */
export function reconnect() {
  retryNow.abort();
  retryNow = new AbortController();
}

async function waitForServer(failures, signal) {
  const pause = BACKOFF_MS[Math.min(failures, BACKOFF_MS.length - 1)] * (0.8 + 0.4 * Math.random());
  connection.set({ online: false, retryAt: Date.now() + pause });
  const early = retryNow.signal;
  await new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, pause);
    early.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });
}

/**
 * Follow an event stream until `signal` is aborted, `onEvent` returns "stop", or the server reports an error (ApiError).
 *
 * It reconnects after every end, with `query(lastId)`, where lastId is the id of the last event, or null. `onEvent` gets
 * `{event, data, id}`; `onOpen` gets the Response of each connection. Events are handed over in slices of some
 * milliseconds, between which the page can render and react; meanwhile the server waits.
 */
export async function follow(path, { query, signal, onEvent, onOpen = () => {} }) {
  let lastId = null;
  for (let failures = 0; ; ) {
    const reply = await request("GET", path, { query: query(lastId), headers: { Accept: "text/event-stream" }, signal });
    onOpen(reply);
    const parser = new EventParser();
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let events = 0;
    try {
      let began = performance.now();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        for (const event of parser.feed(value)) {
          failures = 0;
          events += 1;
          if (event.id !== null) lastId = event.id;
          if (onEvent(event) === "stop") return;
          if (performance.now() - began > SLICE_MS) {
            await nextFrame();
            if (signal?.aborted) throw signal.reason;
            began = performance.now();
          }
        }
      }
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (!(error instanceof TypeError)) throw error; // TypeError: the connection broke
      await waitForServer(failures++, signal);
      continue;
    } finally {
      reader.cancel().catch(() => {}); // a broken connection cannot be cancelled, and need not be
    }
    // A server that is about to stop ends the stream at once; asking again without a pause would only burden it.
    if (events === 0) await waitForServer(failures++, signal);
  }
}

/** Wait until the page has been rendered, or some milliseconds if it is hidden and not rendered at all. */
export function nextFrame() {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, 100);
    requestAnimationFrame(() => (clearTimeout(timer), setTimeout(resolve)));
  });
}

/** A parser of server-sent events, for text in pieces of any size. */
export class EventParser {
  #pieces = [];
  #data = [];
  #event = "message";
  #id = null;

  *feed(text) {
    let from = 0;
    for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", from)) {
      this.#pieces.push(text.slice(from, at));
      const line = this.#pieces.length === 1 ? this.#pieces[0] : this.#pieces.join("");
      this.#pieces = [];
      from = at + 1;
      const event = this.#take(line);
      if (event !== null) yield event;
    }
    if (from < text.length) this.#pieces.push(text.slice(from));
  }

  #take(line) {
    if (line === "") {
      const event = this.#data.length ? { event: this.#event, data: this.#data.join("\n"), id: this.#id } : null;
      this.#data = [];
      this.#event = "message";
      this.#id = null;
      return event;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
    else if (name === "id") this.#id = value;
    return null;
  }
}
