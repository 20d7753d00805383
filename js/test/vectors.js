// Runs the cases of the shared vectors (tests/vectors), in Node.js and in browsers. Each function throws at a difference.

import { canonicalContent, copyEvent, isSame, makeDraft, normaliseFilter, normalisePartitions } from "../src/content.js";
import { Session } from "../src/session.js";
import { Diverged, Store } from "../src/store.js";
import { Views } from "../src/views.js";

/** Return a value with its keys in order, so that equal values have equal texts. */
function inOrder(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(inOrder);
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, inOrder(value[key])]));
}

function assertEqual(actual, expected, where) {
  const [seen, wanted] = [actual, expected].map((value) => JSON.stringify(inOrder(value)));
  if (seen !== wanted) throw new Error(`${where}\n  expected ${wanted}\n  but got  ${seen}`);
}

/** Return an object without its empty fields, as the vectors leave them out. */
const withoutEmpty = (object) =>
  Object.fromEntries(
    Object.entries(object).filter(
      ([, value]) => value !== undefined && value !== false && value !== 0 && !(Array.isArray(value) && !value.length),
    ),
  );

// Records as the vectors have them, and as the client has them

const toEvent = (event) => ({
  committedId: event.committed_id,
  id: event.id,
  clientId: event.client_id,
  partitions: event.partitions,
  event: event.event,
  committedAt: event.committed_at,
});

const fromEvent = (event) => ({
  committed_id: event.committedId,
  id: event.id,
  client_id: event.clientId,
  partitions: event.partitions,
  event: event.event,
  committed_at: event.committedAt,
});

const toUpdate = (update) => ({
  ...update,
  events: update.events?.map(toEvent),
  snapshots: update.snapshots?.map(({ partition, committed_id, state }) => ({
    partition,
    committedId: committed_id,
    state,
  })),
  commits: update.commits?.map(({ id, committed_id, committed_at }) => ({
    id,
    committedId: committed_id,
    committedAt: committed_at,
  })),
  refusals: update.refusals?.map(({ errors = [], ...refusal }) => ({ ...refusal, errors })),
});

function fromUpdate(update) {
  const { cursor, ...others } = update;
  const fields = withoutEmpty({
    ...others,
    events: update.events?.map(fromEvent),
    snapshots: update.snapshots?.map(({ partition, committedId, state }) => ({
      partition,
      committed_id: committedId,
      state,
    })),
    commits: update.commits?.map(({ id, committedId, committedAt }) => ({
      id,
      committed_id: committedId,
      committed_at: committedAt,
    })),
  });
  return cursor === undefined ? fields : { ...fields, cursor };
}

// The session

function fromEffect(effect) {
  if (effect.type === "send") return { send: JSON.parse(effect.text) };
  if (effect.type === "save") return { save: fromUpdate(effect.update) };
  if (effect.type === "load") return { load: { items_max: effect.itemsMax, bytes_max: effect.bytesMax } };
  if (effect.type === "pause") return { pause_s: effect.seconds };
  return { report: effect.error.code };
}

const CALLS = {
  open: (session) => session.open(),
  receive: (session, message) => session.receive(JSON.stringify(message)),
  receive_text: (session, text) => session.receive(text),
  offer: (session, drafts) => session.offer(drafts),
  send_drafts: (session) => session.sendDrafts(),
  resume: (session) => session.resume(),
  follow: (session, names) => session.follow(names),
  unfollow: (session, names) => session.unfollow(names),
};

export function runSession(given) {
  const session = new Session(given.facts, {
    clientId: given.client_id,
    token: given.token,
    pageLimit: given.page_limit,
    isCertain: given.is_certain,
  });
  given.steps.forEach((step, index) => {
    const where = `${given.name}, step ${index + 1}`;
    const call = Object.keys(step).find((name) => name in CALLS);
    if (!call) throw new Error(`${where}: no such call`);
    let outcome;
    try {
      outcome = { effects: CALLS[call](session, step[call]).map(fromEffect) };
    } catch (error) {
      if (!error.code) throw error;
      outcome = { raises: error.code };
    }
    const { effects, raises, phase } = step;
    assertEqual({ ...outcome, phase: session.phase }, raises ? { raises, phase } : { effects, phase }, where);
  });
}

// Content

export function runCanonical(given) {
  if ("same" in given) {
    const [a, b] = [given.a, given.b].map(({ partitions, event_text }) => ({
      partitions: normalisePartitions(partitions),
      event: JSON.parse(event_text),
    }));
    return assertEqual(isSame(a, b), given.same, given.name);
  }
  let outcome;
  try {
    const event = copyEvent(JSON.parse(given.event_text));
    outcome = { canonical: canonicalContent(normalisePartitions(given.partitions), event) };
  } catch (error) {
    outcome = { invalid: error.details?.field ?? "event" }; // what JavaScript cannot parse is no event
  }
  return assertEqual(outcome, withoutEmpty({ canonical: given.canonical, invalid: given.invalid }), given.name);
}

export function runPartitions(given) {
  let outcome;
  try {
    const normalise = given.for === "event" ? normalisePartitions : normaliseFilter;
    outcome = { normalised: normalise(given.partitions) };
  } catch (error) {
    outcome = { invalid: error.details.field };
  }
  const expected = "invalid" in given ? { invalid: given.invalid } : { normalised: given.normalised };
  assertEqual(outcome, expected, given.name);
}

// The store

const draftOf = ({ id, partitions, event }) => makeDraft(id, partitions, event);
const factsOf = ({ cursor, highest, partitions, drafts }) => ({ cursor, highest, partitions, drafts });
const idsOf = (rows) => rows.map(({ id }) => id);

function foundOf({ error, kind, row }) {
  if (error) return { error: error.code };
  if (kind === "draft") return { draft: row.clock };
  return kind === "committed" ? { committed: row.committedId } : { rejected: row.id };
}

const appliedOf = ({ lowest, rejected, ...applied }) =>
  withoutEmpty({
    ...applied,
    lowest: lowest.size ? Object.fromEntries(lowest) : undefined,
    rejected: idsOf(rejected),
  });

const STORE_CALLS = {
  follow: async (store, names) => ({ facts: factsOf(await store.follow(names)) }),
  add_drafts: async (store, drafts) => ({ found: (await store.addDrafts(drafts.map(draftOf))).map(foundOf) }),
  async apply(store, updates) {
    try {
      return { applied: appliedOf((await store.apply(updates.map(toUpdate))).applied) };
    } catch (error) {
      if (!(error instanceof Diverged)) throw error;
      return { raises: "diverged" };
    }
  },
  events: async (store, { partitions, after, until, limit }) => ({
    found: (await store.events(partitions, after, until, limit)).map(({ committedId }) => committedId),
  }),
  drafts: async (store, { after, items_max, bytes_max }) => ({
    found: idsOf(await store.drafts(after, items_max, bytes_max)),
  }),
  find: async (store, id) => ({ found: (await store.find(id))?.kind ?? null }),
  rejections: async (store, limit) => ({ found: idsOf(await store.rejections(limit)) }),
  dismiss: async (store, ids) => ({ count: await store.dismiss(ids) }),
  snapshots: async (store, partitions) => ({
    found: (await store.snapshots(partitions)).map(({ partition, committedId }) => ({
      partition,
      committed_id: committedId,
    })),
  }),
  async save_checkpoint(store, { name, version, partitions, committed_id, state }) {
    await store.saveCheckpoint({ name, version, partitions, committedId: committed_id, state: JSON.stringify(state) });
    return {};
  },
  load_checkpoint: async (store, name) => ({ found: (await store.loadCheckpoint(name))?.committedId ?? null }),
  facts: async (store) => ({ found: factsOf(await store.facts()) }),
};

/** `makeBackend` returns a backend; called again, one with the same content. */
export async function runStore(given, makeBackend) {
  let store = new Store(makeBackend);
  await store.open(given.client_id);
  for (const [index, step] of given.steps.entries()) {
    const where = `${given.name}, step ${index + 1}`;
    if (step.reopen) {
      await store.close();
      store = new Store(makeBackend);
      await store.open(given.client_id);
      continue;
    }
    const call = Object.keys(STORE_CALLS).find((name) => name in step);
    if (!call) throw new Error(`${where}: no such call`);
    const { [call]: _, ...expected } = step;
    const { facts, found, applied, raises, count } = expected;
    const wanted = { facts: call === "facts" ? undefined : facts, found, applied, raises, count };
    assertEqual(await STORE_CALLS[call](store, step[call]), wanted, where);
  }
  await store.close();
}

// Views

const append = (state, { committedId, event }) => [...state, [committedId, event]];

export async function runView(given, makeBackend) {
  const store = new Store(makeBackend);
  await store.open(given.client_id);
  await store.follow(given.follow);
  const views = new Views(store, given.client_id);
  const { name, partitions, version } = given.view;
  views.register(name, append, [], { partitions, version });
  for (const [index, step] of given.steps.entries()) {
    const where = `${given.name}, step ${index + 1}`;
    if ("state" in step) assertEqual(await views.read(name), step.state, where);
    else if ("raises" in step) assertEqual(await views.read(name).catch(({ code }) => code), step.raises, where);
    else if ("follow" in step) await store.follow(step.follow);
    else if ("apply" in step) await store.apply(step.apply.map(toUpdate));
    else if ("add_drafts" in step) await store.addDrafts(step.add_drafts.map(draftOf));
    else throw new Error(`${where}: no such call`);
  }
  await store.close();
}
