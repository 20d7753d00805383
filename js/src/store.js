// The store of a client: drafts, the committed copy, the cursor, and the checkpoints of views.
//
// The rules are here; a backend keeps the rows (stores/). Every method is one transaction, and what it changed is
// durable when its promise resolves. Several tabs may have the same store open, so nothing is cached between calls.

import { compareNames, isSame } from "./content.js";
import { MainstemError } from "./errors.js";
import * as limits from "./limits.js";

// A transaction has get, getById, all, put, delete and clear for the rows of these tables, and `events` with get, getById,
// all, last, insert, write and clear for committed events, which are far more and mostly arrive in order.

/** The tables: the key of their rows, and whether their rows can also be found by `id`, of which there is one each. */
export const TABLES = {
  meta: { key: "key", hasIds: false },
  partitions: { key: "name", hasIds: false },
  drafts: { key: "clock", hasIds: true },
  rejections: { key: "clock", hasIds: true },
  snapshots: { key: "partition", hasIds: false },
  checkpoints: { key: "name", hasIds: false },
};

const NEW_CLIENT = { key: "client", version: 1, cursor: 0, clock: 0, drafts: 0, draftsBytes: 0, rewrites: 0, shifts: 0 };

/** The server's log contradicts the store: one event has two committed ids, or one committed id has two events. */
export class Diverged extends Error {}

export class Store {
  #load;
  #backend = null;
  #clientId = null;
  #isOpen = false;

  /** `load` returns the backend. `sharedName` is the name under which tabs share this store, if they do. */
  constructor(load, sharedName = null) {
    this.#load = load;
    this.sharedName = sharedName;
  }

  /** Open the store for a client. It belongs to the first client that opens it. */
  async open(clientId) {
    if (this.#isOpen) throw new MainstemError("client_store_in_use", "another client is using this store");
    this.#isOpen = true;
    try {
      this.#backend ??= await this.#load();
      await this.#backend.open();
    } catch (error) {
      this.#isOpen = false;
      throw error;
    }
    this.#clientId = clientId;
    try {
      await this.#write(async (rows) => {
        const meta = (await rows.get("meta", "client")) ?? { ...NEW_CLIENT, clientId };
        if (meta.version !== NEW_CLIENT.version || meta.clientId !== clientId) {
          const text = `this store belongs to the client ${meta.clientId}, and has version ${meta.version}`;
          throw new MainstemError("client_store_wrong", text);
        }
        await rows.put("meta", meta);
      });
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  async close() {
    await this.#backend.close();
    this.#isOpen = false;
  }

  /** Run `work` in one transaction that changes nothing, so that all it reads belongs together. */
  read(work) {
    return this.#backend.transaction(work, { writes: false });
  }

  /** `isDurable` makes the browser write to the disk before it calls the transaction complete. */
  #write(work, { isDurable = false } = {}) {
    return this.#backend.transaction(work, { writes: true, isDurable });
  }

  facts() {
    return this.read(readFacts);
  }

  // Partitions

  /**
   * Add partitions; those that are already followed do not change. The cursor of an empty store, which is 0, covers its
   * first partitions. The history of later ones has to be fetched first.
   */
  follow(names) {
    return this.#write(async (rows) => {
      const meta = await rows.get("meta", "client");
      const followed = new Set((await rows.all("partitions")).map(({ name }) => name));
      const since = !followed.size && !meta.cursor ? null : 0;
      const added = names.filter((name) => !followed.has(name));
      for (const name of added) rows.put("partitions", { name, since });
      if (added.length) await rows.put("meta", { ...meta, shifts: meta.shifts + 1 }); // drafts in them count now
      return readFacts(rows);
    }, { isDurable: true });
  }

  // Drafts

  /** Store drafts, each with the next clock. Return one result per draft: what the store has now, or an error. */
  addDrafts(drafts) {
    return this.#write(async (rows) => {
      const meta = await rows.get("meta", "client");
      let rejections = await rows.count("rejections");
      // All at once: a request that waits for the last one takes ten times as long.
      const found = await Promise.all(drafts.map(({ id }) => find(rows, id)));
      const added = new Map();
      const results = drafts.map((draft, index) => {
        const known = added.get(draft.id) ?? found[index];
        const isReplaced = known?.kind === "rejected" && !isSame(draft, known.row);
        if (known && !isReplaced) return isSame(draft, known.row) ? known : { error: idInUse(draft.id) };
        const error = checkCapacity(meta, rejections - (isReplaced ? 1 : 0), draft);
        if (error) return { error };
        if (isReplaced) {
          rows.delete("rejections", known.row.clock);
          rejections -= 1;
        }
        meta.clock += 1;
        meta.drafts += 1;
        meta.draftsBytes += draft.bytes;
        const result = { kind: "draft", row: { ...draft, clock: meta.clock } };
        rows.put("drafts", result.row);
        added.set(draft.id, result);
        return result;
      });
      await rows.put("meta", meta);
      return results;
    }, { isDurable: true });
  }

  /** Return the first drafts after a clock, in order; at least one, even if it is larger than `bytesMax`. */
  drafts(after, itemsMax, bytesMax) {
    return this.read(async (rows) => {
      const found = await rows.all("drafts", { after, limit: itemsMax });
      let size = 0;
      const end = found.findIndex(({ bytes }, index) => (size += bytes) > bytesMax && index > 0);
      return end < 0 ? found : found.slice(0, end);
    });
  }

  /** Return what the store has under an id: {kind: "draft" | "committed" | "rejected", row}, or null. */
  find(id) {
    return this.read((rows) => find(rows, id));
  }

  rejections(limit) {
    return this.read((rows) => rows.all("rejections", { limit }));
  }

  /** Discard rejections, and return how many there were. */
  dismiss(ids) {
    return this.#write(async (rows) => {
      let count = 0;
      for (const id of ids) {
        const row = await rows.getById("rejections", id);
        if (row) {
          count += 1;
          await rows.delete("rejections", row.clock);
        }
      }
      return count;
    });
  }

  // The committed copy

  /** Apply updates. Applying one again changes nothing. Throw `Diverged`, and change nothing, for a contradiction. */
  apply(updates) {
    return this.#write((rows) => new UpdateWriter(rows, this.#clientId).apply(updates));
  }

  events(partitions, after, until, limit) {
    return this.read((rows) => readEvents(rows, partitions, after, until, limit));
  }

  snapshots(partitions) {
    return this.read((rows) => readSnapshots(rows, partitions));
  }

  // Views

  loadCheckpoint(name) {
    return this.read((rows) => rows.get("checkpoints", name));
  }

  /** Replace the checkpoint of a view, unless events before it have changed since `rewrites` was read. */
  saveCheckpoint(checkpoint, rewrites = null) {
    return this.#write(async (rows) => {
      const meta = await rows.get("meta", "client");
      if (rewrites === null || meta.rewrites === rewrites) await rows.put("checkpoints", checkpoint);
    });
  }
}

export async function readFacts(rows) {
  const [meta, partitions, highest] = await Promise.all([
    rows.get("meta", "client"),
    rows.all("partitions"),
    rows.events.last(),
  ]);
  partitions.sort((a, b) => compareNames(a.name, b.name));
  return { ...meta, highest: highest ?? 0, partitions };
}

async function find(rows, id) {
  const found = await Promise.all([
    rows.events.getById(id),
    rows.getById("drafts", id),
    rows.getById("rejections", id),
  ]);
  const at = found.findIndex(Boolean);
  return at < 0 ? null : { kind: ["committed", "draft", "rejected"][at], row: found[at] };
}

/** Return events with after < committed id <= until that are shown in any of the partitions; null stands for all. */
export async function readEvents(rows, partitions, after, until, limit) {
  const found = [];
  while (found.length < limit) {
    const read = await rows.events.all({ after, until, limit: limits.FOLD_EVENTS });
    for (const event of read) {
      const isWanted = partitions ? event.shown.some((name) => partitions.includes(name)) : event.shown.length;
      if (isWanted && found.length < limit) found.push(event);
    }
    if (read.length < limits.FOLD_EVENTS) break;
    after = read.at(-1).committedId;
  }
  return found;
}

export async function readSnapshots(rows, partitions) {
  const found = await rows.all("snapshots");
  return found
    .filter(({ partition }) => !partitions || partitions.includes(partition))
    .sort((a, b) => compareNames(a.partition, b.partition));
}

const idInUse = (id) => new MainstemError("id_in_use", `the id ${id} belongs to another event`, { field: "id" });

/** Return the error if a limit of the store leaves no space for the draft. */
function checkCapacity({ drafts, draftsBytes }, rejections, draft) {
  const full = (code, what) => new MainstemError(code, `the store is full: it has ${what}`);
  if (drafts >= limits.DRAFTS_MAX) return full("draft_queue_full", `${drafts} drafts`);
  if (draftsBytes + draft.bytes > limits.DRAFTS_BYTES_MAX) return full("draft_queue_full", `drafts of ${draftsBytes} bytes`);
  return rejections >= limits.REJECTIONS_MAX ? full("rejections_full", `${rejections} rejections`) : null;
}

/** Applies updates within one transaction, and notes what they changed. */
class UpdateWriter {
  #rows;
  #clientId;
  #meta;
  #followed;
  #covered;
  #highest;
  #applied = { events: 0, first: 0, last: 0, lowest: new Map(), settled: [], rejected: [], truncated: [], reset: false };
  #isRewritten = false;
  #isShifted = false;

  constructor(rows, clientId) {
    this.#rows = rows;
    this.#clientId = clientId;
  }

  async apply(updates) {
    const rows = this.#rows;
    this.#meta = await rows.get("meta", "client");
    this.#followed = new Map((await rows.all("partitions")).map((row) => [row.name, row]));
    this.#covered = new Map((await rows.all("snapshots")).map((row) => [row.partition, row.committedId]));
    this.#highest = (await rows.events.last()) ?? 0;
    for (const update of updates) await this.#applyOne(update);
    await this.#dropStaleCheckpoints();
    if (this.#isRewritten) this.#meta.rewrites += 1;
    if (this.#isShifted || this.#isRewritten) this.#meta.shifts += 1;
    await rows.put("meta", this.#meta);
    return { applied: this.#applied, facts: await readFacts(rows) };
  }

  async #applyOne(update) {
    if (update.reset) await this.#reset();
    for (const snapshot of update.snapshots ?? []) await this.#cover(snapshot);
    if (update.events?.length) {
      if (this.#meta.drafts) await this.#settle(update.events);
      await this.#insert(update.events);
    }
    if (update.commits?.length) await this.#commit(update.commits);
    for (const refusal of update.refusals ?? []) await this.#refuse(refusal);
    if (update.cursor !== undefined) this.#meta.cursor = update.cursor;
    for (const [name, since] of update.fetched ?? []) {
      if ((this.#followed.get(name)?.since ?? null) !== null) this.#progress(name, since);
    }
    for (const name of update.joined ?? []) {
      if (this.#followed.has(name)) this.#progress(name, null);
    }
    for (const name of update.left ?? []) await this.#leave(name);
    this.#applied.truncated.push(...(update.truncated ?? []));
  }

  #progress(name, since) {
    this.#followed.set(name, { name, since });
    this.#rows.put("partitions", { name, since });
  }

  /** Note that something is new in a partition at a committed id. */
  #touch(name, committedId) {
    const { lowest } = this.#applied;
    lowest.set(name, Math.min(lowest.get(name) ?? committedId, committedId));
    if (committedId <= this.#meta.cursor) this.#isRewritten = true;
  }

  async #reset() {
    this.#rows.events.clear();
    for (const table of ["snapshots", "checkpoints"]) this.#rows.clear(table);
    this.#meta.cursor = this.#highest = 0;
    this.#covered.clear();
    for (const name of this.#followed.keys()) {
      this.#progress(name, null);
      this.#touch(name, 0);
    }
    this.#applied.reset = this.#isRewritten = true;
  }

  async #cover({ partition, committedId, state }) {
    if (!this.#followed.has(partition) || (this.#covered.get(partition) ?? 0) >= committedId) return;
    this.#covered.set(partition, committedId);
    this.#rows.put("snapshots", { partition, committedId, state });
    await this.#hide(partition, committedId);
    this.#touch(partition, 0);
  }

  /** Show the events of a partition up to a committed id no longer; discard those that no other partition shows. */
  async #hide(partition, until) {
    const [kept, deleted] = [[], []];
    for (const event of await readEvents(this.#rows, [partition], 0, until, Infinity)) {
      const shown = event.shown.filter((name) => name !== partition);
      if (shown.length) kept.push({ ...event, shown });
      else deleted.push(event.committedId);
    }
    await this.#rows.events.write(kept, deleted);
  }

  async #leave(name) {
    if (!this.#followed.has(name)) return;
    await this.#hide(name, undefined);
    this.#followed.delete(name);
    this.#covered.delete(name);
    this.#rows.delete("snapshots", name);
    this.#rows.delete("partitions", name);
    this.#touch(name, 0);
  }

  async #insert(events) {
    const { events: table } = this.#rows;
    const kept = [];
    for (const event of events) {
      const shown = event.partitions.filter(
        (name) => this.#followed.has(name) && event.committedId > (this.#covered.get(name) ?? 0),
      );
      if (shown.length || event.clientId === this.#clientId) {
        kept.push({ ...event, shown });
      } else if ((await table.get(event.committedId)) || (await table.getById(event.id))) {
        await this.#compare(event);
      }
    }
    const known = new Set(await table.insert(kept));
    for (const row of kept) {
      let shown = row.shown;
      if (known.has(row)) {
        const held = await this.#compare(row);
        shown = shown.filter((name) => !held.shown.includes(name));
        if (shown.length) await table.write([{ ...held, shown: [...held.shown, ...shown] }]);
      }
      if (shown.length) this.#show(row.committedId, shown);
    }
  }

  #show(committedId, names) {
    const applied = this.#applied;
    applied.first = Math.min(applied.first || committedId, committedId);
    applied.last = Math.max(applied.last, committedId);
    applied.events += 1;
    for (const name of names) this.#touch(name, committedId);
    if (committedId < this.#highest) this.#isShifted = true;
    this.#highest = Math.max(this.#highest, committedId);
  }

  /** Return what the store has at the place of an event, which must be this event. */
  async #compare({ id, committedId }) {
    const [held, sameId] = await Promise.all([
      this.#rows.events.get(committedId),
      this.#rows.events.getById(id),
    ]);
    if (held?.id !== id || sameId?.committedId !== committedId) {
      throw new Diverged(`the event ${id} at committed id ${committedId} contradicts the local copy`);
    }
    return held;
  }

  /** Remove the drafts of committed events. An event of another client with the same id does not count. */
  async #settle(events) {
    const drafts = await this.#findDrafts(events);
    drafts.forEach((draft, index) => {
      if (draft && isSame(draft, events[index])) this.#accept(draft, events[index].committedId);
    });
  }

  #findDrafts(items) {
    return Promise.all(items.map(({ id }) => this.#rows.getById("drafts", id)));
  }

  #accept(draft, committedId) {
    this.#drop(draft);
    this.#applied.settled.push([draft.id, committedId]);
  }

  async #commit(commits) {
    const drafts = await this.#findDrafts(commits);
    const events = [];
    commits.forEach(({ committedId, committedAt }, index) => {
      const draft = drafts[index];
      if (!draft) return; // an event of a page has settled it
      this.#accept(draft, committedId);
      const { id, partitions, event } = draft;
      events.push({ committedId, id, clientId: this.#clientId, partitions, event, committedAt });
    });
    if (events.length) await this.#insert(events);
  }

  async #refuse({ id, reason, errors }) {
    const draft = await this.#rows.getById("drafts", id);
    if (!draft) return;
    this.#drop(draft);
    const { clock, partitions, event } = draft;
    const rejection = { clock, id, partitions, event, reason, errors };
    this.#rows.put("rejections", rejection);
    this.#applied.rejected.push(rejection);
  }

  #drop({ clock, bytes }) {
    this.#rows.delete("drafts", clock);
    this.#meta.drafts -= 1;
    this.#meta.draftsBytes -= bytes;
    this.#isShifted = true;
  }

  /** Discard the checkpoints that lack an event which was added now. */
  async #dropStaleCheckpoints() {
    const lowest = [...this.#applied.lowest];
    if (!lowest.length) return;
    for (const { name, partitions, committedId } of await this.#rows.all("checkpoints")) {
      const isStale = ([changed, low]) => low <= committedId && (!partitions || partitions.includes(changed));
      if (lowest.some(isStale)) this.#rows.delete("checkpoints", name);
    }
  }
}
