// The limits of the client. Those that the Python client has too are the same there, in mainstem/limits.py.

const MIB = 1024 * 1024;

export const DRAFTS_MAX = 100_000;
export const DRAFTS_BYTES_MAX = 512 * MIB;
export const REJECTIONS_MAX = 10_000;
/** Submits in one transaction. */
export const WAITING_MAX = 1_000;
export const PAGE = 1_000;
export const PAGE_MIN = 50;
export const MESSAGE_BYTES_MAX = 64 * MIB;
/** Text that has arrived and is not applied yet. A browser cannot stop reading a socket, so the client reconnects. */
export const INBOX_CHARACTERS_MAX = 128 * MIB;
export const EARLY_EVENTS_MAX = 10_000;
export const EARLY_BYTES_MAX = 32 * MIB;
export const RENEW_EVENTS = 2_000;
export const EVENTS_MAX = 10_000;
export const FOLD_EVENTS = 1_000;
export const VIEWS_MAX = 100;
export const VIEW_EVENTS = 5_000;
export const VIEW_BYTES_MAX = 64 * MIB;
export const OPEN_S_MAX = 10;
export const HEARTBEAT_S = 20;
export const SILENCE_S_MAX = 60;
/** For an answer after the browser has gone online or offline. */
export const PROBE_S_MAX = 5;
export const BACKOFF_S = 0.2;
export const BACKOFF_S_MAX = 30;
export const REFUSED_S = 30;
export const MISMATCHES = 3;

export const SUBMIT_BYTES_MAX = MIB;
export const BATCH_ITEMS_MAX = 100;
export const IN_FLIGHT_MAX = 200;
export const PARTITION_NAME_BYTES_MAX = 128;
export const EVENT_PARTITIONS_MAX = 64;
export const FILTER_PARTITIONS_MAX = 1_024;
export const EVENT_ID_BYTES_MAX = 256;
export const CLIENT_ID_BYTES_MAX = 256;
export const JSON_DEPTH_MAX = 500;
