// Keeps the client connected: runs a session until it ends, reports why, waits, and reconnects.

import { Connection, openSocket } from "./connection.js";
import { MainstemError } from "./errors.js";
import * as limits from "./limits.js";
import { encodeMessage } from "./messages.js";
import { Session } from "./session.js";
import { Diverged } from "./store.js";

/** Return the URL of the sync endpoint for that of a server, or of the endpoint itself. */
export function resolveUrl(given) {
  let url;
  try {
    url = new URL(given, globalThis.location?.href);
  } catch {
    url = { protocol: "" };
  }
  const protocol = { "http:": "ws:", "https:": "wss:", "ws:": "ws:", "wss:": "wss:" }[url.protocol];
  if (!protocol) {
    throw new MainstemError("bad_argument", `${given} is not the URL of a server: use wss://host/v1/sync or https://host`);
  }
  url.protocol = protocol;
  url.hash = "";
  if (url.pathname === "/") url.pathname = "/v1/sync";
  if (/^\/v1\/streams?(\/|$)/.test(url.pathname)) {
    throw new MainstemError("bad_argument", `${given} is the URL of streams: the sync endpoint ends in /v1/sync`);
  }
  return url.href;
}

const closed = () => new MainstemError("client_closed", "the client was closed");

/** Connects one client for as long as it is open. */
export class Connector {
  #owner;
  #options;
  #wasLive = false;
  #pageLimit = limits.PAGE;
  #mismatches = 0;
  #connection = null;
  #running = null;
  #closing = new AbortController();
  #closed = new Promise((resolve) => this.#closing.signal.addEventListener("abort", resolve));
  #tryNow = () => {};

  /**
   * `owner` has facts(), save(updates), load(itemsMax, bytesMax), report(error), setState(state, error) and fail(error).
   * `options` are url, clientId, token, random and WebSocket.
   */
  constructor(owner, options) {
    this.#owner = owner;
    this.#options = options;
  }

  start() {
    this.#running = this.#run().catch((error) => this.#owner.fail(error));
  }

  async stop() {
    this.#closing.abort();
    this.#tryNow();
    this.#connection?.end(closed());
    await this.#running;
  }

  sendDrafts() {
    this.#connection?.sendDrafts();
  }

  call(work) {
    this.#connection?.call(work);
  }

  connectNow() {
    this.#connection?.probe();
    this.#tryNow();
  }

  // Connecting

  async #run() {
    let failures = 0;
    while (!this.#closing.signal.aborted) {
      this.#wasLive = false;
      this.#owner.setState("connecting");
      const error = await this.#connectOnce();
      if (this.#closing.signal.aborted) break;
      this.#mismatches = error.code === "history_behind" ? this.#mismatches + 1 : 0;
      failures = this.#wasLive ? 1 : failures + 1;
      this.#owner.setState("offline", error);
      if (error.code === "client_store_failed") throw error; // the store could not keep anything that arrives
      await this.#backOff(failures);
    }
    this.#owner.setState("offline");
  }

  /** Run one connection, and return why it ended. */
  async #connectOnce() {
    let socket;
    let session;
    try {
      const { url, clientId, token, WebSocket } = this.#options;
      const current = typeof token === "function" ? await Promise.race([token(), this.#closed]) : token;
      if (this.#closing.signal.aborted) throw closed();
      socket = await openSocket(WebSocket, url, this.#closing.signal);
      const isCertain = this.#mismatches + 1 >= limits.MISMATCHES;
      const facts = await this.#owner.facts();
      session = new Session(facts, { clientId, token: current, pageLimit: this.#pageLimit, isCertain });
      if (this.#closing.signal.aborted) throw closed();
      // Partitions that are added from here on go to the session; earlier ones are in the facts.
      this.#connection = new Connection(socket, session, this.#owner, () => {
        this.#wasLive ||= session.phase === "live";
        this.#owner.setState(session.phase, session.refusal);
      });
      await this.#connection.run();
    } catch (error) {
      if (error.code === "server_silent" && session?.awaitsPage) {
        this.#pageLimit = Math.max(limits.PAGE_MIN, this.#pageLimit >> 1);
      }
      if (error instanceof Diverged) return this.#startAgain(error);
      if (error instanceof MainstemError) return error;
      // The application's token function may throw anything.
      return Object.assign(new MainstemError("connection_lost", `cannot connect: ${error}`), { cause: error });
    } finally {
      this.#connection = null;
      this.#close(socket);
    }
  }

  async #startAgain(diverged) {
    const error = new MainstemError("history_mismatch", diverged.message);
    try {
      await this.#owner.save([{ reset: true }]);
    } catch (failure) {
      return failure;
    }
    this.#owner.report(error);
    return error;
  }

  #close(socket) {
    if (socket?.readyState !== 1) return;
    if (this.#closing.signal.aborted) socket.send(encodeMessage("disconnect", { reason: "closed" }));
    socket.close();
  }

  /** Wait before the next attempt, longer each time; the jitter spreads the clients of a server that was away. */
  #backOff(failures) {
    const longest = Math.min(limits.BACKOFF_S_MAX, limits.BACKOFF_S * 2 ** Math.min(failures - 1, 20));
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, longest * (0.5 + this.#options.random() / 2) * 1000);
      this.#tryNow = () => {
        clearTimeout(timer);
        resolve();
      };
      if (this.#closing.signal.aborted) this.#tryNow();
    });
  }
}
