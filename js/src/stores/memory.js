// Rows in memory, for tests and for clients that do not have to survive a restart.

/** A table: rows by key in order, and keys by id. */
class Table {
  rows = new Map();
  ids = new Map();
  #sorted = null;

  constructor({ key, hasIds }) {
    this.key = key;
    this.hasIds = hasIds;
  }

  keys() {
    // Keys nearly always arrive in order, so the sorted list is rarely made again.
    return (this.#sorted ??= [...this.rows.keys()].sort((a, b) => (a < b ? -1 : 1)));
  }

  put(row) {
    const key = row[this.key];
    if (!this.rows.has(key) && this.#sorted?.length && key > this.#sorted.at(-1)) this.#sorted.push(key);
    else if (!this.rows.has(key)) this.#sorted = null;
    this.rows.set(key, row);
    if (this.hasIds) this.ids.set(row.id, key);
  }

  delete(key) {
    const row = this.rows.get(key);
    if (!row) return;
    this.rows.delete(key);
    if (this.hasIds) this.ids.delete(row.id);
    this.#sorted = null;
  }

  /** Return the rows with after < key <= until. */
  range(after, until, limit = Infinity) {
    const keys = this.keys();
    let [low, high] = [0, keys.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (typeof after === "number" && keys[middle] <= after) low = middle + 1;
      else high = middle;
    }
    const found = [];
    const last = until ?? Infinity;
    for (; low < keys.length && found.length < limit && !(keys[low] > last); low += 1) {
      found.push(this.rows.get(keys[low]));
    }
    return found;
  }
}

/** One transaction. It remembers what to undo if it fails, and what it has changed. */
class Transaction {
  changes = [];
  #tables;
  #undo = [];

  /** Committed events, which other backends keep in another way than the other rows. */
  events = {
    get: (key) => this.get("events", key),
    getById: (id) => this.getById("events", id),
    all: (range) => this.all("events", range),
    last: async () => this.#tables.events.keys().at(-1),
    clear: () => this.clear("events"),
    write: async (rows, deleted = []) => {
      for (const row of rows) this.put("events", row);
      for (const key of deleted) this.delete("events", key);
    },
    /** Add events, and return those whose committed id or id is taken. */
    insert: async (rows) => {
      const { rows: held, ids } = this.#tables.events;
      const taken = [];
      for (const row of rows) {
        if (held.has(row.committedId) || ids.has(row.id)) taken.push(row);
        else this.put("events", row);
      }
      return taken;
    },
  };

  constructor(tables) {
    this.#tables = tables;
  }

  // Rows are copied on the way out, so that nobody changes the store by changing what it has returned.
  get = async (table, key) => structuredClone(this.#tables[table].rows.get(key));
  getById = async (table, id) => this.get(table, this.#tables[table].ids.get(id));
  count = async (table) => this.#tables[table].rows.size;
  all = async (table, { after, until, limit } = {}) => structuredClone(this.#tables[table].range(after, until, limit));

  async put(table, row) {
    const place = this.#tables[table];
    this.#remember(table, row[place.key]);
    const copy = structuredClone(row);
    place.put(copy);
    this.changes.push([table, copy]);
  }

  async delete(table, key) {
    this.#remember(table, key);
    this.#tables[table].delete(key);
    this.changes.push([table, null, key]);
  }

  async clear(table) {
    for (const key of this.#tables[table].keys()) this.delete(table, key);
  }

  #remember(table, key) {
    const before = this.#tables[table].rows.get(key);
    this.#undo.push(() => (before ? this.#tables[table].put(before) : this.#tables[table].delete(key)));
  }

  undo() {
    for (const step of this.#undo.reverse()) step();
  }
}

/** It imports nothing, so that a page which has IndexedDB never loads it. `tables` are those of the store. */
export class MemoryBackend {
  #last = Promise.resolve();

  constructor(tables) {
    const shapes = { ...tables, events: { key: "committedId", hasIds: true } };
    this.tables = Object.fromEntries(Object.entries(shapes).map(([name, shape]) => [name, new Table(shape)]));
  }

  async open() {}

  async close() {
    await this.#last;
  }

  /** Run `work` after all earlier transactions. If it fails, nothing has changed. */
  transaction(work) {
    const result = this.#last.then(() => this.#run(work));
    this.#last = result.then(
      () => {},
      () => {},
    );
    return result;
  }

  async #run(work) {
    const rows = new Transaction(this.tables);
    try {
      const result = await work(rows);
      await this.persist(rows.changes);
      return result;
    } catch (error) {
      rows.undo();
      throw error;
    }
  }

  /** Make the changes of a transaction durable. There is nothing to do in memory. */
  async persist(_changes) {}
}
