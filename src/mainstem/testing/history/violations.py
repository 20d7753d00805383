"""A broken promise, with the calls that prove it."""

import re
from typing import NamedTuple

import msgspec

from mainstem.streams.rules.offsets import Offset
from mainstem.testing.history.calls import AnyCall

CALLS_SHOWN = 6
TEXT_SHOWN = 300
LONG_PADDING = re.compile(r"([^0-9]|\.[a-z0-9-]{1,12})\1{9,}")


class Violation(NamedTuple):
    rule: str
    """The name of the promise that was broken, in a few words that never change."""
    detail: str
    calls: tuple[AnyCall, ...] = ()
    """The fewest calls that show it, in the order of their starts."""

    def explain(self) -> str:
        """Return the violation as text: one line, and one line per call."""
        lines = [f"{self.rule}: {_shorten(self.detail)}"]
        for call in sorted(self.calls, key=lambda call: call.start)[:CALLS_SHOWN]:
            lines.append(f"  {describe_call(call)}")
        return "\n".join(lines)


def describe_call(call: AnyCall) -> str:
    end = "never answered" if call.end is None else f"{call.end:.6f}"
    fields = {
        field: value
        for field, value in msgspec.structs.asdict(call).items()
        if field not in COMMON and value not in (None, (), False, "")
    }
    text = ", ".join(f"{name}={_shorten(_show(value))}" for name, value in fields.items())
    return f"{call.start:.6f} to {end}: {call.client} {type(call).__name__}({text})"


COMMON = frozenset(["client", "start", "end"])


def _show(value: object) -> str:
    return str(value) if isinstance(value, Offset) else repr(value)


def _shorten(text: str) -> str:
    """Return the text without the middle of long messages."""
    text = LONG_PADDING.sub("...", text)
    return text if len(text) <= TEXT_SHOWN else f"{text[:TEXT_SHOWN]}..."
