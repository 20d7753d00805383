// The types of the public API. docs/reference/javascript-client.md describes it in full.

export {}; // only what says so is exported

/** A JSON object. It is the type of events, unless you pass one of your own. */
export interface JsonObject {
  [member: string]: any;
}

/** Names of partitions. A string is not one: the client refuses it, because it would be one name per letter. */
export type Names = readonly string[] | ReadonlySet<string>;

/** The codes of errors that the client itself finds. */
export type ClientErrorCode =
  | "bad_argument"
  | "client_closed"
  | "client_store_failed"
  | "client_store_full"
  | "client_store_in_use"
  | "client_store_wrong"
  | "connection_lost"
  | "draft_queue_full"
  | "draft_rejected"
  | "draft_unknown"
  | "history_behind"
  | "history_mismatch"
  | "history_truncated"
  | "id_in_use"
  | "invalid_draft"
  | "partition_not_followed"
  | "partition_refused"
  | "protocol_fault"
  | "rejections_full"
  | "server_silent"
  | "store_not_durable"
  | "unknown_view"
  | "view_failed";

/** The codes that a server sends. A newer server may send others. */
export type ServerErrorCode =
  | "auth_failed"
  | "bad_request"
  | "forbidden"
  | "protocol_version_unsupported"
  | "rate_limited"
  | "server_error"
  | "validation_failed";

export type ErrorCode = ClientErrorCode | ServerErrorCode;

/** What is wrong with a field of an event. `field` is empty if it concerns the whole event. */
export interface Fault {
  field: string;
  message: string;
}

/** What else is known about an error. Each code has some of these, and errors of the server may have others. */
export interface ErrorDetails {
  /** `invalid_draft`, `id_in_use` and `validation_failed`: the argument that is wrong. */
  field?: string;
  /** `partition_refused` and `history_truncated`. */
  partition?: string;
  /** `draft_rejected`: the id of the draft. */
  id?: string;
  /** `draft_rejected`: why, as a code. */
  reason?: string;
  /** `draft_rejected`: why, in words. */
  errors?: Fault[];
  /** `rate_limited`: how long to wait. */
  retry_after_ms?: number;
  [member: string]: unknown;
}

/** What is known about an error. `status` and changes have it as a plain object, because it goes from tab to tab. */
export interface ErrorReport {
  readonly name: "MainstemError";
  readonly message: string;
  /** What happened. Codes are stable; messages are not. */
  readonly code: ErrorCode;
  readonly details: ErrorDetails;
  /** Whether the same call, or the next connection, may succeed without any change. */
  readonly retryable: boolean;
  /** True if the server sent this error. */
  readonly isFromServer?: boolean;
  /** What a reducer or the `token` function threw, if that was the reason. */
  readonly cause?: unknown;
}

/** Every error that the client throws. */
export class MainstemError extends Error implements ErrorReport {
  constructor(code: ErrorCode, message: string, details?: ErrorDetails);
  readonly name: "MainstemError";
  readonly code: ErrorCode;
  readonly details: ErrorDetails;
  readonly retryable: boolean;
  readonly isFromServer?: boolean;
  readonly cause?: unknown;
}

/** Keeps the local copy of one client: `memoryStore()`, `indexedDbStore(name)`, or `fileStore(path)` in Node.js. */
export interface Store {
  readonly [storeBrand]: true;
}
declare const storeBrand: unique symbol;

/** A store in memory. Its drafts end with the page or the process. */
export function memoryStore(): Store;

/** A store in the browser, which all tabs of an origin share. */
export function indexedDbStore(name: string): Store;

interface EventContent<E> {
  id: string;
  /** The names of its partitions, normalised and sorted. */
  partitions: string[];
  event: E;
  /** The client that submitted it. */
  clientId: string;
}

/** An event that the server has committed. */
export interface CommittedEvent<E extends object = JsonObject> extends EventContent<E> {
  /** Its position in the global order. */
  committedId: number;
  /** When the server committed it (RFC 3339), or an empty string if the server did not say. */
  committedAt: string;
  clock: null;
  isDraft: false;
}

/** An event that this client has submitted and that is not committed yet. */
export interface Draft<E extends object = JsonObject> extends EventContent<E> {
  committedId: null;
  committedAt: "";
  /** Its position in the order in which this store's drafts were submitted. */
  clock: number;
  isDraft: true;
}

/** What a reducer gets: a committed event or, after all of those, a draft. */
export type LogEvent<E extends object = JsonObject> = CommittedEvent<E> | Draft<E>;

/** A draft that the server refused. */
export interface Rejection<E extends object = JsonObject> {
  clock: number;
  id: string;
  partitions: string[];
  event: E;
  /** `validation_failed`, `forbidden`, `bad_request` or `too_large`; servers may have others. */
  reason: string;
  errors: Fault[];
}

/** The state of a partition in place of the history that the server has pruned. */
export interface Snapshot {
  partition: string;
  /** The committed id up to which the state includes everything. */
  committedId: number;
  state: any;
}

/** What `submit` returns. */
export interface SubmittedDraft {
  id: string;
  /** Wait for the server, and return the committed id. Throws `draft_rejected` if the server refuses the draft. */
  committed(): Promise<number>;
}

export type State = "offline" | "connecting" | "syncing" | "live";

export interface Status {
  readonly state: State;
  /** Why the client is offline, or what the server refuses; null if all is well. */
  readonly error: ErrorReport | null;
}

/** What `onChange` reports. Ignore types that you do not know: a newer client may have others. */
export type Change =
  /** Drafts were stored, in this tab or in another one. */
  | { type: "drafted"; ids: string[] }
  /** The local copy has `events` new events, from `first` to `last`. `drafts` has [id, committed id] of our own. */
  | { type: "committed"; events: number; first: number; last: number; drafts: [id: string, committedId: number][] }
  /** The server refused a draft. */
  | { type: "rejected"; id: string; reason: string; errors: Fault[] }
  /** Rejections were dismissed, in this tab or in another one. */
  | { type: "dismissed"; ids: string[] }
  /** The connection has changed. */
  | { type: "status"; status: Status }
  /** Something happened that the application may want to know about, and that stops nothing. */
  | { type: "reported"; error: ErrorReport }
  /** A partition was added or removed. */
  | { type: "partitions" }
  /** The server has another log. The client discards its copy and fetches it again; drafts stay. */
  | { type: "reset" }
  /** The cursor has moved, and nothing else. */
  | { type: "progress" };

/** The members of a WebSocket that the client uses. */
export interface Socket {
  readonly readyState: number;
  onopen: ((event: any) => any) | null;
  onmessage: ((event: any) => any) | null;
  onerror: ((event: any) => any) | null;
  onclose: ((event: any) => any) | null;
  send(text: string): void;
  close(): void;
}

/** The members of an `AbortSignal` that the client uses. */
export interface Signal {
  throwIfAborted(): void;
  addEventListener(type: "abort", listener: () => void): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

export interface ClientOptions {
  /** The name of this client, 1 to 256 bytes. With tokens, it is the one in the token. Use one per browser profile. */
  clientId: string;
  /** A token, or a function that returns one for each connection. */
  token?: string | (() => string | Promise<string>);
  /** Partitions to follow, in addition to those that the store remembers. */
  partitions?: Names;
  /** By default IndexedDB, or memory where tabs cannot share a store. */
  store?: Store;
  /** Returns a number from 0 to 1, for the pauses between attempts to connect. */
  random?: () => number;
  /** The class of connections, for environments that have none, such as Node.js 20. */
  WebSocket?: new (url: string) => Socket;
}

export interface ViewOptions<S> {
  /** Partitions whose events the reducer gets. By default all that the client follows. */
  partitions?: Names;
  /** Raise it when you change the reducer: the client stores states. */
  version?: number;
  /** Returns the state that includes a snapshot of the server. By default the snapshot is the state, for one partition. */
  restore?: (state: S, partition: string, snapshot: any) => S;
}

/**
 * Works on a local copy, online or offline, and synchronises it with a server.
 *
 * `E` is the type of the events. It is a promise of yours: the client does not check what other clients submit. `V` maps
 * the names of views to the types of their states.
 *
 *     const client = new OfflineClient<TodoEvent, { items: Item[] }>(url, { clientId });
 */
export class OfflineClient<E extends object = JsonObject, V extends { [K in keyof V]: any } = Record<string, any>> {
  /** `url` is that of a server (`https://host`) or of its sync endpoint (`wss://host/v1/sync`). */
  constructor(url: string | { readonly href: string; toString(): string }, options: ClientOptions);

  /** Open the store and start to connect. This does not wait for the server. A client can be opened once. */
  open(): Promise<this>;
  /** Disconnect and close the store. Drafts stay in it. */
  close(): Promise<void>;

  /** Store an event as a draft, which needs no server, and send it as soon as there is a connection. */
  submit(partitions: Names, event: E, options?: { id?: string }): Promise<SubmittedDraft>;
  /** Wait for the commit of a draft in this store, and return its committed id. */
  outcome(id: string): Promise<number>;
  /** Return the drafts that are not committed yet, in order. */
  drafts(options?: { limit?: number }): Promise<Draft<E>[]>;
  /** Return the drafts that the server refused and that were not dismissed, oldest first, even after a restart. */
  rejections(options?: { limit?: number }): Promise<Rejection<E>[]>;
  /** Discard rejections, and return how many there were. */
  dismiss(...ids: string[]): Promise<number>;

  /** The partitions that this client follows. */
  get partitions(): string[];
  /** Follow a partition. Once connected, the client fetches its whole history. */
  addPartition(name: string): Promise<void>;
  /** Stop following a partition, and discard its events except those that another followed partition has. */
  removePartition(name: string): Promise<void>;

  /** Register a view: a reducer over the committed events in order, and then over the drafts. States are JSON. */
  registerView<K extends keyof V & string>(
    name: K,
    reducer: (state: V[K], event: LogEvent<E>) => V[K],
    initial: V[K],
    options?: ViewOptions<V[K]>,
  ): void;
  /** Return the state of a view, as a copy that belongs to you. */
  view<K extends keyof V & string>(name: K): Promise<V[K]>;
  /**
   * Call `show` with the state of a view, now and whenever it may have changed. Return a function that ends this.
   * `onError` gets what the reducer (as `view_failed`) or `show` threw.
   */
  watch<K extends keyof V & string>(
    name: K,
    show: (state: V[K]) => void,
    onError?: (error: unknown) => void,
  ): () => void;
  /** Return the events of a followed partition after a committed id, in order, and then its drafts. */
  events(
    partition: string,
    options?: { after?: number; limit?: number; drafts?: boolean },
  ): Promise<LogEvent<E>[]>;
  /** Return the snapshot that the server sent for pruned history, or null. */
  snapshot(partition: string): Promise<Snapshot | null>;

  /** The URL of the sync endpoint. */
  get url(): string;
  get clientId(): string;
  get status(): Status;
  /** The committed id up to which the local copy is complete. */
  get cursor(): number;
  /** How many drafts, of all tabs, are not committed yet. */
  get waiting(): number;
  /** Whether drafts survive the end of this page or process. */
  get isDurable(): boolean;
  /** Call `listener` with each change. Return a function that ends this. */
  onChange(listener: (change: Change) => void): () => void;
  /** Wait until the client is live, has all history, and no draft is waiting. Throws errors that retrying cannot help. */
  synced(options?: { signal?: Signal }): Promise<void>;
  /** Connect now, without waiting for the next attempt. */
  connectNow: () => void;
}
