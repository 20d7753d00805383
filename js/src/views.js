// Materialised views: a reducer over the committed events, and then over the drafts.
//
//     checkpoint ──► stable: events up to the cursor ──► shown: a copy with later events, then drafts
//     (in the store)    (never undone)                      (discarded when something changes before its end)
//
// The events up to the cursor are complete, so the stable state is undone only if a partition is added that has older
// events, or if the log is another one. The store counts such changes as `rewrites`, and those that only move later
// events or drafts as `shifts`. A view compares both in the transaction that reads the events, so it is right even if
// another tab has changed the store.

import { MainstemError } from "./errors.js";
import * as limits from "./limits.js";
import { readEvents, readFacts, readSnapshots } from "./store.js";

/** Return a committed event as the application sees it. */
export const eventOf = ({ id, partitions, event, clientId, committedId, committedAt }) => ({
  id, partitions, event, clientId, committedId, committedAt, clock: null, isDraft: false,
});

export const draftOf = ({ id, partitions, event, clock }, clientId) => ({
  id, partitions, event, clientId, committedId: null, committedAt: "", clock, isDraft: true,
});

/** Return the committed id up to which the store holds every event of these partitions. */
function stableUntil(facts, partitions) {
  const pending = facts.partitions.filter(
    ({ name, since }) => since !== null && (!partitions || partitions.includes(name)),
  );
  return Math.min(facts.cursor, ...pending.map(({ since }) => since));
}


/** A registered view, and the states that have been folded so far. */
class View {
  rewrites = null;
  stable = null;
  stableAt = 0;
  /** How many events were folded since the last checkpoint. */
  folded = 0;
  shifts = null;
  shown = null;
  shownAt = 0;
  shownClock = 0;

  constructor(name, reducer, initial, { partitions = null, version = 1, restore = null }) {
    Object.assign(this, { name, reducer, partitions, version, restore });
    this.initial = this.encode(initial);
  }

  #fail(reason, cause) {
    throw Object.assign(new MainstemError("view_failed", `the view ${this.name}: ${reason}`), { cause });
  }

  /** Return a state as JSON. Copies are made this way, so a reducer may change its argument or return a new state. */
  encode(state) {
    let text;
    try {
      text = JSON.stringify(state);
    } catch (error) {
      this.#fail(`its state is not JSON: ${error.message}`, error);
    }
    if (!text || text.length > limits.VIEW_BYTES_MAX) {
      this.#fail(text ? `its state has ${text.length} characters, which is too much` : "its state is undefined");
    }
    return text;
  }

  fold(state, event) {
    try {
      return this.reducer(state, event);
    } catch (error) {
      this.#fail(`its reducer failed at the event ${event.id}: ${error}`, error);
    }
  }

  /** Return the initial state, with the server's snapshots in it. */
  begin(snapshots) {
    let state = JSON.parse(this.initial);
    for (const { partition, state: snapshot } of snapshots) {
      if (this.restore) state = this.restore(state, partition, snapshot);
      else if (this.partitions?.length === 1) state = snapshot;
      else this.#fail(`it needs the option restore, for the server's snapshot of ${partition}`);
    }
    return state;
  }

  forget() {
    this.rewrites = this.shifts = null;
  }
}

export class Views {
  #store;
  #clientId;
  #views = new Map();
  #last = Promise.resolve();

  constructor(store, clientId) {
    this.#store = store;
    this.#clientId = clientId;
  }

  /** Read from another store from now on. */
  moveTo(store) {
    this.#store = store;
  }

  register(name, reducer, initial, options) {
    if (!this.#views.has(name) && this.#views.size >= limits.VIEWS_MAX) {
      throw new MainstemError("bad_argument", `${this.#views.size} views are registered, which is the limit`);
    }
    this.#views.set(name, new View(name, reducer, initial, options));
  }

  /** Return the state with all events and drafts, as a copy that belongs to the caller. */
  read(name) {
    const view = this.#views.get(name);
    if (!view) return Promise.reject(new MainstemError("unknown_view", `no view is registered as ${name}`));
    return this.#inTurn(async () => {
      const text = await this.#fold(view, async (rows, facts) => {
        await this.#show(view, rows);
        view.shifts = facts.shifts;
        return view.encode(view.shown);
      });
      if (view.folded >= limits.VIEW_EVENTS) await this.#saveCheckpoint(view);
      return JSON.parse(text);
    });
  }

  /** Fold what the cursor covers and store it, so that the next client does not fold it again. */
  saveCheckpoints() {
    return this.#inTurn(async () => {
      for (const view of this.#views.values()) {
        try {
          await this.#fold(view, async () => {});
          if (view.folded) await this.#saveCheckpoint(view);
        } catch (error) {
          // A reducer that fails, or a full disk, stops nothing else: the next client folds the view again.
          if (!(error instanceof MainstemError)) throw error;
        }
      }
    });
  }

  /** One read at a time: each continues with the states that the last one has left. */
  #inTurn(work) {
    const result = this.#last.then(work);
    this.#last = result.then(
      () => {},
      () => {},
    );
    return result;
  }

  /** Bring the stable state up to date, and run `work`, in one transaction. */
  async #fold(view, work) {
    try {
      return await this.#store.read(async (rows) => {
        const facts = await readFacts(rows);
        if (view.rewrites !== facts.rewrites) await this.#load(view, facts, rows);
        await this.#settle(view, facts, rows);
        if (view.shifts !== facts.shifts || (view.shownClock && facts.highest > view.shownAt)) view.shifts = null;
        return work(rows, facts);
      });
    } catch (error) {
      view.forget(); // a reducer may have changed half of a state
      throw error;
    }
  }

  async #load(view, facts, rows) {
    view.shifts = null;
    const found = await rows.get("checkpoints", view.name);
    const isSame = found?.version === view.version && JSON.stringify(found.partitions) === JSON.stringify(view.partitions);
    if (isSame) {
      view.stable = JSON.parse(found.state);
      view.stableAt = found.committedId;
    } else {
      view.stable = view.begin(await readSnapshots(rows, view.partitions));
      view.stableAt = 0;
    }
    view.folded = 0;
    view.rewrites = facts.rewrites;
  }

  /** Fold the events that the cursor now covers. */
  async #settle(view, facts, rows) {
    const until = stableUntil(facts, view.partitions);
    while (view.stableAt < until) {
      const events = await readEvents(rows, view.partitions, view.stableAt, until, limits.FOLD_EVENTS);
      for (const event of events) view.stable = view.fold(view.stable, eventOf(event));
      view.folded += events.length;
      view.stableAt = events.length < limits.FOLD_EVENTS ? until : events.at(-1).committedId;
    }
  }

  async #show(view, rows) {
    if (view.shifts === null) {
      view.shown = JSON.parse(view.encode(view.stable));
      view.shownAt = view.stableAt;
      view.shownClock = 0;
    }
    // Drafts come last, so no event can follow once there is one; `#fold` has then discarded the state.
    for (let events; !view.shownClock && (events = await this.#readAfter(view, rows)).length; ) {
      for (const event of events) view.shown = view.fold(view.shown, eventOf(event));
      view.shownAt = events.at(-1).committedId;
    }
    const names = view.partitions ?? (await rows.all("partitions")).map(({ name }) => name);
    for (let drafts; (drafts = await this.#readDrafts(view, rows)).length; ) {
      for (const draft of drafts) {
        if (draft.partitions.some((name) => names.includes(name))) {
          view.shown = view.fold(view.shown, draftOf(draft, this.#clientId));
        }
        view.shownClock = draft.clock;
      }
    }
  }

  #readAfter(view, rows) {
    return readEvents(rows, view.partitions, view.shownAt, undefined, limits.FOLD_EVENTS);
  }

  #readDrafts(view, rows) {
    return rows.all("drafts", { after: view.shownClock, limit: limits.FOLD_EVENTS });
  }

  async #saveCheckpoint(view) {
    const { name, version, partitions, stableAt } = view;
    const state = view.encode(view.stable);
    await this.#store.saveCheckpoint({ name, version, partitions, committedId: stableAt, state }, view.rewrites);
    view.folded = 0;
  }
}
