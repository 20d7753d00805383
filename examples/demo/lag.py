"""How far the log is ahead of the rollup: its end is looked up several times a second."""

import json
import threading
import time
import urllib.request
from typing import NamedTuple

EVERY_S = 0.25


class Sample(NamedTuple):
    second: float
    head: int
    reached: int

    @property
    def lag(self) -> int:
        return max(0, self.head - self.reached)


class LagSampler:
    """Use it as `with LagSampler(url) as sampler`. Whoever has read the log up to an id says so with `reach`."""

    def __init__(self, url: str) -> None:
        self.samples: list[Sample] = []
        self._url = url
        self._reached = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> "LagSampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def reach(self, committed_id: int) -> None:
        self._reached = committed_id

    def _run(self) -> None:
        begun_s = time.monotonic()
        while not self._stop.wait(EVERY_S):
            try:
                head = read_head(self._url)
            except OSError:
                continue  # a sample more or less does not matter
            self.samples.append(Sample(time.monotonic() - begun_s, head, self._reached))


def read_head(url: str) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{url}/v1/log/head", timeout=10) as reply:
        return int(json.load(reply)["head"])
