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

/** One transaction. It ends by itself when nothing more is requested, so `work` may await nothing but its methods. */
class Transaction {
  #stores = {};

  constructor(transaction) {
    for (const table of transaction.objectStoreNames) this.#stores[table] = transaction.objectStore(table);
  }

  get = (table, key) => promise(this.#stores[table].get(key));
  getById = (table, id) => promise(this.#stores[table].index("id").get(id));
  count = (table) => promise(this.#stores[table].count());
  put = (table, row) => change(this.#stores[table].put(row));
  delete = (table, key) => change(this.#stores[table].delete(key));
  clear = (table) => change(this.#stores[table].clear());

  async last(table) {
    return (await promise(this.#stores[table].openKeyCursor(null, "prev")))?.key;
  }

  async all(table, { after, until, limit } = {}) {
    if (until != null && after >= until) return [];
    let range = null;
    if (after !== undefined && until != null) range = IDBKeyRange.bound(after, until, true);
    else if (after !== undefined) range = IDBKeyRange.lowerBound(after, true);
    else if (until != null) range = IDBKeyRange.upperBound(until);
    return promise(this.#stores[table].getAll(range, Number.isFinite(limit) ? limit : undefined));
  }

  /** Add rows, and return those whose key or id is taken. */
  insert(table, rows) {
    const taken = [];
    if (!rows.length) return taken;
    return new Promise((resolve, reject) => {
      let last;
      for (const row of rows) {
        last = this.#stores[table].add(row);
        last.onerror = (event) => {
          if (event.target.error.name !== "ConstraintError") return reject(event.target.error);
          event.preventDefault(); // otherwise the transaction fails
          event.stopPropagation();
          taken.push(row);
          if (row === rows.at(-1)) resolve(taken);
        };
      }
      // Requests are served in order, so the last one ends all of them. An event for each would take longer than adding.
      last.onsuccess = () => resolve(taken);
    });
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
      transaction = this.#db.transaction(Object.keys(TABLES), writes ? "readwrite" : "readonly", { durability });
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
