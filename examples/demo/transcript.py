"""What the demo prints, and when: the picture replays it."""

import time
from typing import NamedTuple


class Line(NamedTuple):
    second: float
    text: str


class Transcript:
    """Prints lines, and keeps each with the time since the transcript was created."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._begun_s = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._begun_s

    def say(self, text: str) -> None:
        print(text, flush=True)
        self.lines.append(Line(self.elapsed_s, text))
