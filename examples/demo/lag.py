"""How far the rollup is behind the log, in seconds. A thread asks the server for its head several times per second."""

import json
import threading
import time
import urllib.request
from collections.abc import Sequence
from typing import NamedTuple

EVERY_S = 0.25


class Sample(NamedTuple):
    second: float
    head: int
    """The newest committed id at that moment."""
    reached: int
    """The committed id up to which the rollup had finished."""


def lag_seconds(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    """Return for each sample its time and the age of the oldest record that the rollup had not finished.

    A record's age counts from the first sample whose head includes it, so the error is at most `EVERY_S`.
    """
    lag = []
    oldest = 0  # the first sample whose head the rollup has not reached
    for sample in samples:
        while oldest < len(samples) and samples[oldest].head <= sample.reached:
            oldest += 1
        waits = oldest < len(samples) and samples[oldest].second <= sample.second
        lag.append((sample.second, sample.second - samples[oldest].second if waits else 0.0))
    return lag


class LagSampler:
    """Use it as `with LagSampler(url) as sampler`, and call `reach` after each round of the rollup."""

    def __init__(self, url: str) -> None:
        self.samples: list[Sample] = []
        self._url = url
        self._reached = 0
        self._last: int | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> "LagSampler":
        self._reached = read_head(self._url)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def reach(self, committed_id: int) -> None:
        self._reached = committed_id

    def end_traffic(self) -> None:
        """Ignore the records after this point: they are the rollup's own counts, which it does not count."""
        self._last = read_head(self._url)

    def _run(self) -> None:
        begun_s = time.monotonic()
        while not self._stop.wait(EVERY_S):
            try:
                head = read_head(self._url)
            except OSError:
                continue  # one sample more or less does not matter
            shown = head if self._last is None else min(head, self._last)
            self.samples.append(Sample(time.monotonic() - begun_s, shown, self._reached))


def read_head(url: str) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{url}/v1/log/head", timeout=10) as reply:
        return int(json.load(reply)["head"])
