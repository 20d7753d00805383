"""Every bound of the server in one place: the unit comes last in the name, the reason stands beside it."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# Requests
BODY_BYTES_MAX: Final = 64 * MIB  # clients gather waiting appends into one body without bound; held in memory meanwhile
BODY_DISCARD_BYTES_MAX: Final = (
    128 * MIB
)  # read and dropped of a body that is too large, so that its client sees the 413
PARSE_INLINE_BYTES_MAX: Final = 256 * KIB  # JSON up to here is checked in under half a millisecond
REQUEST_HEAD_BYTES_MAX: Final = 64 * KIB  # curl and browsers stay far below
REQUEST_HEADERS_MAX: Final = 200  # each costs about a microsecond of the event loop
HOST_BYTES_MAX: Final = 262  # a name of 255 bytes, a colon and a port
FAST_APPEND_BYTES_MAX: Final = 64 * KIB  # larger appends go through ASGI, with flow control
READ_AHEAD_BYTES: Final = 64 * KIB  # of a connection, while its current request is not answered or its body not taken
WRITE_JOINED_BYTES_MAX: Final = 16 * KIB  # a larger body is written after its head instead of copied to it
REQUESTS_AT_ONCE: Final = 16  # pipelined requests answered before other connections have their turn
CHUNKS_AT_ONCE: Final = 1_000  # parts of a chunked body parsed before other connections have their turn: half a ms
CHUNK_LINE_BYTES_MAX: Final = 8 * KIB  # a chunk's size and extensions, or one trailer
CHUNK_EXCESS_BYTES_MAX: Final = 16 * KIB  # of chunk extensions that little data pays for
TRAILER_BYTES_MAX: Final = 8 * KIB  # they are checked and dropped
JSON_MESSAGE_BYTES_MAX: Final = 16 * MIB  # the parser takes a message in one go, about 4 ms per MiB of the event loop
APPEND_MESSAGES_MAX: Final = 100_000  # messages in one JSON array; each becomes a row for whoever reads the log
REQUEST_WAIT_S_MAX: Final = 120.0  # from connecting, or from the first byte, until a request is complete
BODY_BYTES_S_MIN: Final = 64 * KIB  # every so many bytes of a body give it another second
LINGER_S: Final = 1.0  # how long a refused client may go on sending, unread, before its connection is closed
DEADLINE_CHECK_S: Final = 0.5  # how late a deadline of a connection may be noticed
LISTEN_BACKLOG: Final = 2_048  # connections that the kernel has accepted before us
CONNECTIONS_MAX: Final = 50_000  # HTTP and WebSocket together; above this new ones are closed at once
CONNECTION_BYTES_TOTAL_MAX: Final = 512 * MIB  # incomplete bodies and messages, and replies that nobody reads, together
WEBSOCKET_FRAGMENTS_MAX: Final = 1_024  # of one message
WEBSOCKET_PING_S: Final = 20.0  # of silence, after which a client is asked for a sign of life, and then closed
FRAMES_AT_ONCE_BYTES: Final = (
    4 * KIB
)  # of WebSocket frames parsed before other connections have their turn: 700 at most
LINGER_BYTES_MAX: Final = 4 * MIB  # and how much of it, so that a flood is cut off
KEEP_ALIVE_S: Final = 75  # an idle connection; above the usual 60 s of proxies, so that they close first
STREAM_PREFIX_BYTES_MAX: Final = 128  # it stands in every URL of a stream
STREAM_PATH_BYTES_MAX: Final = 1024  # a path is a database key and stands in every ETag
JSON_DEPTH_MAX: Final = 500  # far below what the parser's stack allows
CONTENT_TYPE_BYTES_MAX: Final = 256
STREAM_SEQ_BYTES_MAX: Final = 256
PRODUCER_ID_BYTES_MAX: Final = 256
QUERY_BYTES_MAX: Final = 16 * KIB
INTEGER_MAX: Final = 2**53 - 1  # what a JavaScript client can hold exactly
TTL_S_MAX: Final = 100 * 365 * 86_400  # a century: later sums stay far below 2^63 microseconds

# Reads
PAGE_BYTES: Final = MIB  # one catch-up response, unless a single record is larger
PAGE_BYTES_MAX: Final = 64 * MIB
LARGE_RECORD_BYTES_MIN: Final = MIB  # smaller ones are read again for each piece
LARGE_RECORDS_BYTES_MAX: Final = 128 * MIB  # large records held for readers that take them in pieces
ENCODE_INLINE_BYTES_MAX: Final = MIB  # larger pages are made off the event loop: 64 MiB are copied in some 30 ms
LOG_PAGE_BYTES: Final = 4 * MIB  # one response of /v1/log; larger ones only cost memory
LOG_PAGE_BYTES_MAX: Final = 64 * MIB
LOG_PAGE_ROWS: Final = 100_000  # rows of one response of /v1/log, unless a record has more and may not be divided
LOG_RECORD_ROWS_MAX: Final = 1_000_000  # messages of a record that is not divided: about 500 MB while it is encoded
LOG_RESUME_POINTS_MAX: Final = 1_000  # records that readers are within, whose next message is remembered
LOG_LINES_AT_ONCE: Final = 1_000  # rows that are Python objects while they are written as JSON
LOG_EVENT_BYTES: Final = 256 * KIB  # one event of a tail of the log
LOG_SCAN_IDS_MAX: Final = 2_000_000  # ids looked at for one page, however few of them pass the filters
LOG_TAGGED_MAX: Final = 20_000  # events of one page that is filtered by partition
LOG_TOPICS_MAX: Final = 10_000  # streams that a filter names; beyond this the log is read whole and filtered after
LOG_NAMES_MAX: Final = 100_000  # names of streams remembered while reading the log
LOG_EXPORTERS: Final = 2  # pages of the log made at once; each takes a core
LOG_EXPORTER_IDLE_S: Final = 60.0  # a process that makes pages holds about 80 MB, so it ends when nobody reads
LOG_READS_WAITING_MAX: Final = 64
INDEX_PAGE_MAX: Final = 10_000  # entries of one page of /v1/log/index: some 20 ms of a thread
LOG_PIPE_BYTES: Final = MIB  # what the server reads ahead of that process before it pauses it
MEASURE_PAGE_BYTES: Final = 4 * MIB  # what is held at once of a log that is only counted
SSE_EVENT_BYTES: Final = 64 * KIB  # a stalled SSE reader holds one event, so keep events small
LONG_POLL_MS: Final = 30_000
LONG_POLL_MS_MAX: Final = 600_000
SSE_LIFETIME_S: Final = 60.0  # protocol 5.8: close about every minute, so that proxies can collapse readers
SSE_HEARTBEAT_S: Final = 15.0  # below the idle time-outs of common proxies (30 s and more)
SEND_STALL_S_MAX: Final = 60.0  # a reader that takes nothing for this long is let go
LIVE_READERS_MAX: Final = 20_000  # long-poll and SSE together; one costs about 15 KB
LIVE_READERS_PER_CLIENT_MAX: Final = 15_000  # a quarter is left for all others; behind a proxy all may be one address
CONNECTIONS_PER_CLIENT_MAX: Final = 20_000  # behind a proxy all may come from one address

TAIL_MESSAGES_MAX: Final = 10_000
LISTED_STREAMS: Final = 100
LISTED_STREAMS_MAX: Final = 1_000
DESCRIPTIONS_KEPT_MAX: Final = 16  # /openapi.json and /asyncapi.json, one per path at which the app is mounted
SET_STREAMS_MAX: Final = 100  # streams over one connection

# Compression
COMPRESS_BYTES_MIN: Final = KIB  # below this the header costs more than it saves
COMPRESS_INLINE_BYTES_MAX: Final = 16 * KIB  # larger bodies are compressed off the event loop

# Group commit
COMMANDS_WAITING_MAX: Final = 20_000  # beyond this a writer is told to come back (503)
COMMAND_BYTES_WAITING_MAX: Final = 256 * MIB
BATCH_COMMANDS_MAX: Final = 2_000  # bounds how long one fsync keeps its first caller waiting
BATCH_BYTES_MAX: Final = 32 * MIB  # a larger command is a batch of its own

# Memory
GC_ALLOCATIONS: Final = 20_000  # requests leave no cycles: Python's 700 would look for them thousands of times a second

# Live tail
TOPICS_HOT_MAX: Final = 4_096
TOPIC_HOT_BYTES_MAX: Final = 256 * KIB
HOT_BYTES_MAX: Final = 32 * MIB
TOPIC_FRAMES_MAX: Final = 16  # readers that fell behind by different amounts encode for themselves

# Stores
STATES_CACHED_MAX: Final = 65_536  # about 500 bytes each
READERS: Final = 2  # threads that read the embedded store; more only queue on the same cores
UNMERGED_APPENDS_MAX: Final = 4_096  # 15 pages: a commit writes them all if it must; more streams need more at a time
WAL_PAGES: Final = 4_000  # checkpoint after about 16 MB: short stalls, and a bounded journal
JOURNAL_BYTES_MAX: Final = 64 * MIB  # what a journal is cut back to after a checkpoint
RESERVE_BYTES: Final = 32 * MIB  # set aside on the disk: a journal to be checkpointed, and as much for deletes
FREE_BYTES_MIN: Final = 8 * MIB  # in the database itself, with which writes go on although the disk has no room
ROOM_CHECK_S: Final = 1.0  # how soon a store notices that a full disk has room again
BACKUP_STEP_PAGES: Final = 2_000  # about 8 MB: progress is seen, and an interrupt heard, between two steps
CHECK_FINDINGS_MAX: Final = 1_000  # a store with more than this is beyond a list
CHECK_CACHE_BYTES: Final = 64 * MIB  # a check goes through the whole file, and looks many things up
CHECK_SCAN_ROWS: Final = 1_000  # what a check fetches at once of PostgreSQL's rows, which are small then
CHECK_BATCH_MAX: Final = 200  # what a check looks up at once
CHECK_SNAPSHOTS_MAX: Final = 8  # the same for snapshots of partitions, which are large
CHECK_BATCH_BYTES_MAX: Final = 4 * MIB  # values that a check holds at once, but at least one

# PostgreSQL
POSTGRES_READERS: Final = 4  # connections that read; each is a process there
STATEMENT_S_MAX: Final = 30.0  # one statement
COMMAND_S_MAX: Final = 40.0  # the same, counted here: a database that says nothing any more is given up
HEAD_WAIT_S_MAX: Final = 10.0  # for the other nodes' commits before one's own
HEAD_HOLD_S_MAX: Final = 10.0  # a node that holds the log and does nothing with it is cut off
CONNECT_S_MAX: Final = 5.0  # one attempt
RECONNECT_S_MAX: Final = 5.0  # how long a request waits for the database to come back before it is told to retry
RECONNECT_PAUSE_S: Final = 0.1
OUTCOME_S_MAX: Final = 20.0  # to find out what became of a commit whose connection broke
DATABASE_START_S_MAX: Final = 60.0  # for the database to be there when a node starts
FULL_TOLD_S: Final = 10.0  # how long a node is not ready after a write that found the database's disk full
FOLLOW_POLL_S: Final = 1.0  # looks for other nodes' commits, should a notification be lost
FOLLOW_YIELD_S_MAX: Final = 0.005  # news are left to a committer that waits for its turn; readers must not wait with it
FOLLOW_BYTES_MAX: Final = 4 * MIB  # other nodes' records told at once
ALONE_S: Final = 1.0  # without other nodes' commits for so long, a node commits without locking the head before
SAVES_KEPT_S: Final = 120.0  # how long a node may be cut off before it must forget all states that it remembers
SAVES_DROPPED_MAX: Final = 5_000  # old notes of commits removed in one statement
LEADER_CHECK_S: Final = 1.0  # how soon another node takes over the background work of one that died
CLOCK_STEP_US: Final = 20_000  # smaller differences to the database's clock are the network's

# Subscriptions
SUBSCRIPTION_ID_BYTES_MAX: Final = 256
SUBSCRIPTION_DESCRIPTION_BYTES_MAX: Final = KIB  # it is held in memory and written again with every wake
SUBSCRIPTIONS_PER_CLIENT_MAX: Final = 10_000  # each is held in memory, about 1 KB, and looked at for each wake
SUBSCRIPTION_STREAMS_MAX: Final = 1_000  # explicit streams in one request
CONTROL_BODY_BYTES_MAX: Final = MIB
LEASE_MS_MIN: Final = 1_000  # protocol 6.2
LEASE_MS_MAX: Final = 600_000
LEASE_CHECK_S: Final = 0.25
WAKE_STREAMS_MAX: Final = 500  # streams in one wake; the others come with the next
WAKES_AT_ONCE: Final = 200  # subscriptions woken by one round of commands
PENDING_REVIEW_S: Final = 10.0  # how often a node that wakes nobody forgets streams that another one has settled
MATCHED_PATHS_MAX: Final = 100_000  # beyond this, appends to further streams are looked at one by one
GLOB_SEGMENTS_MAX: Final = 32  # of a subscription's pattern; it is tried on every path that changes
GLOB_ANY_MAX: Final = 4  # segments ** in it
GLOB_STARS_MAX: Final = 32  # stars within its segments
GLOB_TRIES_AT_ONCE: Final = 20  # patterns tried on paths in one turn of the event loop; the worst take 1 ms each
GLOB_ANSWERS_MAX: Final = 65_536  # paths whose patterns are remembered
GLOB_PAIRS_MAX: Final = 8_192  # of a pattern and a path, whose answer is remembered; up to 2 KB each
LISTED_LINKS_MAX: Final = 10_000
WEBHOOK_URL_BYTES_MAX: Final = 2_048
WEBHOOK_S_MAX: Final = 15.0  # connecting, sending and reading the answer together
WEBHOOK_ANSWER_BYTES_MAX: Final = 64 * KIB
WEBHOOK_BACKOFF_S: Final = 1.0  # protocol 7.1: from 1 s up to 60 s, with 20 % jitter
WEBHOOK_BACKOFF_S_MAX: Final = 60.0
WEBHOOKS_AT_ONCE: Final = 1_000
WEBHOOKS_PER_OWNER_AT_ONCE: Final = 250  # the others wait in turn, so that slow receivers hold up their owner alone
WEBHOOKS_PER_HOST_AT_ONCE: Final = 100  # a receiver that is slow, or is being flooded by somebody's subscriptions
SIGNING_KEY_US_MAX: Final = 90 * 86_400 * 1_000_000  # a signing key is replaced after 90 days
SIGNING_KEY_CHECK_S: Final = 3_600.0
RETIRED_KEYS_MAX: Final = 8  # old keys still published; each for a day

# Authorisation
TOKEN_BYTES_MAX: Final = 8 * KIB
ERROR_DESCRIPTION_BYTES_MAX: Final = 256  # the reason of a 401 or 403 in WWW-Authenticate; a path in it may be longer
TOKENS_KNOWN_MAX: Final = 10_000  # verified tokens that are remembered; about 2 KB each
JWKS_REFRESH_S: Final = 600.0  # how long a key that its issuer withdrew may still count
JWKS_RETRY_S_MIN: Final = 30.0  # unknown key ids fetch again, but strangers must not make us hammer the issuer
JWKS_BYTES_MAX: Final = 256 * KIB
JWKS_KEYS_MAX: Final = 100  # a token without a key id is tried with each
JWKS_WAIT_S_MAX: Final = 10.0  # connecting and reading together
SECRET_BYTES_MIN: Final = 32  # RFC 7518 3.2: an HS256 key is at least as long as its hash
CALLERS_MAX: Final = 10_000  # whose rate is counted; the one that was silent longest is forgotten first

# Sync protocol (the first ones are advertised in `connected`)
SYNC_MESSAGE_BYTES_MAX: Final = MIB
SYNC_BATCH_ITEMS_MAX: Final = 100
SYNC_DRAFTS_MAX: Final = 200  # items of one client that wait for their commit; with more its sockets are not read
SYNC_MESSAGES_S_MAX: Final = 20_000  # a connection's message rate, averaged over a second; faster ones are slowed down
SYNC_INLINE_BYTES_MAX: Final = 32 * KIB  # larger messages are examined off the event loop; hostile ones take 8 ms here
SYNC_MESSAGES_AT_ONCE: Final = 32  # messages of one connection in one turn of the event loop
SYNC_REPLIES_WAITING_MAX: Final = 1_000  # replies that wait for one before them; then the socket is not read
SYNC_PAGE_MIN: Final = 50
SYNC_PAGE: Final = 500
SYNC_PAGE_MAX: Final = 1_000
SYNC_PAGE_BYTES_MAX: Final = 4 * MIB  # a page ends here too, so that large events do not make a huge message
PARTITION_NAME_BYTES_MAX: Final = 128  # seed 003, after NFC
EVENT_PARTITIONS_MAX: Final = 64  # seed 003
FILTER_PARTITIONS_MAX: Final = 1_024  # of one list in a sync request; each name costs an index lookup
EVENT_ID_BYTES_MAX: Final = 256
CLIENT_ID_BYTES_MAX: Final = 256
CONNECT_WAIT_S_MAX: Final = 10.0  # from the handshake to `connect`
SEND_QUEUE_BYTES_MAX: Final = 256 * KIB  # beyond this a connection is fed from the log, at its own pace
GOODBYE_S_MAX: Final = 5.0  # for the last messages of a connection that is being closed
SYNC_CONNECTIONS_MAX: Final = 20_000
FEED_EVENTS: Final = 200  # events read at once for a connection that is behind
PRUNE_EVENTS_MAX: Final = 500  # events pruned in one transaction
SNAPSHOT_BYTES_MAX: Final = 16 * MIB
FLOORS_MAX: Final = 1_000  # partitions in one prune request

# Clients
CLIENT_ATTEMPTS: Final = 10  # with the pauses between them 10 to 21 s: a server has restarted by then
CLIENT_FIRST_ATTEMPTS: Final = 5  # while the server has never answered: the client reports a wrong address within 2 s
CLIENT_RETRY_LOG_S: Final = 1.0  # between warnings about retries: in an outage, all calls of a program fail together
CLIENT_CONNECT_S: Final = 5.0  # TCP connection and TLS; TCP sends a lost packet again after 1 s and 3 s
PRODUCER_ATTEMPTS: Final = 30  # about two minutes: its caller does not wait, so an outage may be longer
CLIENT_TIMEOUT_S: Final = 30.0  # of silence; an append waits for one fsync, which is far quicker
CLIENT_RETRY_AFTER_S_MAX: Final = 60.0  # a server that asks for more is asked again earlier
CLIENT_SSE_SILENCE_S: Final = 20.0  # a heartbeat that did not come
CLIENT_SSE_FAILURES: Final = 3  # event streams in a row that end before their first event, before long-poll is taken
CLIENT_LONG_POLL_S: Final = 90.0  # three times what servers wait by default; then it is asked again
CLIENT_ERROR_TEXT_BYTES_MAX: Final = 500  # of a reply in plain words, in the text of an error
CLIENT_RESPONSE_BYTES_MAX: Final = 128 * MIB  # the largest page, with base64 around it
CLIENT_READ_BYTES_MAX: Final = 256 * MIB  # what read_bytes and its like collect unless told otherwise
CLIENT_CONNECTIONS_MAX: Final = 1_000  # each follow holds one
CLIENT_KEEP_ALIVE_S: Final = 60.0  # below the server's 75 s, so that the client closes first
CLIENT_REDIRECTS_MAX: Final = 5
CLIENT_STREAMS_KNOWN_MAX: Final = 10_000  # content types, and producers of plain appends, that are remembered
PRODUCER_BATCH_BYTES: Final = 240 * KIB  # below what the server parses without a thread
PRODUCER_BATCH_MESSAGES_MAX: Final = 10_000
PRODUCER_BUFFER_BYTES: Final = 32 * MIB  # beyond this append() waits
PRODUCER_LINGER_S: Final = 0.005  # about one fsync
PRODUCER_IN_FLIGHT: Final = 5  # seed 004
PRODUCER_IN_FLIGHT_MAX: Final = 100  # each has a connection of its own, and in `Streams` a thread
INJECTED_FAULTS_MAX: Final = 1_000  # injected by tests, with --test-endpoints

# Offline client (`mainstem.client.offline`)
OFFLINE_DRAFTS_MAX: Final = 100_000  # what may wait for a connection; beyond this submit is refused
OFFLINE_DRAFTS_BYTES_MAX: Final = 512 * MIB  # the same by size
OFFLINE_REJECTIONS_MAX: Final = 10_000  # kept until the application has dismissed them; then submit is refused
OFFLINE_WAITING_MAX: Final = 1_000  # submits in one transaction; further callers wait for their turn
OFFLINE_PAGE: Final = 1_000  # events asked for at once; halved, down to SYNC_PAGE_MIN, when a page takes too long
OFFLINE_MESSAGE_BYTES_MAX: Final = 64 * MIB  # a page with some snapshots of 16 MiB
OFFLINE_INBOX_MAX: Final = 64  # messages that were read and not yet applied; then the socket is not read
OFFLINE_EARLY_EVENTS_MAX: Final = 10_000  # broadcasts that came during a cycle; lost ones are fetched again
OFFLINE_EARLY_BYTES_MAX: Final = 32 * MIB
OFFLINE_RENEW_EVENTS: Final = 2_000  # received live until the cursor is moved: what a reconnect fetches again
OFFLINE_CHANGES_MAX: Final = 1_000  # that wait for one listener; then it learns that it missed some
OFFLINE_EVENTS_MAX: Final = 10_000  # of one read of a partition, held in memory
OFFLINE_FOLD_EVENTS: Final = 1_000  # read at once for a view
OFFLINE_VIEWS_MAX: Final = 100  # each holds its state in memory
OFFLINE_VIEW_EVENTS: Final = 5_000  # folded until a view's state is stored: what an opening folds again
OFFLINE_VIEW_BYTES_MAX: Final = 64 * MIB  # a view's state, which is stored as a whole
OFFLINE_OPEN_S_MAX: Final = 10.0  # for connecting and the handshake
OFFLINE_HEARTBEAT_S: Final = 20.0  # of silence, after which the server is asked for a sign of life
OFFLINE_SILENCE_S_MAX: Final = 60.0  # without any message; a page of 4 MiB passes in it at 70 KiB/s
OFFLINE_BACKOFF_S: Final = 0.2  # before the second attempt to connect; it doubles
OFFLINE_BACKOFF_S_MAX: Final = 30.0
OFFLINE_REFUSED_S: Final = 30.0  # until a partition that was not allowed is asked for again, with a new token
OFFLINE_MISMATCHES: Final = 3  # connections in a row that find the log too short: one node may lag behind another
OFFLINE_CLOSE_S_MAX: Final = 2.0  # for closing a connection in order

# Background work
SCAN_PAGE: Final = 1_000
REAP_EVERY_S: Final = 1.0
REAP_STREAMS_MAX: Final = 500  # expired streams ended in one round
TOUCHES_FLUSH_S: Final = 5.0  # how much of a sliding TTL's last reads a crash may forget
TOUCHES_MAX: Final = 100_000
EXPIRY_GRACE_S: Final = 3.0  # with many nodes: until a read at another one is known, and its stream is not erased
RETENTION_EVERY_S: Final = 5.0  # how far a stream may overshoot its retention
RETENTION_STREAMS_MAX: Final = 200  # streams trimmed in one round
ERASE_RECORDS_MAX: Final = 1_000  # records of a deleted stream removed in one transaction
GARBAGE_TOPICS_MAX: Final = 100
SHUTDOWN_S_MAX: Final = 10.0

# Spark pipeline
JAVA_VERSION_S_MAX: Final = 10.0  # for `java -version`, where no `release` file tells it
CLASS_ARCHIVE_S_MAX: Final = 120.0  # for Java to write its classes to a file; seconds on an idle machine
PIPELINE_WAIT_S_MAX: Final = 60.0  # for one answer of the server, connecting included
PIPELINE_RETRY_S: Final = 120.0  # how long a server may be away; a restart with recovery takes seconds
PIPELINE_RETRY_S_MAX: Final = 86_400.0
PIPELINE_SILENT_S: Final = 2.0  # so long a job waits for its server without a word: a busy one takes that long
JOB_REASON_CHARS_MAX: Final = 1000  # of what another library says went wrong: one line on a terminal, not a page
SAME_LOG_IDS: Final = 100  # around the end of a table, looked at if its last row is gone from the log
SAME_LOG_SKEW_US: Final = 60_000_000  # by so much a clock may have been set right between two commits of one log
PIPELINE_BACKOFF_S: Final = 0.1  # between two attempts; it doubles
PIPELINE_BACKOFF_S_MAX: Final = 5.0
LOG_READ_BYTES: Final = (
    8 * MIB
)  # one page of the log in a Spark task, held in memory as a whole so that it can be retried
BATCH_SPLITS: Final = 8  # tasks of one batch read: enough that uneven shares even out, while each costs about 20 ms
STREAM_SPLITS: Final = 4  # tasks of one micro-batch
SPLITS_MAX: Final = 10_000
PUSHED_BYTES_MAX: Final = 8 * KIB  # stream names of one filter that go into the URL; more are compared by Spark
SINK_CHUNK_BYTES: Final = MIB  # one append of the sink; also bounds what the server holds for it
SINK_CHUNK_BYTES_MAX: Final = 16 * MIB
SINK_BUFFER_BYTES_MAX: Final = 64 * MIB  # rows of many streams in one task, until they are staged
SINK_SUBMIT_BYTES: Final = 512 * KIB  # events in one message; half of what the server takes
SINK_SUBMITS_MAX: Final = 2  # messages under way; together the drafts that a client may have waiting
SINK_PARTITIONS_KNOWN_MAX: Final = 10_000  # lists of partitions that a task has checked already
SINK_CONNECTIONS: Final = 8  # connections over which the driver appends to many streams
SINK_ENDS_KEPT: Final = 8  # ends of streams or partitions noted in a mark, to tell later whether they are still there
SINK_CONNECTION_CHUNKS_MAX: Final = 4  # chunks that wait for one of them
COPY_ROWS: Final = 1_000_000  # of the log in one commit of an archive or export: some seconds, which a kill may cost
COPY_BYTES: Final = 256 * MIB  # the same, for large messages
COPY_TASK_ROWS_MIN: Final = 20_000  # a task for fewer rows takes longer to start than to run
COPY_TASKS_MAX: Final = 1_000  # of one commit
PARQUET_GROUP_ROWS: Final = 128_000  # rows that a task holds until they are a row group
PARQUET_GROUP_BYTES: Final = 64 * MIB
COMPACT_FILES: Final = 16  # small files in one partition of an archive, from which on they are made into larger ones
COMPACT_SMALL_BYTES: Final = 4 * MIB  # first into files of this size,
COMPACT_LARGE_BYTES: Final = 32 * MIB  # then of this: a row is written again two or three times, not with every round
COMPACT_TASKS_MAX: Final = 2  # files rewritten at a time, each in the memory of the driver
IMPORT_FILES_MAX: Final = 100_000  # of one import; its plan is a document that is held and written as a whole
IMPORT_GROUP_FILES: Final = 64  # files in one write of the sink: each is a scan in one plan of Spark
IMPORT_GROUP_BYTES: Final = 256 * MIB  # the same, of larger files; they are staged on disk until they are sent
IMPORT_SPLIT_BYTES: Final = 32 * MIB  # of a file in one task
ROLLUP_ROWS: Final = 1_000_000  # one micro-batch of a rollup: what a kill makes it do again
AUDIT_TASK_IDS: Final = (
    50_000  # committed ids that one task of an audit examines: a second or less, and what a kill undoes
)
AUDIT_BUFFER_ROWS: Final = 10_000  # findings that a task holds before it writes them
AUDIT_RUNS_OPEN_MAX: Final = 100_000  # streams that a task follows at once; beyond this it begins new runs
AUDIT_EXAMPLES: Final = 5  # faults of each kind that are shown
AUDIT_EXAMPLES_MAX: Final = 1_000  # they are held by the driver

FOLD_TASK_IDS: Final = 100_000  # ids of the log that one task of snapshot or retain reads
FOLD_TASK_IDS_MIN: Final = 2_000  # a smaller task costs more to begin than it does
TARGETS_KNOWN_MAX: Final = 100_000  # partitions and streams for which a task remembers whether they are chosen
COMBINED_KEYS_MAX: Final = 100_000  # entries that a task holds before it hands them on
COMBINED_BYTES_MAX: Final = 64 * MIB
SNAPSHOTS_BEHIND_MAX: Final = 1_000  # targets that could not be folded and are caught up by name; more repeat the round
PROBLEMS_TOLD_MAX: Final = 20  # of one round, in its summary
POLICIES_MAX: Final = 1_000  # of one file; each glob is tried for each name
POLICY_FILE_BYTES_MAX: Final = MIB
PRUNED_TOLD_MAX: Final = 1_000  # partitions and streams in the list of what would go

# Command line
CLI_ATTEMPTS: Final = 3  # of a first request, within half a second: a server that is not there is told at once
CLI_RETRY_NOTICE_S: Final = 1.0  # of an unreachable server, before a command says that it retries; people wait for 2 s
CLI_LOG_TAIL_IDS_MAX: Final = 1_000_000  # how far back `log tail -n` looks for messages; with filters it may find few
CLI_APPEND_BYTES: Final = 256 * KIB  # input is sent in pieces of this size: one page in memory, and few requests
CLI_APPEND_MESSAGES_MAX: Final = 1_000  # JSON messages in one append
CLI_LINE_BYTES_MAX: Final = MIB  # a longer line of a stream is shown in pieces
CLI_WHOLE_BYTES_MAX: Final = 64 * MIB  # one message, or one append as a whole; more could not be stored anyway
CLI_SUBMIT_BYTES: Final = 512 * KIB  # drafts in one message, well below what a message may be
CLI_SYNC_WAIT_S: Final = 30.0  # for one answer over the WebSocket
CLI_SYNC_MESSAGE_BYTES_MAX: Final = 64 * MIB  # a page with the largest snapshots
BENCH_APPENDS_MAX: Final = 1_000_000  # a bench is a small load, not an attack
BENCH_S_MAX: Final = 600.0
BENCH_STREAMS_MAX: Final = 1_000
BENCH_CONNECTIONS_MAX: Final = 64  # each is a thread of the bench

RETRY_AFTER_S: Final = 1  # what a 503 tells a client to wait
