// One connection as a pure state machine: it takes messages, and returns what to store and what to send.
//
// It knows no clock, no socket and no store. Each call returns effects, which the owner performs in order: it sends
// nothing that follows a `save` until that is durable. If an effect fails, the owner discards the session, and the next
// one begins with what the store holds. So the machine never has to undo anything.
//
//     connected ──► catch up from the cursor ──► fetch added partitions from 0 ──► live
//                         ▲                                                         │
//                         └──────────────── every RENEW_EVENTS ◄────────────────────┘
//
// Only pages move the cursor: results and broadcasts are applied, but they do not prove that nothing is missing before
// them. While live, a sync cycle now and then moves the cursor past them.

import { byteLength, compareNames } from "./content.js";
import { MainstemError, protocolFault, serverRefused } from "./errors.js";
import * as limits from "./limits.js";
import { decodeMessage, encodeMessage } from "./messages.js";
import { SubmitQueue, pauseSeconds } from "./queue.js";

const ENDING_CODES = ["auth_failed", "server_error", "protocol_version_unsupported"];

const save = (update) => ({ type: "save", update });
const report = (error) => ({ type: "report", error });
const pause = (seconds) => ({ type: "pause", seconds });
const sorted = (names) => [...names].sort(compareNames);

/** The state of one connection. */
export class Session {
  /** "connecting", "syncing" or "live". */
  phase = "connecting";
  #clientId;
  #token;
  #pageLimit;
  #isCertain;
  #cursor;
  #highest;
  /** Partitions that the cursor covers. */
  #joined = new Set();
  /** Added partitions, and the committed id up to which their history has been fetched. */
  #pending = new Map();
  #messages = 0;
  #queue = new SubmitQueue(() => this.#nextId());
  /** The running sync cycle: {partitions, since, fetches, until, msgId}. */
  #cycle = null;
  #early = new Map();
  #earlyBytes = 0;
  #beginAgain = false;
  #oneByOne = false;
  #refused = null;
  /** How many events were applied that the cursor does not cover yet. */
  #ahead = 0;
  #syncPaused = false;

  /** With `isCertain`, a log that ends too early counts as another log; without it, the node may just lag behind. */
  constructor(facts, { clientId, token, pageLimit = limits.PAGE, isCertain = true }) {
    this.#clientId = clientId;
    this.#token = token;
    this.#pageLimit = pageLimit;
    this.#isCertain = isCertain;
    this.#cursor = facts.cursor;
    this.#highest = facts.highest;
    for (const { name, since } of facts.partitions) {
      if (since === null) this.#joined.add(name);
      else this.#pending.set(name, since);
    }
  }

  get awaitsPage() {
    return this.#cycle !== null;
  }

  /** Why the server does not let this client follow its partitions; null if it does. */
  get refusal() {
    return this.#refused;
  }

  // Input

  open() {
    const payload = { token: this.#token, client_id: this.#clientId };
    return [{ type: "send", text: encodeMessage("connect", payload, this.#nextId()) }];
  }

  /** Process one message of the server. Throw the error if it ends the connection. */
  receive(text) {
    const { type, msgId, payload } = decodeMessage(text);
    if (!payload) return []; // heartbeat_ack, or a type that only newer clients know
    if (type === "error") return this.#onError(msgId, payload);
    if (type === "connected") return this.#onConnected(payload);
    if (this.phase === "connecting") throw protocolFault(`${type} before connected`);
    if (type === "submit_events_result") return this.#onResults(msgId, payload);
    if (type === "sync_response") return this.#onPage(msgId, payload);
    return this.#onBroadcast(payload);
  }

  /** Take the drafts that `load` asked for. */
  offer(drafts) {
    return this.#queue.offer(drafts);
  }

  /** Send the drafts of the store, unless a request is in flight. */
  sendDrafts() {
    return this.#queue.load();
  }

  /** Continue after a pause. */
  resume() {
    if (this.#refused) throw this.#refused; // the next connection asks for a new token
    const effects = [];
    if (this.#syncPaused && this.#cycle) {
      this.#syncPaused = false;
      effects.push(this.#requestPage(this.#cycle.until === null));
    }
    return [...effects, ...this.#queue.resume()];
  }

  /** Follow more partitions, and fetch their history from 0. */
  follow(names) {
    for (const name of names) {
      if (!this.#joined.has(name) && !this.#pending.has(name)) this.#pending.set(name, 0);
    }
    return this.#continueIfIdle();
  }

  unfollow(names) {
    for (const name of names) {
      this.#joined.delete(name);
      this.#pending.delete(name);
    }
    this.#refused = null;
    this.#beginAgain = true;
    return this.#continueIfIdle();
  }

  // Connecting

  #onConnected({ head, ...announced }) {
    if (this.phase !== "connecting") throw protocolFault("connected twice");
    this.phase = "syncing";
    const seen = Math.max(this.#cursor, this.#highest);
    const effects = head !== null && head < seen ? this.#forget(head, seen) : [];
    return [...effects, ...this.#begin(), ...this.#queue.begin(announced)];
  }

  /** Start from scratch with another log. Drafts stay; if the log knows their ids, the server recognises them. */
  #forget(end, seen) {
    const detail = `the server's log ends at committed id ${end}, and this client has seen ${seen}`;
    if (!this.#isCertain) throw new MainstemError("history_behind", detail);
    this.#cursor = this.#highest = this.#ahead = 0;
    for (const name of this.#pending.keys()) this.#joined.add(name);
    this.#pending.clear();
    this.#dropEarly();
    this.#cycle = null;
    this.phase = "syncing";
    return [save({ reset: true }), report(new MainstemError("history_mismatch", detail))];
  }

  #nextId() {
    this.#messages += 1;
    return String(this.#messages);
  }

  // Catching up

  /** Start a cycle over all partitions that the cursor covers. */
  #begin() {
    this.#beginAgain = false;
    this.#ahead = 0;
    return this.#start(sorted(this.#joined), this.#cursor, false);
  }

  #start(partitions, since, fetches) {
    this.#cycle = { partitions, since, fetches, until: null, msgId: "" };
    return [this.#requestPage(true)];
  }

  #requestPage(isFirst) {
    const cycle = this.#cycle;
    cycle.msgId = this.#nextId();
    const payload = { partitions: cycle.partitions, since_committed_id: cycle.since, limit: this.#pageLimit };
    if (isFirst) payload.subscription_partitions = sorted(new Set([...this.#joined, ...cycle.partitions]));
    return { type: "send", text: encodeMessage("sync", payload, cycle.msgId) };
  }

  /** Start the next cycle, or go live. */
  #continue() {
    this.#cycle = null;
    if (this.#beginAgain) return this.#begin();
    if (this.#pending.size) {
      this.phase = "syncing";
      return this.#fetch();
    }
    this.phase = "live";
    return this.#renew();
  }

  #continueIfIdle() {
    const isIdle = !this.#cycle && this.phase !== "connecting" && !this.#refused;
    return isIdle ? this.#continue() : [];
  }

  /** Start a cycle that fetches all added partitions with the same progress. */
  #fetch() {
    const names = sorted(this.#pending.keys());
    const since = this.#pending.get(names[0]);
    const alike = this.#oneByOne ? [names[0]] : names.filter((name) => this.#pending.get(name) === since);
    return this.#start(alike, since, true);
  }

  /** Move the cursor past what was received live, so that the next connection does not fetch it again. */
  #renew() {
    return this.#ahead >= limits.RENEW_EVENTS && !this.#cycle && this.phase === "live" ? this.#begin() : [];
  }

  #onPage(msgId, page) {
    const cycle = this.#cycle;
    if (!cycle || (msgId !== null && msgId !== cycle.msgId)) {
      throw protocolFault("a page without a request");
    }
    if (page.until < cycle.since) return [...this.#forget(page.until, cycle.since), ...this.#begin()];
    checkPage(cycle, page);
    const effects = [save(this.#pageUpdate(cycle, page))];
    cycle.since = page.nextSince;
    cycle.until = page.until;
    if (page.hasMore) return [...effects, this.#requestPage(false)];
    return [...effects, ...this.#flushEarly(), ...this.#continue()];
  }

  #pageUpdate(cycle, { snapshots, events, truncated, nextSince, hasMore }) {
    const update = { snapshots, events, truncated };
    if (!cycle.fetches) {
      this.#cursor = nextSince;
      return { ...update, cursor: nextSince };
    }
    // A partition that was removed and added again meanwhile needs its earlier pages once more.
    const names = cycle.partitions.filter((name) => this.#pending.get(name) === cycle.since);
    if (hasMore) {
      for (const name of names) this.#pending.set(name, nextSince);
      return { ...update, fetched: names.map((name) => [name, nextSince]) };
    }
    for (const name of names) {
      this.#pending.delete(name);
      this.#joined.add(name);
    }
    return { ...update, joined: names };
  }

  // Broadcasts

  /** Apply a broadcast. During a cycle, events after its end wait until it is complete. */
  #onBroadcast(event) {
    const cycle = this.#cycle;
    if (cycle && (cycle.until === null || event.committedId > cycle.until)) {
      this.#keepEarly(event);
      return [];
    }
    this.#ahead += 1;
    return [save({ events: [event] }), ...this.#renew()];
  }

  #keepEarly(event) {
    this.#early.set(event.committedId, event);
    this.#earlyBytes += byteLength(JSON.stringify(event.event));
    if (this.#early.size > limits.EARLY_EVENTS_MAX || this.#earlyBytes > limits.EARLY_BYTES_MAX) {
      this.#dropEarly(); // syncing again from the cursor brings back a lost buffer
      this.#beginAgain = true;
    }
  }

  #dropEarly() {
    this.#early.clear();
    this.#earlyBytes = 0;
  }

  #flushEarly() {
    const events = [...this.#early.values()].sort((a, b) => a.committedId - b.committedId);
    this.#dropEarly();
    this.#ahead += events.length;
    return events.length ? [save({ events })] : [];
  }

  // Submitting

  #onResults(msgId, results) {
    const update = this.#queue.settle(msgId, results);
    this.#ahead += update.commits?.length ?? 0;
    return [save(update), ...this.#queue.load(), ...this.#renew()];
  }

  // Errors

  #onError(msgId, payload) {
    const error = serverRefused(payload);
    if (ENDING_CODES.includes(error.code) || msgId === null) throw error;
    if (this.#queue.awaits(msgId)) return this.#queue.refuse(error);
    if (this.#cycle && msgId === this.#cycle.msgId) return this.#syncRefused(this.#cycle, error);
    throw error;
  }

  #syncRefused(cycle, error) {
    if (error.code === "rate_limited") {
      this.#syncPaused = true;
      return [report(error), pause(pauseSeconds(error))];
    }
    if (!cycle.fetches) {
      this.#cycle = null;
      this.#refused = error;
      return [report(error), pause(limits.REFUSED_S)];
    }
    if (cycle.partitions.length > 1) {
      this.#oneByOne = true; // to find out which partition it is
      return this.#continue();
    }
    const [name] = cycle.partitions;
    this.#pending.delete(name);
    const text = `the server refused the partition ${JSON.stringify(name)}: ${error.message}`;
    const refused = new MainstemError("partition_refused", text, { partition: name });
    return [save({ left: [name] }), report(refused), ...this.#continue()];
  }
}

function checkPage(cycle, { events, nextSince, until, hasMore }) {
  let last = cycle.since;
  for (const { committedId } of events) {
    if (committedId <= last) throw protocolFault(`committed id ${committedId} after ${last}`);
    last = committedId;
  }
  if (nextSince < last || nextSince > until || (hasMore && nextSince === cycle.since)) {
    throw protocolFault(`the cursor ${nextSince} after a page from ${cycle.since} to ${last} of ${until}`);
  }
}
