"""Every metric of the server, in one place. Labels are bounded: never a path, a partition or a client.

A component changes the instruments that belong to it. What the server knows anyway, such as the head, is read at each
scrape (`Family.read`).
"""

from collections.abc import Sequence
from typing import Any, Final

from mainstem import limits
from mainstem.metrics.instruments import Counter, Family, Gauge, Histogram, Instrument, Kind

REQUEST_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
DISK_SECONDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
BATCH_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)


class Catalogue:
    """The metrics of one program. Families appear in a scrape in the order in which they are added."""

    def __init__(self) -> None:
        self.families: list[Family[Any]] = []

    def _counter(
        self, name: str, meaning: str, *labels: str, children_max: int = limits.METRIC_SERIES_MAX
    ) -> Family[Counter]:
        return self._add(Family(name, Kind.COUNTER, meaning, labels, Counter, children_max))

    def _gauge(self, name: str, meaning: str, *labels: str) -> Family[Gauge]:
        return self._add(Family(name, Kind.GAUGE, meaning, labels, Gauge, limits.METRIC_SERIES_MAX))

    def _histogram(self, name: str, meaning: str, bounds: Sequence[float], *labels: str) -> Family[Histogram]:
        make = lambda: Histogram(bounds)  # noqa: E731
        return self._add(Family(name, Kind.HISTOGRAM, meaning, labels, make, limits.METRIC_SERIES_MAX))

    def _add(self, family: Family[Instrument]) -> Family[Instrument]:
        if not family.labels:
            family.of()  # so that it is 0 rather than absent
        self.families.append(family)
        return family


class Metrics(Catalogue):
    """The metrics of one server."""

    def __init__(self) -> None:
        super().__init__()
        self.build = self._gauge("mainstem_build_info", "Always 1; the labels say what runs.", "version", "store")
        self._add_http()
        self._add_log()
        self._add_store()
        self._add_postgres()
        self._add_live_reads()
        self._add_sync()
        self._add_subscriptions()
        self._add_exports()
        self._add_jobs()
        self._add_logs()
        self._add_process()

    def _add_http(self) -> None:
        self.requests = self._counter(
            "mainstem_http_requests_total",
            "Requests that are over, by the status of the reply, and by its error code if it is a problem document.",
            "route",
            "method",
            "status",
            "code",
            children_max=limits.REQUEST_SERIES_MAX,
        )
        self.request_seconds = self._histogram(
            "mainstem_http_request_duration_seconds",
            "From the head of a request to the last byte of its reply. Live reads have routes of their own.",
            REQUEST_SECONDS,
            "route",
            "method",
        )
        self.response_bytes = self._counter(
            "mainstem_http_response_bytes_total", "Bytes of replies, with their heads.", "route"
        )
        self.connections = self._gauge("mainstem_http_connections", "Open connections.", "kind")
        self.held_bytes = self._gauge(
            "mainstem_http_held_bytes", "Memory that unfinished requests and unread replies take."
        )
        self.shed_connections = self._counter(
            "mainstem_http_connections_shed_total", "Connections that were closed because memory ran short."
        )

    def _add_log(self) -> None:
        self.head = self._gauge("mainstem_log_head", "The highest committed id.")
        self.pruned = self._gauge("mainstem_log_pruned_id", "The committed id up to which history may be gone.")
        self.commits = self._counter("mainstem_log_commits_total", "Batches that were made durable.")
        self.records = self._counter("mainstem_log_records_total", "Records that were committed.", "kind")
        self.record_bytes = self._counter("mainstem_log_record_bytes_total", "Bytes of the data of committed records.")
        self.rejected = self._counter(
            "mainstem_log_rejected_commands_total", "Commands that failed, by the code of the error.", "code"
        )
        self.batch_commands = self._histogram("mainstem_log_batch_commands", "Commands per batch.", BATCH_SIZES)
        self.queue_commands = self._gauge("mainstem_log_queue_commands", "Commands that wait for the next batch.")
        self.queue_bytes = self._gauge("mainstem_log_queue_bytes", "Bytes of the commands that wait.")
        self.queue_seconds = self._histogram(
            "mainstem_log_queue_wait_seconds", "How long the first command of each batch waited.", REQUEST_SECONDS
        )
        self.commit_seconds = self._histogram(
            "mainstem_log_commit_duration_seconds", "From taking a batch to its durability.", DISK_SECONDS
        )

    def _add_store(self) -> None:
        self.store_bytes = self._gauge("mainstem_store_bytes", "Size on disk, by part of the store.", "part")
        self.free_bytes = self._gauge("mainstem_store_disk_free_bytes", "Free space on the disk of the store.")
        self.refuses_writes = self._gauge(
            "mainstem_store_refuses_writes", "1 while the store refuses writes, by the reason.", "reason"
        )
        self.sync_seconds = self._histogram(
            "mainstem_store_sync_duration_seconds",
            "Writing a batch to the journal and syncing it, for the embedded store.",
            DISK_SECONDS,
        )
        self.journal_bytes = self._gauge(
            "mainstem_store_unfolded_bytes", "Bytes that are in the journal and not in the database yet."
        )
        self.fold_seconds = self._histogram(
            "mainstem_store_fold_duration_seconds", "Adding batches of the journal to the database.", DISK_SECONDS
        )
        self.checkpoint_seconds = self._histogram(
            "mainstem_store_checkpoint_duration_seconds", "Checkpoints of the write-ahead log.", DISK_SECONDS
        )

    def _add_postgres(self) -> None:
        self.pool_connections = self._gauge(
            "mainstem_postgres_pool_connections", "Connections for reading, by state.", "state"
        )
        self.head_wait_seconds = self._histogram(
            "mainstem_postgres_head_wait_seconds", "Waiting for the lock on the head of the log.", DISK_SECONDS
        )
        self.follow_lag = self._gauge(
            "mainstem_postgres_follow_lag_commits", "Commits of other nodes that this node has not applied yet."
        )
        self.leader = self._gauge("mainstem_leader", "1 if this node runs the background work of the log.")

    def _add_live_reads(self) -> None:
        self.live_readers = self._gauge("mainstem_live_readers", "Open live reads.", "kind")
        self.live_frames = self._counter("mainstem_live_frames_total", "Writes to live readers.", "kind")
        self.live_bytes = self._counter("mainstem_live_bytes_total", "Bytes that were sent to live readers.", "kind")
        self.slow_readers = self._counter(
            "mainstem_live_slow_readers_total", "Times that a live reader did not keep up and was read from the log."
        )

    def _add_sync(self) -> None:
        self.sync_sessions = self._gauge("mainstem_sync_sessions", "Open connections of the sync protocol.")
        self.submits = self._counter("mainstem_sync_submits_total", "Submitted events, by outcome.", "outcome")
        self.broadcasts = self._counter("mainstem_sync_broadcasts_total", "Events that were sent to subscribers.")
        self.outbox_bytes = self._gauge("mainstem_sync_outbox_bytes", "Bytes that wait to be sent to sync clients.")
        self.sync_pages = self._counter("mainstem_sync_pages_total", "Pages of sync cycles.")
        self.sync_errors = self._counter("mainstem_sync_errors_total", "Error messages to sync clients.", "code")

    def _add_subscriptions(self) -> None:
        self.subscriptions = self._gauge("mainstem_subscriptions", "Subscriptions, by status.", "status")
        self.wakes = self._counter("mainstem_subscription_wakes_total", "Wakes, by type of subscription.", "type")
        self.webhook_attempts = self._counter(
            "mainstem_webhook_attempts_total", "Calls of webhooks, by outcome.", "outcome"
        )
        self.webhook_seconds = self._histogram(
            "mainstem_webhook_duration_seconds", "How long webhooks that answered took to do so.", REQUEST_SECONDS
        )
        self.oldest_wake_seconds = self._gauge(
            "mainstem_subscription_oldest_wake_seconds", "Age of the oldest wake that is not acknowledged."
        )
        self.subscriptions_behind = self._gauge(
            "mainstem_subscriptions_behind", "Subscriptions with data that was not acknowledged yet."
        )
        self.subscription_lag_bytes = self._gauge(
            "mainstem_subscription_lag_bytes",
            "Bytes that all subscriptions together have not acknowledged, measured at most every ten seconds.",
        )

    def _add_exports(self) -> None:
        self.export_pages = self._counter("mainstem_export_pages_total", "Pages of /v1/log.", "format")
        self.export_rows = self._counter("mainstem_export_rows_total", "Rows of /v1/log.", "format")
        self.export_bytes = self._counter("mainstem_export_bytes_total", "Bytes of pages of /v1/log.", "format")
        self.export_seconds = self._histogram(
            "mainstem_export_page_duration_seconds", "Reading and encoding a page of /v1/log.", REQUEST_SECONDS
        )

    def _add_jobs(self) -> None:
        self.job_time = self._gauge(
            "mainstem_job_last_round_timestamp_seconds",
            "When the last round of a job ended, since 1970.",
            "kind",
            "name",
        )
        self.job_seconds = self._gauge(
            "mainstem_job_last_round_duration_seconds", "Length of the last round.", "kind", "name"
        )
        self.job_rows = self._gauge("mainstem_job_last_round_rows", "Rows of the last round.", "kind", "name")
        self.job_lag = self._gauge("mainstem_job_lag_records", "How far the job was from the head.", "kind", "name")
        self.job_faults = self._gauge(
            "mainstem_job_last_round_faults", "Faults that the last round found.", "kind", "name"
        )
        self.job_failed = self._gauge("mainstem_job_last_round_failed", "1 if the last round failed.", "kind", "name")

    def _add_logs(self) -> None:
        self.log_lines = self._counter("mainstem_log_lines_total", "Lines of the log, by level.", "level")
        self.access_lines_lost = self._counter(
            "mainstem_access_log_lost_total", "Lines of the access log that were dropped because nobody read them."
        )

    def _add_process(self) -> None:
        self.loop_lag_seconds = self._histogram(
            "mainstem_event_loop_lag_seconds", "How late the event loop ran a timer.", REQUEST_SECONDS
        )
        self.cpu_seconds = self._counter("process_cpu_seconds_total", "CPU time of the process.")
        self.resident_bytes = self._gauge("process_resident_memory_bytes", "Resident memory of the process.")
        self.open_files = self._gauge("process_open_fds", "Open file descriptors.")
        self.files_max = self._gauge("process_max_fds", "How many file descriptors the process may open.")
        self.threads = self._gauge("process_threads", "Threads of the process.")
        self.start_time = self._gauge("process_start_time_seconds", "When the process started, since 1970.")
        self.collections = self._counter(
            "python_gc_collections_total", "Runs of the garbage collector, by generation.", "generation"
        )
