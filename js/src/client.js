// `OfflineClient`: works on a local copy, online or offline, and synchronises it with the server when it can.

import { Connector, resolveUrl } from "./connector.js";
import { byteLength, makeDraft, normaliseFilter } from "./content.js";
import { MainstemError, draftRejected } from "./errors.js";
import * as limits from "./limits.js";
import { Store, TABLES } from "./store.js";
import { IndexedDbBackend } from "./stores/indexeddb.js";
import { OnlyTab, Tabs, canShare } from "./tabs.js";
import { Views, draftOf, eventOf } from "./views.js";

/** Return a random UUID. Browsers have `crypto.randomUUID` only with https and on localhost. */
function newId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const url = URL.createObjectURL(new Blob()); // it ends in one
  URL.revokeObjectURL(url);
  return url.slice(-36);
}

/** A store in memory, whose drafts end with the page or the process. */
export const memoryStore = () =>
  new Store(async () => new (await import("./stores/memory.js")).MemoryBackend(TABLES));

/** A store in IndexedDB, which the tabs of an origin share. */
export const indexedDbStore = (name) => new Store(() => new IndexedDbBackend(name), name);

/** Return an error as a plain object, which can go from tab to tab; its cause may be anything, and stays here. */
const describe = (error) => error && { ...error, message: error.message, cause: undefined };

const NETWORK_EVENTS = ["online", "offline"];

const clamp = (limit) => Math.max(1, Math.min(limit, limits.EVENTS_MAX));

export class OfflineClient {
  #options;
  #store;
  #views;
  #connector = null;
  #tabs = null;
  #facts = { cursor: 0, drafts: 0, partitions: [] };
  #status = { state: "offline", error: null };
  #state = "new";
  #failure = null;
  #listeners = new Set();
  #outcomes = new Map();
  #waiting = [];
  #adding = null;
  #isDurable = true;

  /**
   * `url` is that of a server or of its sync endpoint. `clientId` names this client; with tokens, it is that of the
   * token. `token` is a string, or a function that returns one for each connection.
   */
  constructor(url, { clientId, token = "", partitions = [], store, random = Math.random, WebSocket } = {}) {
    if (typeof clientId !== "string" || !clientId || byteLength(clientId) > limits.CLIENT_ID_BYTES_MAX) {
      throw new MainstemError("bad_argument", `clientId must be 1 to ${limits.CLIENT_ID_BYTES_MAX} bytes long`);
    }
    const Socket = WebSocket ?? globalThis.WebSocket;
    if (!Socket) {
      throw new MainstemError("bad_argument", "this environment has no WebSocket: pass one as the option WebSocket");
    }
    const endpoint = resolveUrl(url);
    this.#options = { url: endpoint, clientId, token, random, WebSocket: Socket };
    this.#options.partitions = normaliseFilter(partitions);
    this.#isDurable = Boolean(store) || canShare();
    this.#store = store ?? (this.#isDurable ? indexedDbStore(`mainstem ${endpoint} ${clientId}`) : memoryStore());
    this.#views = new Views(this.#store, clientId);
  }

  // Lifecycle

  /** Open the store and start to connect. This does not wait for the server. Return the client. */
  async open() {
    if (this.#state !== "new") throw new MainstemError("bad_argument", "this client was already opened; make a new one");
    this.#state = "opening";
    const { clientId, partitions } = this.#options;
    await this.#openStore(clientId);
    this.#facts = await this.#store.follow(partitions);
    this.#state = "open";
    const calls = { onLead: () => this.#lead(), onMessage: (message) => this.#receive(message) };
    const name = this.#store.sharedName;
    this.#tabs = name === null ? new OnlyTab(calls) : new Tabs(name, calls);
    this.#tabs.post({ hello: true });
    for (const type of NETWORK_EVENTS) globalThis.addEventListener?.(type, this.connectNow);
    if (!this.#isDurable) {
      this.#report(new MainstemError("store_not_durable", "this page cannot keep drafts: there is no IndexedDB to share"));
    }
    return this;
  }

  /** A browser may refuse IndexedDB only when it is used, as in some private modes. */
  async #openStore(clientId) {
    try {
      await this.#store.open(clientId);
    } catch (error) {
      if (this.#store.sharedName === null || error.code !== "client_store_failed") throw error;
      this.#store = memoryStore();
      this.#views.moveTo(this.#store);
      this.#isDurable = false;
      await this.#store.open(clientId);
    }
  }

  /** Disconnect and close the store. Drafts that are not committed stay in it. */
  async close() {
    if (this.#state !== "open") return;
    this.#state = "closed";
    for (const type of NETWORK_EVENTS) globalThis.removeEventListener?.(type, this.connectNow);
    await this.#adding;
    await this.#connector?.stop();
    try {
      if (!this.#failure) await this.#views.saveCheckpoints();
    } finally {
      await this.#tabs.close();
      await this.#store.close();
      this.#stopWaiting(new MainstemError("client_closed", "the client was closed"));
      this.#listeners.clear();
    }
  }

  #requireOpen() {
    if (this.#state !== "open") throw new MainstemError("client_closed", "the client is not open");
    if (this.#failure) throw this.#failure;
  }

  // Submitting

  /**
   * Store an event as a draft, and send it as soon as there is a connection.
   *
   * The promise resolves when the draft is durable in the store and part of the views; it needs no server. Submitting
   * the same id with the same content again returns the same draft. The id of a rejected draft is free for new content.
   */
  async submit(partitions, event, { id = newId() } = {}) {
    this.#requireOpen();
    const draft = makeDraft(id, partitions, event);
    await new Promise((resolve, reject) => {
      this.#waiting.push({ draft, resolve, reject });
      this.#adding ??= this.#addWaiting();
    });
    return { id, committed: () => this.outcome(id) };
  }

  /** Drafts that are submitted at the same time share one transaction of the store. */
  async #addWaiting() {
    while (this.#waiting.length) {
      const taken = this.#waiting.splice(0, limits.WAITING_MAX);
      try {
        const results = await this.#store.addDrafts(taken.map(({ draft }) => draft));
        this.#facts = await this.#store.facts();
        const ids = [];
        results.forEach(({ error, kind, row }, index) => {
          if (error) taken[index].reject(error);
          else taken[index].resolve();
          if (kind === "draft") ids.push(row.id);
        });
        if (ids.length) this.#publish([{ type: "drafted", ids }]);
        this.#connector?.sendDrafts();
      } catch (error) {
        for (const { reject } of taken) reject(error);
      }
    }
    this.#adding = null; // at once, so that no later caller waits for this one
  }

  /** Wait for the commit of a draft in this store, and return its committed id. Throw `draft_rejected` otherwise. */
  async outcome(id) {
    this.#requireOpen();
    let waiter;
    const outcome = new Promise((resolve, reject) => (waiter = { resolve, reject }));
    outcome.catch(() => {}); // it may end before somebody waits for it
    const waiters = this.#outcomes.get(id) ?? new Set();
    this.#outcomes.set(id, waiters.add(waiter));
    try {
      const known = await this.#store.find(id);
      if (known?.kind === "committed") return known.row.committedId;
      if (known?.kind === "rejected") throw draftRejected(known.row);
      if (!known) throw new MainstemError("draft_unknown", `the store has no draft with the id ${id}`);
      return await outcome;
    } finally {
      waiters.delete(waiter);
      if (!waiters.size && this.#outcomes.get(id) === waiters) this.#outcomes.delete(id);
    }
  }

  #stopWaiting(error) {
    for (const waiters of this.#outcomes.values()) for (const { reject } of waiters) reject(error);
  }

  /** Return the drafts that are not committed yet, in the order in which they were submitted. */
  async drafts({ limit = limits.EVENTS_MAX } = {}) {
    this.#requireOpen();
    const found = await this.#store.drafts(0, clamp(limit), limits.DRAFTS_BYTES_MAX);
    return found.map((draft) => draftOf(draft, this.#options.clientId));
  }

  /** Return the drafts that the server refused and that were not dismissed, oldest first, even after a restart. */
  async rejections({ limit = limits.EVENTS_MAX } = {}) {
    this.#requireOpen();
    return this.#store.rejections(clamp(limit));
  }

  /** Discard rejections that the application has dealt with, and return how many there were. */
  async dismiss(...ids) {
    this.#requireOpen();
    const count = await this.#store.dismiss(ids);
    this.#publish([{ type: "dismissed", ids }]);
    return count;
  }

  // Partitions

  get partitions() {
    return this.#facts.partitions.map(({ name }) => name);
  }

  /** Follow another partition. Once connected, the client fetches its whole history; `synced()` waits for it. */
  async addPartition(name) {
    this.#requireOpen();
    const names = normaliseFilter([name]);
    normaliseFilter([...this.partitions, ...names]); // checks the limit
    this.#facts = await this.#store.follow(names);
    this.#ask({ follow: names });
    this.#publish([{ type: "partitions" }]);
  }

  /** Stop following a partition, and discard its events except those that another followed partition shows. */
  async removePartition(name) {
    this.#requireOpen();
    const names = normaliseFilter([name]);
    await this.#save([{ left: names }]);
    this.#ask({ unfollow: names });
    this.#publish([{ type: "partitions" }]);
  }

  // Reading

  /**
   * Register a view: `reducer(state, event)` over the committed events in order, and then over the drafts.
   *
   * It returns the next state, and may change the one it got. States are JSON values. The client stores them, so raise
   * `version` when the reducer changes. `restore(state, partition, snapshot)` returns the state that includes a snapshot
   * of the server; a view of one partition uses the snapshot as its state by default.
   */
  registerView(name, reducer, initial, { partitions, version, restore } = {}) {
    if (typeof reducer !== "function") throw new MainstemError("bad_argument", "the reducer must be a function");
    const names = partitions === undefined ? null : normaliseFilter(partitions);
    this.#views.register(name, reducer, initial, { partitions: names, version, restore });
  }

  /** Return the state of a view: the committed events, and then the drafts. */
  async view(name) {
    this.#requireOpen();
    return this.#views.read(name);
  }

  /** Call `show` with the state of a view, now and whenever it may have changed. Return a function that ends this. */
  watch(name, show, onError = reportFailure) {
    let isDue = true;
    let isRunning = false;
    let isOver = false;
    const update = async () => {
      isDue = true;
      if (isRunning) return;
      isRunning = true;
      while (isDue && !isOver && this.#state === "open") {
        isDue = false;
        const [call, value] = await this.view(name).then(
          (state) => [show, state],
          (error) => [onError, error],
        );
        if (!isOver && this.#state === "open") callSafely(call, value);
      }
      isRunning = false;
    };
    const stop = this.onChange(({ type }) => {
      if (type !== "status" && type !== "reported") update();
    });
    update();
    return () => {
      isOver = true;
      stop();
    };
  }

  /**
   * Return the events of a partition after a committed id, in order, followed by its drafts. If `limit` cuts off
   * committed events, there are no drafts: call again with the last committed id as `after`.
   */
  async events(partition, { after = 0, limit = limits.EVENTS_MAX, drafts = true } = {}) {
    this.#requireOpen();
    const [name] = normaliseFilter([partition]);
    if (!this.partitions.includes(name)) {
      throw new MainstemError("partition_not_followed", `this client does not follow ${name}`);
    }
    const most = clamp(limit);
    const events = (await this.#store.events([name], after, null, most + 1)).map(eventOf);
    if (events.length > most || !drafts) return events.slice(0, most);
    const own = (await this.drafts()).filter((draft) => draft.partitions.includes(name));
    return [...events, ...own];
  }

  /** Return the snapshot that the server sent in place of pruned history, or null. */
  async snapshot(partition) {
    this.#requireOpen();
    return (await this.#store.snapshots(normaliseFilter([partition])))[0] ?? null;
  }

  // Watching

  get url() {
    return this.#options.url;
  }

  get clientId() {
    return this.#options.clientId;
  }

  /** {state, error}: "offline", "connecting", "syncing" or "live", and why the client is offline or refused. */
  get status() {
    return this.#status;
  }

  /** The committed id up to which the local copy is complete. */
  get cursor() {
    return this.#facts.cursor;
  }

  /** The number of drafts, in all tabs, that are not committed yet. */
  get waiting() {
    return this.#facts.drafts;
  }

  /** Whether drafts survive the end of this page or process. */
  get isDurable() {
    return this.#isDurable;
  }

  /** Call `listener` with each change. Return a function that ends this. */
  onChange(listener) {
    const own = (change) => listener(change);
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  /**
   * Wait until the client is live, has the whole history of its partitions, and no draft is waiting. Throw the error if
   * retrying cannot help, such as a refused token. `signal` ends the wait.
   */
  async synced({ signal } = {}) {
    let wake;
    const stop = this.onChange(() => wake?.());
    const onAbort = () => wake?.();
    signal?.addEventListener("abort", onAbort);
    try {
      while (true) {
        signal?.throwIfAborted();
        this.#requireOpen();
        const { state, error } = this.#status;
        if (error && !error.retryable) throw new MainstemError(error.code, error.message, error.details);
        const isComplete = !this.#facts.drafts && this.#facts.partitions.every(({ since }) => since === null);
        if (state === "live" && isComplete) return;
        await new Promise((resolve) => (wake = resolve));
      }
    } finally {
      stop();
      signal?.removeEventListener("abort", onAbort);
    }
  }

  /**
   * Connect now, without waiting for the next attempt; or find out whether the connection still works. The client does
   * so itself when the browser goes online or offline.
   */
  connectNow = () => {
    if (this.#connector) this.#connector.connectNow();
    else this.#tabs?.post({ ask: { connectNow: true } });
  };

  // Tabs

  #lead() {
    if (this.#state !== "open") return;
    this.#connector = new Connector(
      {
        facts: async () => (this.#facts = await this.#store.facts()),
        save: (updates) => this.#save(updates),
        load: (itemsMax, bytesMax) => this.#store.drafts(0, itemsMax, bytesMax),
        report: (error) => this.#report(error),
        setState: (state, error = null) => this.#setState(state, describe(error)),
        fail: (error) => this.#fail(error),
      },
      this.#options,
    );
    this.#connector.start();
  }

  /** Let the leader do something, which may be this tab. */
  #ask(request) {
    if (this.#connector) this.#obey(request);
    else this.#tabs.post({ ask: request });
  }

  #obey({ follow, unfollow, connectNow }) {
    if (follow) this.#connector.call((session) => session.follow(follow));
    if (unfollow) this.#connector.call((session) => session.unfollow(unfollow));
    if (connectNow) this.#connector.connectNow();
  }

  /** Take a message of another tab. */
  async #receive({ hello, ask, changes }) {
    if (this.#state !== "open") return;
    if (this.#connector) {
      if (hello) this.#postStatus();
      if (ask) this.#obey(ask);
    }
    if (!changes) return;
    try {
      this.#facts = await this.#store.facts();
    } catch (error) {
      if (this.#state === "open") this.#fail(error);
      return;
    }
    if (changes.some(({ type }) => type === "drafted")) this.#connector?.sendDrafts();
    this.#announce(changes);
  }

  #postStatus() {
    this.#tabs.post({ changes: [{ type: "status", status: this.#status }] });
  }

  // Changes

  async #save(updates) {
    const { applied, facts } = await this.#store.apply(updates);
    this.#facts = facts;
    const changes = applied.rejected.map(({ id, reason, errors }) => ({ type: "rejected", id, reason, errors }));
    if (applied.events || applied.settled.length) {
      const { events, first, last, settled } = applied;
      changes.push({ type: "committed", events, first, last, drafts: settled });
    }
    for (const partition of applied.truncated) {
      const text = `the server has pruned the beginning of ${JSON.stringify(partition)}`;
      changes.push({ type: "reported", error: describe(new MainstemError("history_truncated", text, { partition })) });
    }
    if (applied.reset) changes.push({ type: "reset" });
    // A page may change only the cursor, and a caller of `synced` waits for that, too.
    this.#publish(changes.length ? changes : [{ type: "progress" }]);
  }

  #report(error) {
    this.#publish([{ type: "reported", error: describe(error) }]);
    if (error.isFromServer && !error.retryable) this.#setState(this.#status.state, describe(error));
  }

  #setState(state, error) {
    if (state === this.#status.state && error?.message === this.#status.error?.message) return;
    this.#publish([{ type: "status", status: { state, error } }]);
  }

  #fail(error) {
    this.#failure = error instanceof MainstemError ? error : new MainstemError("client_store_failed", String(error));
    this.#stopWaiting(this.#failure);
    this.#announce([{ type: "status", status: { state: "offline", error: describe(this.#failure) } }]);
  }

  /** Tell the listeners of all tabs. */
  #publish(changes) {
    this.#announce(changes);
    if (this.#state === "open") this.#tabs?.post({ changes });
  }

  #announce(changes) {
    for (const change of changes) {
      if (change.type === "status") this.#status = change.status;
      if (change.type === "rejected") {
        for (const { reject } of this.#outcomes.get(change.id) ?? []) reject(draftRejected(change));
      }
      if (change.type === "committed") {
        for (const [id, committedId] of change.drafts) {
          for (const { resolve } of this.#outcomes.get(id) ?? []) resolve(committedId);
        }
      }
      for (const listener of [...this.#listeners]) callSafely(listener, change);
    }
  }
}

/** Call a function of the application. If it fails, nothing else does. */
function callSafely(call, value) {
  try {
    call(value);
  } catch (error) {
    reportFailure(error);
  }
}

/** Report an error that nobody can catch, as the environment reports errors that nobody has caught. */
function reportFailure(error) {
  if (globalThis.reportError) globalThis.reportError(error);
  else console.error(error);
}
