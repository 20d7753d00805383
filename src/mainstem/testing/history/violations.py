"""A broken promise, with the calls that prove it."""

from typing import NamedTuple

import msgspec

from mainstem.testing.history.calls import AnyCall

CALLS_SHOWN = 6


class Violation(NamedTuple):
    rule: str
    """The name of the promise that was broken, in a few words that never change."""
    detail: str
    calls: tuple[AnyCall, ...] = ()
    """The fewest calls that show it, in the order of their starts."""

    def explain(self) -> str:
        """Return the violation as text: one line, and one line per call."""
        lines = [f"{self.rule}: {self.detail}"]
        for call in sorted(self.calls, key=lambda call: call.start)[:CALLS_SHOWN]:
            lines.append(f"  {describe_call(call)}")
        return "\n".join(lines)


def describe_call(call: AnyCall) -> str:
    end = "never answered" if call.end is None else f"{call.end:.6f}"
    about = {
        field: value
        for field, value in msgspec.structs.asdict(call).items()
        if field not in Common and value not in (None, (), False, "")
    }
    told = ", ".join(f"{name}={_shorten(value)}" for name, value in about.items())
    return f"{call.start:.6f} to {end}: {call.client} {type(call).__name__}({told})"


Common = frozenset(["client", "start", "end"])


def _shorten(value: object) -> str:
    text = str(value) if isinstance(value, tuple) and hasattr(value, "read_seq") else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
