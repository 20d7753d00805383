// A program that uses every member of the client. It is compiled and never run; tests/js_client/test_types.py says how.

import {
  type Change,
  type ClientOptions,
  type CommittedEvent,
  type Draft,
  type ErrorCode,
  type ErrorReport,
  type LogEvent,
  type Names,
  MainstemError,
  OfflineClient,
  type Rejection,
  type Snapshot,
  type Status,
  type Store,
  type SubmittedDraft,
  indexedDbStore,
  memoryStore,
} from "mainstem-client";
import { fileStore } from "mainstem-client/file";

interface Added {
  type: "added";
  text: string;
}
interface Ticked {
  type: "ticked";
  item: string;
  isDone: boolean;
}
type TodoEvent = Added | Ticked;
interface Item {
  id: string;
  text: string;
  isDone: boolean;
}
interface Views {
  items: Item[];
  count: number;
}

function reduce(items: Item[], { id, event, isDraft, committedId }: LogEvent<TodoEvent>): Item[] {
  if (event.type === "added") return [...items, { id, text: isDraft ? `${event.text}*` : event.text, isDone: false }];
  // @ts-expect-error: only added has a text
  event.text;
  // @ts-expect-error: a draft has no committed id
  committedId.toFixed();
  return items;
}

export const stores: Store[] = [memoryStore(), indexedDbStore("todo"), fileStore("todo.db")];
// @ts-expect-error: only the functions make stores
stores.push({});
// @ts-expect-error: a path is a string
fileStore(7);

const names: Names = new Set(["list"]);
const options: ClientOptions = {
  clientId: "ada",
  token: async () => "token",
  partitions: names,
  store: memoryStore(),
  random: () => 0.5,
};

export async function use(): Promise<void> {
  const client = await new OfflineClient<TodoEvent, Views>(new URL("https://log.example.com"), options).open();
  client.registerView("items", reduce, [], { partitions: ["list"], version: 2, restore: (state, partition, snapshot) => [
    ...state,
    { id: partition, text: snapshot.text, isDone: false },
  ] });
  client.registerView("count", (count, event) => count + event.partitions.length, 0);

  const submitted: SubmittedDraft = await client.submit(["list"], { type: "added", text: "Milk" }, { id: "milk" });
  const committedId: number = await submitted.committed();
  const same: number = await client.outcome(submitted.id);
  const drafts: Draft<TodoEvent>[] = await client.drafts({ limit: 10 });
  const rejections: Rejection<TodoEvent>[] = await client.rejections({ limit: 10 });
  const dismissed: number = await client.dismiss(...rejections.map(({ id }) => id));
  for (const { reason, errors } of rejections) console.log(reason, errors.map(({ field, message }) => field + message));

  const followed: string[] = client.partitions;
  await client.addPartition("other");
  await client.removePartition("other");

  const items: Item[] = await client.view("items");
  const stop: () => void = client.watch("count", (count) => console.log(count.toFixed()), (error) => console.log(advise(error)));
  stop();
  const events: LogEvent<TodoEvent>[] = await client.events("list", { after: committedId, limit: 10, drafts: false });
  const committed = events.filter((event): event is CommittedEvent<TodoEvent> => !event.isDraft);
  const snapshot: Snapshot | null = await client.snapshot("list");

  const { state, error }: Status = client.status;
  const report: ErrorReport | null = error;
  const facts: [string, string, number, number, boolean] = [
    client.url, client.clientId, client.cursor, client.waiting, client.isDurable,
  ];
  const end: () => void = client.onChange((change) => console.log(describe(change)));
  end();
  await client.synced({ signal: AbortSignal.timeout(1000) });
  client.connectNow();
  console.log(same, drafts, dismissed, followed, items, committed, snapshot?.state, state, report?.retryable, facts);
  await client.close();

  // @ts-expect-error: no view has this name
  await client.view("things");
  // @ts-expect-error: the state of this view is a number
  client.watch("count", (count: string) => count);
  // @ts-expect-error: no event has this type
  await client.submit(["list"], { type: "moved" });
  // @ts-expect-error: a string is not an array of names
  await client.submit("list", { type: "added", text: "Milk" });
  // @ts-expect-error: the status is read-only
  client.status.state = "live";
  // @ts-expect-error: there is no such state
  if (client.status.state === "online") client.connectNow();
  // @ts-expect-error: only the client moves its cursor
  client.cursor = 0;
}

function describe(change: Change): string {
  switch (change.type) {
    case "drafted":
    case "dismissed":
      return change.ids.join();
    case "committed":
      return `${change.events} ${change.first} ${change.last} ${change.drafts.map(([id, at]) => id + at)}`;
    case "rejected":
      return `${change.id} ${change.reason} ${change.errors.length}`;
    case "status":
      return change.status.state;
    case "reported":
      return change.error.code;
    case "partitions":
    case "reset":
    case "progress":
      return change.type;
    default:
      return change satisfies never; // all types are above
  }
}

export function advise(error: unknown): string {
  if (!(error instanceof MainstemError)) throw error;
  const code: ErrorCode = error.code;
  // @ts-expect-error: no error has this code
  if (code === "auth_faild") return "never";
  if (code === "draft_rejected") return `${error.details.reason}: ${error.details.errors?.[0]?.message}`;
  return `${error.name} ${error.message} ${error.retryable} ${error.isFromServer} ${error.cause}`;
}

// Without types of its own, a program may use any names and any objects.
export async function useUntyped(): Promise<void> {
  const client = await new OfflineClient("/v1/sync", { clientId: "ada", token: "token", WebSocket }).open();
  client.registerView("anything", (state, { event }) => ({ ...state, ...event }), {});
  await client.submit(["list"], { any: { thing: [1, 2, 3] } });
  console.log((await client.view("anything")).any.thing);
  throw new MainstemError("bad_argument", "no", { field: "x" });
}

// @ts-expect-error: the client needs a name
new OfflineClient("https://log.example.com", {});
// @ts-expect-error: the client needs a URL
new OfflineClient({ clientId: "ada" });
// @ts-expect-error: a token is a string
new OfflineClient("https://log.example.com", { clientId: "ada", token: 7 });
