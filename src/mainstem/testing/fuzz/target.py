"""What a fuzzer needs to know about a parser."""

from collections.abc import Callable
from dataclasses import dataclass

from mainstem.errors import MainstemError


class Finding(Exception):
    """An input after which something undocumented happened. The cause of the exception says what."""

    def __init__(self, target: str, data: bytes) -> None:
        super().__init__(f"{target} fails for the input {data!r}")
        self.target = target
        self.data = data


@dataclass(frozen=True)
class Target:
    name: str
    run: Callable[[bytes], None]
    """Parses the input, and asserts what must be true of the result."""
    seeds: tuple[bytes, ...]
    """Valid inputs, from which a fuzzer makes others."""
    pieces: tuple[bytes, ...] = ()
    """Parts of inputs that mean something to this parser."""
    documented: tuple[type[Exception], ...] = (MainstemError,)
    """The errors that may come out."""

    def check(self, data: bytes) -> None:
        """Run the target on one input. Raises `Finding` for any error that is not documented."""
        try:
            self.run(data)
        except self.documented:
            pass
        except Exception as error:
            raise Finding(self.name, data) from error


def as_text(data: bytes) -> str:
    """Return the input as the text of a header or a parameter, which is always valid Unicode."""
    return data.decode("utf-8", "replace")
