// Rows in IndexedDB, which all tabs of an origin share.

import { MainstemError } from "../errors.js";
import { TABLES } from "../store.js";

const VERSION = 1;

const promise = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

/** Request a change. If it fails, so does the transaction, which reports it; nobody has to wait for the request. */
function change(request) {
  const done = promise(request);
  done.catch(() => {});
  return done;
}

function failure(error) {
  if (error instanceof MainstemError || !(error instanceof DOMException)) return error;
  if (error.name === "QuotaExceededError") {
    return new MainstemError("client_store_full", "the browser has no more space for this site");
  }
  return new MainstemError("client_store_failed", `IndexedDB failed: ${error.message || error.name}`);
}

/** Add a row, and return whether its key or id was free. */
const isAdded = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(true);
    request.onerror = (event) => {
      if (request.error.name !== "ConstraintError") return reject(request.error);
      event.preventDefault(); // otherwise the transaction fails
      event.stopPropagation();
      resolve(false);
    };
  });

const BLOCK_EVENTS = 1_000;
const byId = (a, b) => a.committedId - b.committedId;

/**
 * The events, in blocks of up to a thousand, because a row takes IndexedDB ten times as long as what is in it.
 *
 * A block is {last, ids, items}: its key is the committed id of its last event. It has every stored event after the
 * block before it, so no two overlap, and an event that arrives late belongs to exactly one of them.
 */
class EventBlocks {
  #store;

  constructor(store) {
    this.#store = store;
  }

  async get(committedId) {
    const [block] = await promise(this.#store.getAll(IDBKeyRange.lowerBound(committedId), 1));
    return block?.items.find((item) => item.committedId === committedId);
  }

  async getById(id) {
    return (await promise(this.#store.index("id").get(id)))?.items.find((item) => item.id === id);
  }

  clear = () => change(this.#store.clear());

  async last() {
    return (await promise(this.#store.openKeyCursor(null, "prev")))?.key;
  }

  async all({ after = 0, until, limit = Infinity } = {}) {
    const found = [];
    // Live events are blocks of one, so the number of blocks grows until there is enough.
    for (let count = 2; ; count *= 2) {
      const blocks = await promise(this.#store.getAll(IDBKeyRange.lowerBound(after, true), count));
      for (const { items } of blocks) found.push(...items.filter(({ committedId }) => committedId > after));
      if (blocks.length < count || found.length >= limit || blocks.at(-1).last >= (until ?? Infinity)) break;
      after = blocks.at(-1).last;
    }
    return found.filter(({ committedId }) => committedId <= (until ?? Infinity)).slice(0, limit);
  }

  /** Add events, and return those whose committed id or id is taken. */
  async insert(rows) {
    const sorted = [...rows].sort(byId);
    const isNew = sorted.every(({ committedId }, index) => committedId > (sorted[index - 1]?.committedId ?? 0));
    if (isNew && sorted.length <= BLOCK_EVENTS && sorted[0]?.committedId > ((await this.last()) ?? 0)) {
      if (await isAdded(this.#store.add(toBlock(sorted)))) return [];
    }
    const places = await Promise.all(sorted.map(({ id }) => promise(this.#store.index("id").getKey(id))));
    const held = sorted.length ? await this.#load(sorted[0].committedId, sorted.at(-1).committedId) : [];
    const keys = new Set(held.flatMap(({ items }) => items.map(({ committedId }) => committedId)));
    const ids = new Set();
    const isFree = ({ committedId, id }, index) => {
      if (places[index] !== undefined || ids.has(id) || keys.has(committedId)) return false;
      ids.add(id);
      keys.add(committedId);
      return true;
    };
    const free = new Set(sorted.filter(isFree));
    await this.write([...free]);
    return rows.filter((row) => !free.has(row));
  }

  /** Return the blocks that events between two committed ids belong to. */
  async #load(first, last) {
    const [blocks, [following]] = await Promise.all([
      promise(this.#store.getAll(IDBKeyRange.bound(first, last))),
      promise(this.#store.getAll(IDBKeyRange.lowerBound(last, true), 1)),
    ]);
    return following ? [...blocks, following] : blocks;
  }

  /** Put events into their blocks, and take others out. */
  async write(rows, deleted = []) {
    const touched = [...rows.map(({ committedId }) => committedId), ...deleted].sort((a, b) => a - b);
    if (!touched.length) return;
    const blocks = await this.#load(touched[0], touched.at(-1));
    const gone = new Set(touched);
    let left = [...rows].sort(byId);
    for (const { last, items } of [...blocks, { last: Infinity, items: [] }]) {
      const added = left.filter(({ committedId }) => committedId <= last);
      left = left.slice(added.length);
      const kept = items.filter(({ committedId }) => !gone.has(committedId));
      if (!added.length && kept.length === items.length) continue;
      if (items.length) change(this.#store.delete(last));
      const merged = [...kept, ...added].sort(byId);
      for (let at = 0; at < merged.length; at += BLOCK_EVENTS) {
        await change(this.#store.put(toBlock(merged.slice(at, at + BLOCK_EVENTS))));
      }
    }
  }
}

const toBlock = (items) => ({ last: items.at(-1).committedId, ids: items.map(({ id }) => id), items });

/** One transaction. It ends by itself when nothing more is requested, so `work` may await nothing but its methods. */
class Transaction {
  #stores = {};

  constructor(transaction) {
    for (const table of transaction.objectStoreNames) this.#stores[table] = transaction.objectStore(table);
    this.events = new EventBlocks(this.#stores.events);
  }

  get = (table, key) => promise(this.#stores[table].get(key));
  getById = (table, id) => promise(this.#stores[table].index("id").get(id));
  count = (table) => promise(this.#stores[table].count());
  put = (table, row) => change(this.#stores[table].put(row));
  delete = (table, key) => change(this.#stores[table].delete(key));
  clear = (table) => change(this.#stores[table].clear());

  all(table, { after, limit } = {}) {
    const range = after === undefined ? null : IDBKeyRange.lowerBound(after, true);
    return promise(this.#stores[table].getAll(range, Number.isFinite(limit) ? limit : undefined));
  }
}

export class IndexedDbBackend {
  #name;
  #db = null;

  constructor(name) {
    this.#name = name;
  }

  async open() {
    try {
      const request = indexedDB.open(this.#name, VERSION);
      request.onupgradeneeded = () => {
        for (const [name, { key, hasIds }] of Object.entries(TABLES)) {
          const table = request.result.createObjectStore(name, { keyPath: key });
          if (hasIds) table.createIndex("id", "id", { unique: true });
        }
        const events = request.result.createObjectStore("events", { keyPath: "last" });
        events.createIndex("id", "ids", { unique: true, multiEntry: true });
      };
      this.#db = await promise(request);
    } catch (error) {
      throw failure(error);
    }
    this.#db.onversionchange = () => this.#db.close(); // another tab deletes or upgrades the database
  }

  async close() {
    this.#db?.close();
  }

  async transaction(work, { writes = true, isDurable = false } = {}) {
    let transaction;
    try {
      const durability = isDurable ? "strict" : "relaxed";
      transaction = this.#db.transaction(this.#db.objectStoreNames, writes ? "readwrite" : "readonly", { durability });
      const done = new Promise((resolve, reject) => {
        transaction.oncomplete = resolve;
        transaction.onabort = () => reject(transaction.error ?? new DOMException("the transaction was aborted"));
      });
      done.catch(() => {}); // `work` may fail first, for the same reason
      const rows = new Transaction(transaction);
      const result = await work(rows).catch(async (error) => {
        // A full disk aborts the transaction, which then fails every request; its own error is the reason.
        const reason = transaction.error ?? error;
        abort(transaction);
        throw reason;
      });
      await done;
      return result;
    } catch (error) {
      throw failure(error);
    }
  }
}

function abort(transaction) {
  try {
    transaction.abort();
  } catch {
    // It has already ended.
  }
}
