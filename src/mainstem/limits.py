"""Every limit in one place. The unit comes last in the name; the docstring below gives the reason.

docs/reference/limits.md is made from this file: run `python -m tests.docs.limits_page` after a change.
"""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# Requests
BODY_BYTES_MAX: Final = 64 * MIB
"""A request body, which the server holds in memory until it is stored. Some clients collect all pending appends in one
body. A larger body gets 413."""
BODY_DISCARD_BYTES_MAX: Final = 128 * MIB
"""The part of an oversized body that the server reads and drops, so that its client sees the 413."""
PARSE_INLINE_BYTES_MAX: Final = 256 * KIB
"""JSON up to this size is validated on the event loop, in less than half a millisecond; larger bodies in a thread."""
REQUEST_HEAD_BYTES_MAX: Final = 64 * KIB
"""The request line and all headers; curl and browsers stay far below. More gets 431."""
REQUEST_HEADERS_MAX: Final = 200
"""Headers of one request; each costs about a microsecond of the event loop. More get 431."""
HEAD_KNOWN_BYTES_MAX: Final = 2 * KIB
"""A head that is remembered, so that the next request with the same head costs little; longer ones are not."""
HEADS_KNOWN_MAX: Final = 4_096
"""Heads that are remembered."""
HEADS_KNOWN_BYTES_MAX: Final = 2 * MIB
"""The same, by size: about 10 MB of memory once they are parsed."""
HOST_BYTES_MAX: Final = 262
"""A `Host` header: a name of 255 bytes, a colon, and a port. A longer one gets 400."""
FAST_APPEND_BYTES_MAX: Final = 64 * KIB
"""Larger appends go through ASGI, with flow control."""
READ_AHEAD_BYTES: Final = 64 * KIB
"""Read from a connection while its current request has no reply yet, or its body has not been consumed."""
WRITE_JOINED_BYTES_MAX: Final = 16 * KIB
"""A larger body is written after its head, instead of being copied to it."""
REQUESTS_AT_ONCE: Final = 16
"""Pipelined requests of one connection that are served before other connections get their turn."""
CHUNKS_AT_ONCE: Final = 1_000
"""Parts of a chunked body that are parsed before other connections get their turn: half a millisecond."""
CHUNK_LINE_BYTES_MAX: Final = 8 * KIB
"""The size and extensions of a chunk, or one trailer."""
CHUNK_EXCESS_BYTES_MAX: Final = 16 * KIB
"""Chunk extensions beyond what the amount of data justifies."""
TRAILER_BYTES_MAX: Final = 8 * KIB
"""Trailers are validated and dropped."""
JSON_MESSAGE_BYTES_MAX: Final = 16 * MIB
"""One JSON message, alone or in an array: it is parsed in one go, at about 4 ms of the event loop per MiB. A larger one
gets 413 `message_too_large`."""
APPEND_MESSAGES_MAX: Final = 100_000
"""Messages in one JSON array; each becomes a row for readers of the log. More get 413 `too_many_messages`."""
REQUEST_WAIT_S_MAX: Final = 120.0
"""From the connection, or from the first byte of a request, until the request is complete; then 408."""
BODY_BYTES_S_MIN: Final = 64 * KIB
"""The slowest rate at which a body may arrive: each such amount extends the deadline by a second."""
LINGER_S: Final = 1.0
"""How long a client whose request was refused may keep sending, unread, before its connection is closed."""
DEADLINE_CHECK_S: Final = 0.5
"""How often the server checks the deadlines of its connections."""
LISTEN_BACKLOG: Final = 2_048
"""Connections that the kernel has accepted and the server has not."""
CONNECTIONS_MAX: Final = 50_000
"""HTTP and WebSocket connections together; beyond this, new ones are refused."""
CONNECTION_BYTES_TOTAL_MAX: Final = 512 * MIB
"""Incomplete bodies and messages, and unread replies, of all connections together. Beyond this, the server closes the
connections that have stalled for the longest time."""
WEBSOCKET_FRAGMENTS_MAX: Final = 1_024
"""Fragments of one message."""
WEBSOCKET_PING_S: Final = 20.0
"""Silence after which the server pings a client; after the same time again it closes the connection."""
FRAMES_AT_ONCE_BYTES: Final = 4 * KIB
"""WebSocket frames that are parsed before other connections get their turn: at most 700 frames."""
LINGER_BYTES_MAX: Final = 4 * MIB
"""How much a refused client may keep sending, unread, so that a flood is cut off."""
KEEP_ALIVE_S: Final = 75
"""An idle connection; above the usual 60 s of proxies, so that they close first."""
STREAM_PREFIX_BYTES_MAX: Final = 128
"""The prefix is part of every URL of a stream."""
STREAM_PATH_BYTES_MAX: Final = 1024
"""A path is a database key, and part of every ETag."""
JSON_DEPTH_MAX: Final = 500
"""Levels of nesting; far below what the stack of the parser allows, so that every reader can parse stored data."""
CONTENT_TYPE_BYTES_MAX: Final = 256
"""It is stored with every stream."""
STREAM_SEQ_BYTES_MAX: Final = 256
"""It is stored with every stream."""
PRODUCER_ID_BYTES_MAX: Final = 256
"""It is part of a database key."""
QUERY_BYTES_MAX: Final = 16 * KIB
"""Enough for a stream set with its token."""
INTEGER_MAX: Final = 2**53 - 1
"""The largest integer that a JavaScript client can hold exactly, 2^53-1."""
TTL_S_MAX: Final = 100 * 365 * 86_400
"""A century of 365-day years; sums stay far below 2^63 microseconds."""
RETRY_AFTER_S: Final = 1
"""The pause that a 503 or 429 asks for in `Retry-After`."""
INJECTED_FAULTS_MAX: Final = 1_000
"""Pending faults that tests have injected, with `--test-endpoints`; held by the server."""

# Metrics and logs
METRIC_SERIES_MAX: Final = 256
"""Combinations of label values of one metric. Further ones are counted together as `other`."""
REQUEST_SERIES_MAX: Final = 2_000
"""The same for requests, which are counted by route, method, status and error code."""
LOOP_LAG_SAMPLE_S: Final = 0.25
"""How often the server measures how late its event loop is."""
STORE_SIZES_KEPT_S: Final = 2.0
"""How long the sizes of a store's files count as current, so that a thousand scrapes do not look a thousand times."""
REQUEST_ID_BYTES_MAX: Final = 128
"""An `X-Request-Id` that the server accepts. It ignores a longer one and makes its own."""
ACCESS_LINES_WAITING_MAX: Final = 10_000
"""Lines of the access log that wait to be written. Further ones are dropped and counted, so that a full disk or a
stopped reader cannot stop the server."""
ACCESS_FIELD_CHARACTERS_MAX: Final = 512
"""A path, a referrer or a user agent in the access log; the rest is cut off."""
ACCESS_LOG_FLUSH_S_MAX: Final = 2.0
"""How long a server that stops waits for its last lines to be written."""
REFUSALS_LOGGED_S: Final = 10.0
"""How often the log has a line about refused requests with the same code; the line counts those in between."""
EXPORT_FAILURES_LOGGED_S: Final = 60.0
"""How often the log has a line about a collector that does not take traces or metrics."""
TELEMETRY_FLUSH_S_MAX: Final = 5.0
"""How long a server that stops waits for its last traces and metrics to be exported."""
METRIC_EXPORT_S: Final = 60.0
"""How often metrics are exported by OTLP, unless `OTEL_METRIC_EXPORT_INTERVAL` says otherwise: OpenTelemetry's
default."""
METRIC_EXPORT_MS_MIN: Final = 100
"""The smallest `OTEL_METRIC_EXPORT_INTERVAL`: reading all metrics takes the event loop about a millisecond."""
TRACE_HEADER_BYTES_MAX: Final = 512
"""A `traceparent` or `tracestate` that the server accepts and sends; every span of the trace holds it. W3C asks for at
least this much."""
TRACED_STREAMS_MAX: Final = 1_000
"""Streams of which the server knows who appended to them, so that the calls of webhooks continue these traces."""
TRACED_APPENDS_PER_STREAM_MAX: Final = 8
"""Appends to one of these streams. A wake comes a moment after the first append that it announces."""
TRACE_LINKS_MAX: Final = 16
"""Further traces to which the call of a webhook refers."""

# Reads
PAGE_BYTES: Final = MIB
"""One catch-up response, unless a single record is larger."""
PAGE_BYTES_MAX: Final = 64 * MIB
"""The largest value of `page_bytes`."""
LARGE_RECORD_BYTES_MIN: Final = MIB
"""A smaller append is read from the store again for each page or event."""
LARGE_RECORDS_BYTES_MAX: Final = 128 * MIB
"""Larger appends that are kept in memory for readers that read them in pieces."""
PAGE_CACHE_BYTES_MAX: Final = 64 * MIB
"""Catch-up responses that are kept in memory, because others may read the same pages soon. One that is larger than an
eighth of this is not kept."""
ENCODE_INLINE_BYTES_MAX: Final = MIB
"""Larger pages and events are encoded in a thread: copying 64 MiB takes about 30 ms."""
LOG_PAGE_BYTES: Final = 4 * MIB
"""One response of `/v1/log`, unless the request sets another size; larger ones only cost memory."""
LOG_PAGE_BYTES_MAX: Final = 64 * MIB
"""The largest size that a request to `/v1/log` can set; it is held in memory while it is sent."""
LOG_PAGE_ROWS: Final = 100_000
"""Rows in one response of `/v1/log`, unless a single record has more and the reader sends no `position`."""
LOG_RECORD_ROWS_MAX: Final = 1_000_000
"""Messages of a record that is read without `position`: about 500 MB while it is encoded. More get 400
`record_too_large`."""
LOG_RESUME_POINTS_MAX: Final = 1_000
"""Positions within records that are cached, so that the next page need not count messages."""
LOG_LINES_AT_ONCE: Final = 1_000
"""Rows that are Python objects while they are encoded as JSON."""
LOG_EVENT_BYTES: Final = 256 * KIB
"""One event of a tail of the log."""
LOG_SCAN_IDS_MAX: Final = 2_000_000
"""Ids that are examined for one page of the log, however few of them pass the filters."""
LOG_TAGGED_MAX: Final = 20_000
"""Events in one page of the log that is filtered by partition."""
LOG_TOPICS_MAX: Final = 10_000
"""Streams that match a filter; beyond this, the whole log is read and filtered afterwards."""
LOG_NAMES_MAX: Final = 100_000
"""Stream names that are cached while the log is read."""
LOG_EXPORTERS: Final = 2
"""Pages of the log that are encoded at once; each needs a core."""
LOG_EXPORTER_IDLE_S: Final = 60.0
"""A worker process that encodes pages holds about 80 MB, so it ends when nobody reads."""
LOG_PACING_RECORDS_S: Final = 10_000
"""If more records are committed per second, readers of the log wait between pages: writers come first."""
LOG_PACING_WINDOW_S: Final = 0.1
"""The shortest time over which that is measured."""
LOG_PACING_PAUSES: Final = 24
"""How many times as long as its page such a pause is."""
LOG_PACING_S_MAX: Final = 1.0
"""The longest of these pauses, so that readers never stop."""
LOG_READS_WAITING_MAX: Final = 64
"""Readers of the log that are being served or are waiting; more get 503."""
INDEX_PAGE_MAX: Final = 10_000
"""Entries in one page of `/v1/log/index`: about 20 ms of a thread."""
LOG_PIPE_BYTES: Final = MIB
"""Read ahead from a worker process before the server pauses it."""
BACKGROUND_SLICE_NS: Final = 100_000_000
"""The time slice of background work, the longest that Linux accepts: whatever wakes up interrupts a longer slice than
its own at once."""
FREED_BYTES_KEPT_MAX: Final = 64 * MIB
"""Freed memory that a process keeps for the next page of the log: a few pages of Spark."""
KEPT_BLOCK_BYTES_MAX: Final = 32 * MIB
"""The largest block of memory that is kept in this way; the C library accepts no more."""
LOG_CUT_WINDOWS: Final = 256
"""Parts of a range that are measured to divide it (`/v1/log/cuts`)."""
LOG_CUT_SAMPLE_IDS: Final = 1_000
"""Ids that are measured in each of them: 256 000 in all, about 0.1 s. The sizes of longer ranges are estimates."""
LOG_CUTS_MAX: Final = 10_000
"""Parts that a range can be divided into."""
MEASURE_PAGE_BYTES: Final = 4 * MIB
"""Held at once of a log whose rows are only counted."""
SSE_EVENT_BYTES: Final = 64 * KIB
"""A stalled SSE reader holds one event, so events are small."""
LONG_POLL_MS: Final = 30_000
"""How long a long-poll waits for data."""
LONG_POLL_MS_MAX: Final = 600_000
"""The largest value of `long_poll_ms`."""
SSE_LIFETIME_S: Final = 60.0
"""SSE responses end about every minute, give or take 10 %, so that proxies can collapse readers (protocol 5.8)."""
SSE_HEARTBEAT_S: Final = 15.0
"""Below the idle time-outs of common proxies, which are 30 s and more."""
SEND_STALL_S_MAX: Final = 60.0
"""A reader that receives nothing for this long is disconnected."""
LIVE_READERS_MAX: Final = 20_000
"""Long-poll and SSE readers together, of streams and partitions, at about 5 KB each; each stream of a set counts. More
get 429."""
LIVE_READERS_PER_CLIENT_MAX: Final = 15_000
"""Live readers of one client, or of one address without tokens; a quarter stays free for all others. More get 429."""
CONNECTIONS_PER_CLIENT_MAX: Final = 20_000
"""Connections of one address. Behind a proxy, all clients may share one address."""

TAIL_MESSAGES_MAX: Final = 10_000
"""The largest value of `tail`."""
LISTED_STREAMS: Final = 100
"""Streams in one page of the list of streams."""
LISTED_STREAMS_MAX: Final = 1_000
"""The largest `limit` of that list."""
SEARCHED_STREAMS_MAX: Final = 10_000
"""Streams whose paths one request with `search` compares: more would take too long for one reply."""
SET_STREAMS_MAX: Final = 100
"""Streams in one stream set, over one connection."""
DESCRIPTIONS_KEPT_MAX: Final = 16
"""Copies of `/openapi.json` and `/asyncapi.json`: one per path at which the app is mounted, and per encoding."""

# Compression
COMPRESS_BYTES_MIN: Final = KIB
"""For smaller bodies, the header costs more than compression saves."""
COMPRESS_INLINE_BYTES_MAX: Final = 16 * KIB
"""Larger bodies are compressed in a thread."""

# Group commit
COMMANDS_WAITING_MAX: Final = 20_000
"""Commands in the queue of the log; beyond this, writers get 503."""
COMMAND_BYTES_WAITING_MAX: Final = 64 * MIB
"""The same, by size: two batches. More would only make everybody wait for longer."""
COMMAND_WAIT_S_MAX: Final = 5.0
"""The same, by time: while the oldest command has waited for longer, because the disk is slow, writers get 503."""
BATCH_COMMANDS_MAX: Final = 2_000
"""Commands in one batch; bounds how long the first caller waits for the sync."""
BATCH_BYTES_MAX: Final = 32 * MIB
"""The same, by size; a larger append is a batch of its own."""

# Memory
GC_ALLOCATIONS: Final = 20_000
"""New objects until `mainstem serve` looks for garbage cycles. Requests leave none, and Python's default of 700 would
look thousands of times per second."""
THREAD_SWITCH_S: Final = 0.0002
"""How long a thread of `mainstem serve` keeps the interpreter while another one waits for it. With Python's default of
5 ms, a commit waits for the event loop, and the event loop for the parsing of a large body."""

# Live tail
TOPICS_HOT_MAX: Final = 4_096
"""Streams whose newest data is kept in memory."""
TOPIC_HOT_BYTES_MAX: Final = 256 * KIB
"""How much data of one stream is kept in memory."""
HOT_BYTES_MAX: Final = 32 * MIB
"""How much data of all streams is kept in memory."""
KEYS_CACHED_MAX: Final = 16_384
"""Keys of streams, and as many of producers, that are remembered with their hashes."""
NEWEST_RECORDS_MAX: Final = 4_096
"""Streams without live readers of which the newest append is kept in memory, for clients that read what was just
written."""
NEWEST_RECORD_BYTES_MAX: Final = 8 * KIB
"""A larger append is read from the store."""
FAN_OUT_AT_ONCE: Final = 250
"""Readers or sync connections that are sent an event before other work gets its turn: about two milliseconds of the
event loop."""
TOPIC_FRAMES_MAX: Final = 16
"""SSE frames of a stream that readers share; readers at other positions encode their own."""

# Stores
STATES_CACHED_MAX: Final = 65_536
"""States in the cache, at about 500 bytes each."""
READERS: Final = 2
"""Threads that read the embedded store; more would only queue on the same cores."""
UNMERGED_APPENDS_MAX: Final = 4_096
"""Appends in the small index before they are merged into the large one: about 15 pages, which one commit can write."""
LOCK_WAIT_S_MAX: Final = 5.0
"""How long a starting server waits for the lock of a killed one: a process that it was just starting may hold it for a
moment."""
JOURNAL_STEP_BYTES: Final = 256 * KIB
"""By how much a file of the journal grows at once: growing is slow."""
DIRECT_WRITE_BYTES_MAX: Final = 1024 * KIB
"""A larger batch is encoded and written by a thread: on the event loop that would take about a millisecond."""
DIRECT_WRITE_BLOCKED_S: Final = 0.001
"""A write without a thread that keeps the event loop waiting for longer counts as blocking."""
DIRECT_WRITES_BLOCKED_MAX: Final = 16
"""Blocking writes in a row after which a store uses a thread."""
FOLD_RECORDS: Final = 4_096
"""Records in the journal before they are folded into the database: enough for large transactions."""
FOLD_BYTES: Final = 4 * MIB
"""The same, by size."""
FOLD_DELAY_S: Final = 0.25
"""How long fewer records stay in the journal alone."""
UNFOLDED_BYTES_MAX: Final = 24 * MIB
"""Beyond this, commits wait for the database."""
START_CHECK_RECORDS: Final = 256
"""The newest records that are verified at the start, because the next writes change their pages."""
START_CHECK_BYTES: Final = 16 * MIB
"""The same, by size: a start should not take noticeably longer."""
DAMAGE_LOG_S: Final = 10.0
"""How soon another read of damaged data is logged."""
REPAIR_PROBES_MAX: Final = 1_000_000
"""Ids that a repair tries to read after damage: more than the records of all pages below one damaged page."""
WAL_PAGES: Final = 2_000
"""A checkpoint after about 16 MB of SQLite's write-ahead log: short stalls, and a bounded file."""
WAL_BYTES_MAX: Final = 64 * MIB
"""The size to which SQLite's write-ahead log is truncated after a checkpoint."""
WAL_READERS_WAIT_S: Final = 0.1
"""How long a store on a full disk waits for readers before it empties the write-ahead log."""
RESERVE_BYTES: Final = 32 * MIB
"""Reserved on the disk for when it is full: for SQLite's write-ahead log, and for deletes and pruning."""
FREE_BYTES_MIN: Final = 8 * MIB
"""Free space within the database with which writes continue although the disk is full."""
ROOM_CHECK_S: Final = 1.0
"""How soon a store notices that a full disk has space again."""
BACKUP_STEP_PAGES: Final = 2_000
"""About 16 MB: a copy reports progress, and can be interrupted, between two steps."""
CHECK_FINDINGS_MAX: Final = 1_000
"""Faults that a check lists; nobody reads a longer list."""
CHECK_CACHE_BYTES: Final = 64 * MIB
"""A check reads the whole file, and looks up many entries."""
CHECK_SCAN_ROWS: Final = 1_000
"""Rows that a check fetches from PostgreSQL at once, without their data."""
CHECK_BATCH_MAX: Final = 200
"""States and records that a check looks up at once."""
CHECK_SNAPSHOTS_MAX: Final = 8
"""The same for snapshots of partitions, which are large."""
CHECK_BATCH_BYTES_MAX: Final = 4 * MIB
"""Values that a check holds at once, but at least one."""

# PostgreSQL
POSTGRES_READERS: Final = 4
"""Connections for reads; each is a process of the database."""
STATEMENT_S_MAX: Final = 30.0
"""One statement, as the database measures it."""
COMMAND_S_MAX: Final = 40.0
"""One statement, as the node measures it: a database that does not reply any more counts as lost."""
HEAD_WAIT_S_MAX: Final = 10.0
"""How long a node waits for the commits of other nodes before its own."""
HEAD_HOLD_S_MAX: Final = 10.0
"""A node that holds the lock of the head without using it is disconnected."""
CONNECT_S_MAX: Final = 5.0
"""One attempt to connect."""
RECONNECT_S_MAX: Final = 5.0
"""How long a request waits for the database to come back before it gets 503."""
RECONNECT_PAUSE_S: Final = 0.1
"""Between two attempts to connect."""
OUTCOME_S_MAX: Final = 20.0
"""To find out whether a commit whose connection broke has succeeded."""
DATABASE_START_S_MAX: Final = 60.0
"""How long a starting node waits for the database."""
FULL_TOLD_S: Final = 10.0
"""How long `/readyz` replies with 503 after a write that found the disk of the database full."""
FOLLOW_POLL_S: Final = 1.0
"""How often a node looks for the commits of other nodes, in case a notification was lost."""
FOLLOW_YIELD_S_MAX: Final = 0.005
"""A committer that waits for its turn reads the news itself; readers wait no longer than this for it."""
FOLLOW_BYTES_MAX: Final = 4 * MIB
"""Records of other nodes that are read at once."""
ALONE_S: Final = 1.0
"""After this long without commits of other nodes, a node commits without locking the head first."""
SAVES_KEPT_S: Final = 120.0
"""How long a node may be disconnected before it must drop its cached states."""
SAVES_DROPPED_MAX: Final = 5_000
"""Old notes of commits that one statement removes."""
LEADER_CHECK_S: Final = 1.0
"""How soon another node takes over the background work of one that died."""
CLOCK_STEP_US: Final = 20_000
"""Smaller differences from the clock of the database are due to the network."""

# Subscriptions
SUBSCRIPTION_ID_BYTES_MAX: Final = 256
"""An id is a database key; the name of a worker has the same limit."""
SUBSCRIPTION_DESCRIPTION_BYTES_MAX: Final = KIB
"""It is held in memory, and written again with every wake."""
SUBSCRIPTIONS_PER_CLIENT_MAX: Final = 10_000
"""Subscriptions of one client, or of all that have no owner; each takes about 1 KB of memory, and is checked at each
wake. More get 429."""
SUBSCRIPTION_STREAMS_MAX: Final = 1_000
"""Explicit streams in one request."""
CONTROL_BODY_BYTES_MAX: Final = MIB
"""A request to the subscription APIs, or to prune."""
LEASE_MS_MIN: Final = 1_000
"""The limit of the public protocol (6.2)."""
LEASE_MS_MAX: Final = 600_000
"""The limit of the public protocol (6.2)."""
LEASE_CHECK_S: Final = 0.25
"""How often the server looks for leases that have ended, and for retries that are due."""
WAKE_STREAMS_MAX: Final = 500
"""Streams in one wake; the others follow in the next."""
WAKES_AT_ONCE: Final = 200
"""Subscriptions that one round of commands wakes."""
PENDING_REVIEW_S: Final = 10.0
"""How often a node that is not the leader drops streams that the leader has dealt with."""
MATCHED_PATHS_MAX: Final = 100_000
"""Paths that are known to be matched; appends to other streams are examined one by one."""
GLOB_SEGMENTS_MAX: Final = 32
"""Segments of a subscription's pattern, which is matched against every path that changes. More get 400."""
GLOB_ANY_MAX: Final = 4
"""`**` segments in such a pattern."""
GLOB_STARS_MAX: Final = 32
"""Stars within the other segments of such a pattern."""
GLOB_TRIES_AT_ONCE: Final = 20
"""Patterns that are matched in one turn of the event loop; the worst take a millisecond each."""
GLOB_ANSWERS_MAX: Final = 65_536
"""Paths for which the matching patterns are cached."""
GLOB_PAIRS_MAX: Final = 8_192
"""Pairs of a pattern and a path for which the result is cached, at up to 2 KB each."""
LISTED_LINKS_MAX: Final = 10_000
"""Links in the description of a subscription."""
LISTED_CURSORS_MAX: Final = 1_000
"""Streams in what an operator sees of a subscription; those with new data come first."""
CURSORS_SCANNED_MAX: Final = 10_000
"""Streams that are compared with the pattern for that."""
LAG_MEASURE_S: Final = 10.0
"""How long the lag of all subscriptions counts as measured."""
LAG_STREAMS_MAX: Final = 10_000
"""Streams of all subscriptions together whose bytes are counted for that."""
WEBHOOK_URL_BYTES_MAX: Final = 2_048
"""It is stored with the subscription."""
WEBHOOK_S_MAX: Final = 15.0
"""Connecting, sending, and reading the reply together."""
WEBHOOK_ANSWER_BYTES_MAX: Final = 64 * KIB
"""A reply is a status, and perhaps `{"done": true}`."""
WEBHOOK_BACKOFF_S: Final = 1.0
"""The first pause after a failed call; it doubles each time, with 20 % jitter (protocol 7.1)."""
WEBHOOK_BACKOFF_S_MAX: Final = 60.0
"""The longest such pause."""
WEBHOOKS_AT_ONCE: Final = 1_000
"""Webhook calls in progress."""
WEBHOOKS_PER_OWNER_AT_ONCE: Final = 250
"""Calls in progress for the subscriptions of one owner; the others wait, so that slow receivers delay only their
owner."""
WEBHOOKS_PER_HOST_AT_ONCE: Final = 100
"""Calls in progress to one host, which may be slow, or flooded by somebody's subscriptions."""
SIGNING_KEY_US_MAX: Final = 90 * 86_400 * 1_000_000
"""The age at which the server replaces a signing key."""
SIGNING_KEY_CHECK_S: Final = 3_600.0
"""How often the server checks that age, besides each start."""
RETIRED_KEYS_MAX: Final = 8
"""Old keys that are still published, each for a day."""

# Authorisation
TOKEN_BYTES_MAX: Final = 8 * KIB
"""A longer token is refused unread."""
ERROR_DESCRIPTION_BYTES_MAX: Final = 256
"""The reason for a 401 or 403 in `WWW-Authenticate`, where proxies limit the size of headers."""
TOKENS_KNOWN_MAX: Final = 10_000
"""Verified tokens in the cache, at about 2 KB each."""
JWKS_REFRESH_S: Final = 600.0
"""How often the server reloads a JWKS: how long a key that its issuer has withdrawn may still be accepted."""
JWKS_RETRY_S_MIN: Final = 30.0
"""An unknown key id makes the server reload the JWKS, but not more often than this, so that strangers cannot flood the
issuer."""
JWKS_BYTES_MAX: Final = 256 * KIB
"""A larger key set is refused."""
JWKS_KEYS_MAX: Final = 100
"""Keys in one set; a token without a key id is tried with each."""
JWKS_WAIT_S_MAX: Final = 10.0
"""Connecting and reading together."""
SECRET_BYTES_MIN: Final = 32
"""An HS256 key must be at least as long as its hash (RFC 7518, section 3.2)."""
SIGNED_URL_S: Final = 300
"""How long a signed URL is valid if its maker does not say: enough for a page to open it."""
SIGNED_URL_S_MAX: Final = 3_600
"""How far ahead the expiry of a signed URL may be. URLs end up in logs and histories, so none may be valid for long."""
SIGNED_URL_SKEW_S_MAX: Final = 60
"""How much more is tolerated, for a signer whose clock is ahead of the server's."""
COOKIE_BYTES_MAX: Final = 4_096
"""The name and the value of a cookie; browsers silently drop a larger one (RFC 6265bis, section 5.6)."""
ORIGINS_ALLOWED_MAX: Final = 100
"""Origins in `allow_origin`; long-polls share a response only if their origins are equal."""
CALLERS_MAX: Final = 10_000
"""Callers whose rate is counted; the one that was silent for the longest time is dropped first."""

# Sync protocol
SYNC_MESSAGE_BYTES_MAX: Final = MIB
"""A message is held in memory as a whole."""
SYNC_BATCH_ITEMS_MAX: Final = 100
"""Events in one submit."""
SYNC_DRAFTS_MAX: Final = 200
"""Events of one client that wait for their commit, on all of its connections; with more, its sockets are not read."""
SYNC_MESSAGES_S_MAX: Final = 20_000
"""Messages per second of one connection, averaged over a second; a faster one is read more slowly."""
SYNC_INLINE_BYTES_MAX: Final = 32 * KIB
"""Larger messages are validated in a thread; hostile ones of this size take 8 ms of the event loop."""
SYNC_MESSAGES_AT_ONCE: Final = 32
"""Messages of one connection that are handled before the others get their turn."""
SYNC_REPLIES_WAITING_MAX: Final = 1_000
"""Replies of one connection that wait for an earlier one; with more, its socket is not read."""
SYNC_PAGE_MIN: Final = 50
"""The smallest effective `limit` of a `sync`."""
SYNC_PAGE: Final = 500
"""Events in one page without `limit`."""
SYNC_PAGE_MAX: Final = 1_000
"""The largest effective `limit`; also a page of a partition over HTTP."""
SYNC_PAGE_BYTES_MAX: Final = 4 * MIB
"""The size at which a page ends, so that large events do not make a huge message."""
PARTITION_NAME_BYTES_MAX: Final = 128
"""The name of a partition, after NFC normalisation."""
EVENT_PARTITIONS_MAX: Final = 64
"""Partitions of one event."""
FILTER_PARTITIONS_MAX: Final = 1_024
"""Names in one list of a sync request; each costs an index lookup."""
EVENT_ID_BYTES_MAX: Final = 256
"""An id is a database key, and is kept for ever."""
CLIENT_ID_BYTES_MAX: Final = 256
"""It is stored with every event."""
CONNECT_WAIT_S_MAX: Final = 10.0
"""From the handshake to `connect`."""
SEND_QUEUE_BYTES_MAX: Final = 256 * KIB
"""Beyond this, a connection is fed from the log, at its own pace."""
GOODBYE_S_MAX: Final = 5.0
"""For the last messages of a connection that is being closed."""
SYNC_CONNECTIONS_MAX: Final = 20_000
"""More are refused in the handshake."""
LISTED_SESSIONS: Final = 1_000
"""Sync sessions in one page of their list, by default and at most."""
LISTED_SESSION_NAMES: Final = 32
"""Partitions and prefixes of each kind that the list names per session: all of them could be megabytes."""
FEED_EVENTS: Final = 200
"""Events that are read at once for a connection that is behind."""
PRUNE_EVENTS_MAX: Final = 500
"""Events that one transaction prunes."""
SNAPSHOT_BYTES_MAX: Final = 16 * MIB
"""A snapshot is held in memory as a whole, and sent in one message."""
FLOORS_MAX: Final = 1_000
"""Partitions and streams in one prune request."""

# Streams client
CLIENT_ATTEMPTS: Final = 10
"""With the pauses between them, 10 to 21 s: long enough for a server to restart."""
CLIENT_FIRST_ATTEMPTS: Final = 5
"""While the server has never answered: the client reports a wrong address within 2 s."""
CLIENT_RETRY_LOG_S: Final = 1.0
"""Between warnings about retries: in an outage, all calls of a program fail together."""
CLIENT_CONNECT_S: Final = 5.0
"""TCP connection and TLS; TCP sends a lost packet again after 1 s and 3 s."""
PRODUCER_ATTEMPTS: Final = 30
"""About two minutes: the caller of a producer does not wait, so an outage may be longer."""
CLIENT_TIMEOUT_S: Final = 30.0
"""Silence of the server; an append waits for one sync, which is far quicker."""
CLIENT_RETRY_AFTER_S_MAX: Final = 60.0
"""If a server asks for a longer pause, the client still retries after this one."""
CLIENT_SSE_SILENCE_S: Final = 20.0
"""A heartbeat is overdue; the follower connects again."""
CLIENT_SSE_FAILURES: Final = 3
"""SSE responses in a row that end before their first event, before the client switches to long-poll."""
CLIENT_LONG_POLL_S: Final = 90.0
"""Three times the default of the server; then the client sends the request again."""
CLIENT_ERROR_TEXT_BYTES_MAX: Final = 500
"""A plain-text error of another server, in the message of an exception."""
CLIENT_RESPONSE_BYTES_MAX: Final = 128 * MIB
"""The largest page, encoded as base64."""
CLIENT_READ_BYTES_MAX: Final = 256 * MIB
"""What `read_bytes` and similar methods collect by default."""
CLIENT_CONNECTIONS_MAX: Final = 1_000
"""Each follower holds one."""
CLIENT_KEEP_ALIVE_S: Final = 60.0
"""Below the 75 s of the server, so that the client closes first."""
CLIENT_REDIRECTS_MAX: Final = 5
"""Redirects that one request follows; more are a loop."""
APP_REPLY_PIECES_MAX: Final = 16
"""Pieces of a reply that an embedded app has sent and its own client has not received. The app waits at more."""
RUN_LINGER_S: Final = 0.05
"""The shortest time between two appends of a run of `mainstem.ai`: readers notice no delay, and a model that yields 100
tokens per second needs 20 appends. The first piece is never delayed."""
RUN_PIECE_BYTES_MAX: Final = 1 * MIB
"""One piece of a run, encoded as JSON. A source that yields more than that has a fault, which ends the run."""
RUN_BUFFER_BYTES_MAX: Final = 4 * MIB
"""Pieces of a run that are not stored yet, because the server is slow or restarting. The source waits at more."""
RUNS_BUFFER_BYTES_MAX: Final = 256 * MIB
"""The same for all runs of a process together. At more, each source waits until its earlier pieces are stored."""
RUN_BATCH_BYTES_MAX: Final = 1 * MIB
"""One append of a run."""
RUN_PIECES_IN_A_ROW_MAX: Final = 100
"""Pieces that are taken in a row from a source that never waits. Then other tasks of the process have their turn."""
RUN_APPENDS_MAX: Final = 32
"""Appends of all runs of a process at the same time: enough to share syncs. A process with more runs than it can send
appends for sends fewer and larger ones. The ends of runs do not wait for their turn, so stops are still quick."""
RUN_HEARTBEAT_S: Final = 5.0
"""How often a process says that it is alive while there are runs."""
RUN_HEARTBEAT_WAIT_S: Final = 5.0
"""How long a heartbeat may take, with its retries. A process whose connection hangs sends others before it counts as
lost."""
RUN_HEARTBEAT_BYTES_MAX: Final = 256 * KIB
"""One part of the list of its runs that a process sends after a heartbeat. If the log refuses one, they are halved."""
RUN_HEARTBEATS_MISSED_MAX: Final = 3
"""Heartbeats that a process may miss. At the next one of another process, 15 to 20 s after its own last one, it is
lost, and its runs are ended within another 5 s. Nobody misses any while the server is away."""
RUN_SILENCE_S: Final = 600.0
"""How long a source may yield nothing. Models that think for minutes exist; one that hangs must not run forever."""
RUN_STOP_S: Final = 5.0
"""How long a source that was stopped may take to clean up. Its run has ended by then, but still counts as one of its
process."""
RUN_CLOSE_S: Final = 10.0
"""How long a process that stops may take to store the ends of its runs, after the time in which they may finish. While
the log is away it cannot, and other processes end them."""
RUN_WRITE_S: Final = 120.0
"""How long a run tries to store a batch: longer than a server takes to restart."""
RUN_END_S: Final = 2.0
"""How long a message to a chat waits for the end of the answer before it, which readers see before it is noted."""
RUN_RETRY_S: Final = 1.0
"""Between attempts to store a batch, or to follow what other processes note, while the server is away."""
RUN_RETRY_S_MAX: Final = 4.0
"""The same for what other processes note, after several failures in a row: less than RUN_REFRESH_S."""
RUN_REFRESH_S: Final = 10.0
"""How long a process waits for what others have noted about runs before it answers a question about one."""
RUN_TTL_S: Final = 86_400
"""The TTL of a run's stream unless the caller chooses one: a day after its last use."""
RUN_TTL_S_MIN: Final = 900
"""The shortest TTL of a run's stream: a source may be silent for RUN_SILENCE_S, and its stream must not
expire meanwhile."""
CHAT_TTL_S: Final = 30 * 86_400
"""The TTL of a chat that has one stream, unless the application chooses one. Opening a chat creates its stream, so
without a TTL every chat that a visitor has ever opened would stay."""
RUNS_MAX: Final = 10_000
"""Runs of one process at the same time."""
RUNS_ENDED_MAX: Final = 10_000
"""Runs that have ended and that a process can still find by their ids."""
RUN_NAME_BYTES_MAX: Final = 512
"""The id of a run, and its tag: what the caller noted at the start. Each heartbeat repeats them."""
CHAT_ID_BYTES_MAX: Final = 128
"""The ids of a chat and of a message in the routes of chats. Front ends make them of 16 to 36 characters."""
RUN_REASON_CHARS_MAX: Final = 500
"""The reason of a stop; every reader gets it."""
RUN_REGISTRY_BYTES: Final = 16 * MIB
"""What is kept of the stream in which processes note the starts, stops and ends of runs. A process that starts reads
all of it."""
RUN_REQUEST_BYTES_MAX: Final = 4 * MIB
"""The body of a request that starts a run: the messages of a chat so far."""
RUN_REQUEST_VALUE_BYTES: Final = 64
"""What a decoded JSON value takes beside its text."""
RUN_REQUEST_MEMORY_BYTES_MAX: Final = 32 * MIB
"""What the decoded messages of one request may take. Four megabytes of empty objects would take a hundred."""
RUN_REQUESTS_MEMORY_BYTES_MAX: Final = 256 * MIB
"""The same for all answers of a process that are being written; further questions are refused."""
MCP_STREAMS_KNOWN_MAX: Final = 1_000
"""Streams of one MCP session that are known to exist. Creating one again costs a request and changes nothing."""
MCP_STORE_S: Final = 30.0
"""How long an MCP server tries to store a message: longer than a server takes to restart. The messages of the session
that come later wait for it."""
MCP_UNSTORED_MAX: Final = 100
"""Responses of one MCP session that could not be stored and are kept in memory for clients that resume. At more, the
oldest is discarded. The MCP server has had each of them in memory anyway."""
MCP_REPLAY_S: Final = 600.0
"""How long one connection resumes an MCP request. Then it ends, and a client that still waits for the response resumes
again. So a connection whose client or session is gone does not stay open forever."""
MCP_REPLAYS_MAX: Final = 100
"""Requests of one MCP session that are resumed at the same time: each holds one of the connections to the server
(`CLIENT_CONNECTIONS_MAX`). At more, the oldest connection ends."""
CLIENT_STREAMS_KNOWN_MAX: Final = 10_000
"""Content types, and producers of plain appends, that are cached."""
PRODUCER_BATCH_BYTES: Final = 240 * KIB
"""One batch; below the size that the server validates without a thread."""
PRODUCER_BATCH_MESSAGES_MAX: Final = 10_000
"""Messages in one batch; far below what the server accepts in one append."""
PRODUCER_BUFFER_BYTES: Final = 32 * MIB
"""Beyond this, `append` waits."""
PRODUCER_LINGER_S: Final = 0.005
"""How long a batch waits for more messages: about one sync."""
PRODUCER_IN_FLIGHT: Final = 5
"""Requests of one producer at once."""
PRODUCER_IN_FLIGHT_MAX: Final = 100
"""Each has a connection of its own and, in `Streams`, a thread."""
CLIENT_STATE_BYTES_MAX: Final = 256 * MIB
"""The keys and values of a state, as JSON; in memory they take several times as much."""
CLIENT_STATE_ROW_BYTES: Final = 100
"""What a row counts in addition to its key and value, so that very many small rows reach the limit too."""
CLIENT_STATE_TXIDS_MAX: Final = 10_000
"""The most recent txids that a state remembers, for calls of `wait_for_txid` that come after the change."""
CLIENT_STATE_TXID_S: Final = 5.0
"""How long `wait_for_txid` waits by default, as in the JavaScript package of the protocol."""
CLIENT_STATE_SYNCED_S: Final = 300.0
"""How long `synced` waits by default: time to read the largest state at 1 MiB/s."""
CLIENT_STATE_CHANGES_MAX: Final = 1_000
"""Changes that wait for one listener; beyond this, it receives `Missed`."""
CLIENT_STATE_SNAPSHOT_ATTEMPTS: Final = 10
"""Attempts to append a snapshot while other writers append; then `write_snapshot` raises `TailMoved`."""

# Workers
WORKER_CONCURRENCY: Final = 8
"""Streams that one worker processes at the same time; each holds one page of data in memory."""
WORKER_CONCURRENCY_MAX: Final = 500
"""The most streams that one wake contains."""
WORKER_TIMEOUT_S: Final = 300.0
"""How long one call of a function may take, while other streams wait for it: longer than most answers of models."""
WORKER_READ_ATTEMPTS: Final = 6
"""Attempts to read a stream, while other streams wait for it: 2 to 3 s, and then the worker tries it again later."""
WORKER_LEASE_S: Final = 30.0
"""The default of the public protocol. A worker that crashes delays its streams by this time at most."""
WORKER_HEARTBEATS_PER_LEASE: Final = 3
"""Heartbeats in one lease time, so that one that is lost or hangs does not end the lease."""
WORKER_HEARTBEAT_RETRY_S: Final = 0.2
"""Between attempts to extend a lease while the server does not answer."""
WORKER_LATE_HEARTBEAT_S: Final = 0.25
"""A worker that was suspended beyond its lease asks the server once whether it still holds it, for this time."""
WORKER_CLAIM_S: Final = 30.0
"""How often a worker asks for work without a wake message, in case one was lost."""
WORKER_LOOK_S: Final = 1.0
"""How often a worker looks for new data of other streams while all that it knows of wait for a retry."""
WORKER_ATTEMPTS: Final = 5
"""Calls for the same data, before `on_failure` is called."""
WORKER_BACKOFF_S: Final = 0.5
"""The pause after the first failure of a function; it doubles each time."""
WORKER_BACKOFF_S_MAX: Final = 60.0
"""The longest such pause, so that a repaired function continues within a minute."""
WORKER_FAILING_STREAMS_MAX: Final = 10_000
"""Streams that wait for a retry; beyond this, the one that has waited longest is tried again early."""
WORKER_STOP_S: Final = 20.0
"""How long running functions may take after a stop: less than the 30 s after which Kubernetes kills a process."""
WORKER_RELEASE_S: Final = 2.0
"""For the last request of a worker that ends. If it fails, the lease expires."""
WORKER_CANCEL_S: Final = 10.0
"""How long a function that was cancelled may take to clean up; then the worker continues without it."""
WORKER_WAKES_KEPT: Final = 1_000
"""Messages that a wake stream keeps. Only the latest one matters; the others show what has happened."""
WORKER_WEBHOOK_BYTES_MAX: Final = 1 * MIB
"""The body of a webhook: 500 streams with the longest paths, and their offsets."""
WORKER_WEBHOOK_AGE_S_MAX: Final = 300.0
"""Between the signature and its verification; a call that is older may be a replay."""
WORKER_SIGNATURE_BYTES_MAX: Final = 512
"""A Webhook-Signature header; that of this server has about 150 bytes."""
WORKER_KEYS_MAX: Final = 64
"""Keys of one key set that are considered; this server publishes 9 at most."""
WORKER_KEYS_BYTES_MAX: Final = 64 * KIB
"""A key set, which is kept in memory."""
WORKER_KEYS_S: Final = 3_600.0
"""The age at which a key set is fetched again, so that a key that the server has retired is forgotten."""
WORKER_KEYS_REFETCH_S: Final = 10.0
"""Between requests for a key set because of unknown keys, which anybody can send."""
WORKER_KEYS_RETRY_S: Final = 1.0
"""Between requests for a key set that has never been fetched. Until then, every call is refused, forged or not."""
WORKER_KEYS_FETCH_S_MAX: Final = 5.0
"""For one such request: the server waits 15 s for the reply to its webhook."""
WORKER_KEY_SETS_MAX: Final = 16
"""Servers whose key sets one event loop keeps."""

# Offline client
OFFLINE_DRAFTS_MAX: Final = 100_000
"""Drafts that wait for a connection; beyond this, `submit` raises `QueueFull`."""
OFFLINE_DRAFTS_BYTES_MAX: Final = 512 * MIB
"""The same, by size."""
OFFLINE_REJECTIONS_MAX: Final = 10_000
"""Rejections are kept until the application dismisses them; beyond this, `submit` raises `RejectionsFull`."""
OFFLINE_WAITING_MAX: Final = 1_000
"""Submits in one transaction; further callers wait for their turn."""
OFFLINE_PAGE: Final = 1_000
"""Events requested at once; halved, down to `SYNC_PAGE_MIN`, if the server was silent for too long."""
OFFLINE_MESSAGE_BYTES_MAX: Final = 64 * MIB
"""A page with some snapshots of 16 MiB."""
OFFLINE_INBOX_MAX: Final = 64
"""Messages that have been read and not applied; with more, the socket is not read."""
OFFLINE_EARLY_EVENTS_MAX: Final = 10_000
"""Broadcasts that arrive during a sync cycle; any beyond this are fetched again."""
OFFLINE_EARLY_BYTES_MAX: Final = 32 * MIB
"""The same, by size."""
OFFLINE_RENEW_EVENTS: Final = 2_000
"""Events received live before a sync cycle moves the cursor: about what a reconnect fetches again."""
OFFLINE_CHANGES_MAX: Final = 1_000
"""Changes that wait for one listener; beyond this, it receives `Missed`."""
OFFLINE_EVENTS_MAX: Final = 10_000
"""Events of one read of a partition, held in memory."""
OFFLINE_FOLD_EVENTS: Final = 1_000
"""Events that are read at once for a view."""
OFFLINE_VIEWS_MAX: Final = 100
"""Each holds its state in memory."""
OFFLINE_VIEW_EVENTS: Final = 5_000
"""Events that are folded before the state of a view is stored: at most so many are folded again when it is opened."""
OFFLINE_VIEW_BYTES_MAX: Final = 64 * MIB
"""The state of a view, which is stored as a whole."""
OFFLINE_OPEN_S_MAX: Final = 10.0
"""For connecting and the handshake."""
OFFLINE_HEARTBEAT_S: Final = 20.0
"""Silence after which the client sends a heartbeat."""
OFFLINE_SILENCE_S_MAX: Final = 60.0
"""Silence after which the client reconnects; a page of 4 MiB arrives in this time at 70 KiB/s."""
OFFLINE_BACKOFF_S: Final = 0.2
"""Before the second attempt to connect; it doubles each time."""
OFFLINE_BACKOFF_S_MAX: Final = 30.0
"""The longest such pause."""
OFFLINE_REFUSED_S: Final = 30.0
"""How long until the client requests a forbidden partition again, with a new token."""
OFFLINE_MISMATCHES: Final = 3
"""Connections in a row that find the log of the server too short, before the local copy is dropped: one node may lag
behind another."""
OFFLINE_CLOSE_S_MAX: Final = 2.0
"""For an orderly close of a connection."""

# Background work
SCAN_PAGE: Final = 1_000
"""States in one step of a scan."""
REAP_EVERY_S: Final = 1.0
"""How often the server looks for expired and deleted streams."""
REAP_STREAMS_MAX: Final = 500
"""Expired streams that are deleted in one round."""
TOUCHES_FLUSH_S: Final = 5.0
"""How much of the last reads, for a sliding TTL, a crash may lose."""
TOUCHES_MAX: Final = 100_000
"""Reads that are remembered; beyond this, they are written earlier."""
EXPIRY_GRACE_S: Final = 3.0
"""With many nodes, how long until a read at another node is known, so that its stream is not erased."""
RETENTION_EVERY_S: Final = 5.0
"""By how much time a stream may exceed its retention."""
RETENTION_STREAMS_MAX: Final = 200
"""Streams that are trimmed in one round."""
ERASE_RECORDS_MAX: Final = 1_000
"""Records that one transaction removes."""
GARBAGE_TOPICS_MAX: Final = 100
"""Deleted streams that are erased in one round."""
SHUTDOWN_S_MAX: Final = 10.0
"""How long a stopping server waits for open requests."""

# Reports of jobs
JOB_REPORT_BYTES_MAX: Final = 16 * KIB
"""The report of one round. The server keeps the last one of each job in memory."""
JOB_NAME_CHARS_MAX: Final = 64
"""The name under which a job reports; it is a label of metrics."""
JOBS_MAX: Final = 100
"""Jobs whose last round the server knows: a few labels of metrics. Beyond this, it forgets the job that has been silent
for the longest time."""
JOB_KEPT_S: Final = 30 * 86_400
"""How long a round stays in `_mainstem/jobs`, and a silent job in the list of jobs: a month."""
JOB_ROUNDS_KEPT: Final = 250_000
"""Rounds in `_mainstem/jobs`: a month of a streaming query that is always busy, in about 150 MB."""
JOB_ECHO_IDS_MAX: Final = 100
"""Ids of the log that the server examines to find out whether a round has read nothing but reports of other rounds. A
round that has read more counts as one that has read data."""
JOB_REPORT_S_MAX: Final = 5.0
"""How long a job waits for the server to take its report: the round itself is over."""
JOB_REPORT_EVERY_S: Final = 10.0
"""Between two reports of a job or a streaming query whose rounds take less: each report may become a row of the log."""
QUERIES_REPORTED_MAX: Final = 100
"""Streaming queries of one Spark driver that are reported; as many as the server remembers."""

# Pipeline service
PIPELINE_FILE_BYTES_MAX: Final = MIB
"""A file of `mainstem pipeline run`."""
PIPELINE_JOBS_MAX: Final = 100
"""Jobs of one service; as many as the server lists."""
PIPELINE_PARALLEL_MAX: Final = 16
"""Rounds of different jobs at the same time (`parallel`): they share the memory of one Spark."""
PIPELINE_EVERY_S_MIN: Final = 1.0
"""The shortest `every`: a round asks the server for its head, and its state is synced to disk twice."""
PIPELINE_EVERY_S_MAX: Final = 366 * 86_400.0
"""The longest `every`: a year."""
ROUND_BACKOFF_S: Final = 5.0
"""Before a failed round is tried again; it doubles with each failure in a row."""
ROUND_BACKOFF_S_MAX: Final = 600.0
"""The longest such pause."""
SERVICE_WAIT_S_MAX: Final = 30.0
"""How long the service waits before it looks at the clock again, which may have been corrected meanwhile."""
SPARK_STOP_S_MAX: Final = 20.0
"""For a Spark that is stopped, before its Java process is killed."""
SCRAPE_S_MAX: Final = 5.0
"""For one request to the listener of the service's metrics, from the connection to the last byte."""
STATUS_HEAD_S_MAX: Final = 2.0
"""How long `mainstem pipeline status` waits for the server's head; without it, it shows the lag of the last round."""
WORKER_MEMORY_BYTES_MIN: Final = 2 * 1_024**3
"""The least `worker_memory`: it limits the address space, of which Arrow reserves 1 GiB at once."""

# Spark pipeline
JAVA_VERSION_S_MAX: Final = 10.0
"""For `java -version`, if no `release` file names the version."""
CLASS_ARCHIVE_S_MAX: Final = 120.0
"""For Java to write its classes to an archive; it takes seconds on an idle machine."""
PIPELINE_WAIT_S_MAX: Final = 60.0
"""For one reply of the server, including the connection."""
PIPELINE_RETRY_S: Final = 120.0
"""How long the server may be unavailable (`retrySeconds`); a restart with recovery takes seconds."""
PIPELINE_RETRY_S_MAX: Final = 86_400.0
"""The largest value of `retrySeconds`."""
PIPELINE_SILENT_S: Final = 2.0
"""How long a job waits for its server before it says so: a busy one takes this long."""
FIRST_REPLY_S_MAX: Final = 1.5
"""For the first reply of the server to a job that was not asked to wait for it (`--retry`)."""
WRITE_CHECK_S_MAX: Final = 1.8
"""For the small file that a job writes into an object store before it starts Spark, unless `--retry` is longer."""
JOB_REASON_CHARS_MAX: Final = 1000
"""Characters of the reason that another library gives for a failure: a line on a terminal, not a page."""
EPOCHS_MAX: Final = 100
"""Epochs that a log remembers. Readers that stopped in an older one have to start from scratch."""
PRUNED_SELECTIONS_MAX: Final = 32
"""Selections whose highest pruned id the server keeps up to date in memory. Others are looked up again."""
TABLE_HISTORY_MAX: Final = 100
"""Commits of an archive that are searched for the name of its log, for an error message."""
SAME_LOG_IDS: Final = 100
"""Ids around the end of a table that are compared if its last row is no longer in the log."""
SAME_LOG_SKEW_US: Final = 60_000_000
"""By how much a clock may have been corrected between two commits of one log."""
PIPELINE_BACKOFF_S: Final = 0.1
"""Between two attempts; it doubles each time."""
PIPELINE_BACKOFF_S_MAX: Final = 5.0
"""The longest such pause."""
STORAGE_ATTEMPTS: Final = 5
"""Attempts of a request to an object store that is busy or fails: with growing pauses, half a minute at most."""
OBJECT_READ_ROWS: Final = 20_000
"""Rows of a Parquet file on an object store that a Python worker hands over at once."""
OBJECT_READ_BYTES: Final = 4 * MIB
"""The same for a text file, in bytes."""
LOG_READ_BYTES: Final = 8 * MIB
"""One page of the log in a Spark task (`pageBytes`), held as a whole so that it can be retried."""
BATCH_PARTITIONS: Final = 4
"""Tasks of one batch read, unless `minPartitions` is set: enough to even out uneven shares, while each costs about
40 ms."""
STREAM_PARTITIONS: Final = 4
"""Tasks of one micro-batch, unless `minPartitions` is set."""
PARTITION_BYTES_MIN: Final = MIB
"""Smaller tasks are not worth their start, unless `minPartitions` is set."""
PARTITION_BYTES_MAX: Final = 128 * MIB
"""Larger tasks are divided, as Spark divides files: a task that fails is repeated as a whole."""
STARTING_STREAMS_MAX: Final = 1_000
"""Streams in `startingOffsetsByStream`: they are in the checkpoint until all have started."""
TRIGGER_DELAY_S: Final = 900.0
"""How long `minRowsPerTrigger` waits, unless `maxTriggerDelay` is set; as in Spark's Kafka source."""
INFER_ROWS: Final = 1_000
"""Messages from which `schema=infer` infers a schema, unless `inferRows` is set: about 20 ms."""
INFER_ROWS_MAX: Final = 100_000
"""The largest value of `inferRows`: they are decoded on the driver, one by one."""
INFER_IDS_MAX: Final = 10_000_000
"""Ids of the log that are searched for them."""
INFER_PAGE_BYTES: Final = MIB
"""One of these pages."""
PUSHED_BYTES_MAX: Final = 8 * KIB
"""Stream names of one filter that go into the URL; Spark compares the rest."""
SINK_CHUNK_BYTES: Final = MIB
"""One append of the sink (`chunkBytes`); also bounds what the server holds for it."""
SINK_CHUNK_BYTES_MAX: Final = 16 * MIB
"""The largest value of `chunkBytes`, and the largest message."""
SINK_BUFFER_BYTES_MAX: Final = 64 * MIB
"""Rows of many streams in one task, until they are staged."""
SINK_SUBMIT_BYTES: Final = 512 * KIB
"""Events in one message; half of what the server accepts."""
SINK_SUBMITS_MAX: Final = 2
"""Messages in flight: together, the drafts that a client may have pending."""
SINK_PARTITIONS_KNOWN_MAX: Final = 10_000
"""Lists of partitions that a task has validated."""
SINK_CONNECTIONS: Final = 8
"""Connections over which the driver appends to many streams."""
SINK_ENDS_KEPT: Final = 8
"""Ends of streams or partitions that a finished write records, to check later that they still exist."""
SINK_CONNECTION_CHUNKS_MAX: Final = 4
"""Chunks that wait for one of these connections."""

# Pipeline jobs
LOCAL_BYTES_MAX: Final = 64 * MIB
"""Below this size, an import or export runs without Spark: it is done before Java would have started."""
COPY_ROWS: Final = 1_000_000
"""Rows of the log in one commit of an archive or export: a few seconds of work, which a kill may cost."""
COPY_BYTES: Final = 256 * MIB
"""The same, for large messages."""
COPY_TASK_ROWS_MIN: Final = 20_000
"""A task for fewer rows takes longer to start than to run."""
COPY_TASKS_MAX: Final = 1_000
"""Tasks of one commit."""
PARQUET_GROUP_ROWS: Final = 128_000
"""Rows that a task holds before it writes them as a row group."""
PARQUET_GROUP_BYTES: Final = 64 * MIB
"""The same, for large messages."""
COMPACT_FILES: Final = 16
"""Small files in one partition of an archive from which on they are merged into larger ones."""
COMPACT_SMALL_BYTES: Final = 4 * MIB
"""The size of merged files at first."""
COMPACT_LARGE_BYTES: Final = 32 * MIB
"""The size of files that are merged again: a row is rewritten two or three times, not in every round."""
COMPACT_TASKS_MAX: Final = 2
"""Files that are rewritten at once, each in the memory of the driver."""
IMPORT_FILES_MAX: Final = 100_000
"""Files of one import; its plan is a document that is held and written as a whole."""
IMPORT_GROUP_FILES: Final = 64
"""Files in one write of the sink; each is a scan in one Spark plan."""
IMPORT_GROUP_BYTES: Final = 256 * MIB
"""The same, for larger files; they are staged on disk until they are sent."""
IMPORT_READ_BYTES: Final = MIB
"""What an import without Spark reads from a file of text at once."""
IMPORT_SPLIT_BYTES: Final = 32 * MIB
"""The part of a file that one task reads."""
ROLLUP_ROWS: Final = 1_000_000
"""Rows in one micro-batch of a rollup: what a kill makes it repeat."""
AUDIT_TASK_IDS: Final = 50_000
"""Committed ids that one task of an audit examines: a second or less, which a kill may cost."""
AUDIT_BUFFER_ROWS: Final = 10_000
"""Findings that a task holds before it writes them."""
AUDIT_RUNS_OPEN_MAX: Final = 100_000
"""Streams that a task follows at once; beyond this, it starts new runs."""
AUDIT_EXAMPLES: Final = 5
"""Faults of each kind that are shown (`--examples`)."""
AUDIT_EXAMPLES_MAX: Final = 1_000
"""The largest value of `--examples`; the driver holds them."""

FOLD_TASK_IDS: Final = 100_000
"""Ids of the log that one task of snapshot or retain reads."""
FOLD_TASK_IDS_MIN: Final = 2_000
"""A smaller task takes longer to start than to run."""
TARGETS_KNOWN_MAX: Final = 100_000
"""Partitions and streams for which a task remembers whether they are selected."""
COMBINED_KEYS_MAX: Final = 100_000
"""Entries that a task holds before it passes them on."""
COMBINED_BYTES_MAX: Final = 64 * MIB
"""The same, by size."""
SNAPSHOTS_BEHIND_MAX: Final = 1_000
"""Partitions and streams that could not be folded and are caught up by name; with more, the round is repeated."""
PROBLEMS_TOLD_MAX: Final = 20
"""Problems in the summary of one round."""
POLICIES_MAX: Final = 1_000
"""Retention policies in one file; each glob is matched against each name."""
POLICY_FILE_BYTES_MAX: Final = MIB
"""A file of retention policies."""
ROLLUP_IN_FLIGHT_S: Final = 5.0
"""How long a commit may take to become visible after its time was set. The clock of a rollup is late by this much."""
RETAIN_PAGE_BYTES: Final = 256 * KIB
"""One page of the log for retain: it stops within a page, so a small one wastes less."""
RETAIN_DRIVER_IDS: Final = 20_000
"""Ids of the log that retain counts without Spark: they take less time than Spark's start."""
RETAIN_STREAMS_MAX: Final = 400
"""Streams that one task of retain reads together."""
RETAIN_GROUPS_MAX: Final = 256
"""Tasks of retain that name what they read; with more, each task reads everything and filters it."""
PRUNED_TOLD_MAX: Final = 1_000
"""Partitions and streams in the list of a dry run of retain."""

# Command line
CLI_ATTEMPTS: Final = 3
"""Attempts of a first request, within half a second: an unreachable server is reported immediately."""
CLI_RETRY_NOTICE_S: Final = 1.0
"""How long a server is unreachable before a command says that it retries: people notice a wait of 2 s."""
CLI_LOG_TAIL_IDS_MAX: Final = 1_000_000
"""Committed ids in which `log tail -n` looks for messages; with a narrow filter it may find fewer than requested."""
CLI_APPEND_BYTES: Final = 256 * KIB
"""Input is sent in pieces of this size: little memory, and few requests."""
CLI_APPEND_MESSAGES_MAX: Final = 1_000
"""JSON messages in one append."""
CLI_LINE_BYTES_MAX: Final = MIB
"""A longer line of a stream is shown in pieces."""
CLI_WHOLE_BYTES_MAX: Final = 64 * MIB
"""One message, or one append as a whole; the server would not store more."""
CLI_SUBMIT_BYTES: Final = 512 * KIB
"""Drafts in one message, well below the limit of a message."""
CLI_SYNC_WAIT_S: Final = 30.0
"""For one reply over the WebSocket."""
CLI_SYNC_MESSAGE_BYTES_MAX: Final = 64 * MIB
"""A page with the largest snapshots."""
BENCH_APPENDS_MAX: Final = 1_000_000
"""A bench is a small load, not an attack."""
BENCH_S_MAX: Final = 600.0
"""The same, in time."""
BENCH_STREAMS_MAX: Final = 1_000
"""The same, in streams."""
BENCH_CONNECTIONS_MAX: Final = 64
"""Each is a thread of the bench."""
