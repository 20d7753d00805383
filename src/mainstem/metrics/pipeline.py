"""Every metric of `mainstem pipeline run`. The server has others about the same jobs: what they report to it."""

from typing import Final

from mainstem.metrics.catalogue import Catalogue

ROUND_SECONDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0)


class PipelineMetrics(Catalogue):
    """The metrics of one service. Only its main thread changes them."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = self._counter(
            "mainstem_pipeline_rounds_total",
            "Rounds that are over, by outcome: done, faulty (it found faults) or failed.",
            "kind",
            "name",
            "outcome",
        )
        self.rows = self._counter("mainstem_pipeline_rows_total", "Rows that rounds have processed.", "kind", "name")
        self.seconds = self._histogram(
            "mainstem_pipeline_round_duration_seconds", "Length of rounds.", ROUND_SECONDS, "kind", "name"
        )
        self.lag = self._gauge(
            "mainstem_pipeline_lag_records", "How far the last round was from the head.", "kind", "name"
        )
        self.faults = self._gauge(
            "mainstem_pipeline_last_round_faults", "Faults that the last round found.", "kind", "name"
        )
        self.failures = self._gauge(
            "mainstem_pipeline_failures_in_a_row", "Failed rounds since the last that did not fail.", "kind", "name"
        )
        self.running = self._gauge("mainstem_pipeline_round_running", "1 while a round runs.", "kind", "name")
        self.success_time = self._gauge(
            "mainstem_pipeline_last_success_timestamp_seconds",
            "When the last round that did not fail ended, since 1970; 0 if there was none.",
            "kind",
            "name",
        )
        self.next_time = self._gauge(
            "mainstem_pipeline_next_round_timestamp_seconds", "When the next round is due, since 1970.", "kind", "name"
        )
        self.spark_starts = self._counter("mainstem_pipeline_spark_starts_total", "How often Spark was started.")
