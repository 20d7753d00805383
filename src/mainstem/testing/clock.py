"""A clock that moves only when it is told to."""

SECOND_US = 1_000_000
START_US = 1_700_000_000 * SECOND_US  # some day in 2023: sums with it have the size that real ones have


class FakeClock:
    """Stands where the server takes a clock: a callable that gives microseconds since 1970."""

    def __init__(self, now_us: int = START_US) -> None:
        self.now_us = now_us

    def __call__(self) -> int:
        return self.now_us

    def advance(self, seconds: float = 0, *, us: int = 0) -> None:
        """Move on. A clock never goes back: the log's times would go back with it."""
        step_us = round(seconds * SECOND_US) + us
        if step_us < 0:
            raise ValueError(f"a clock does not go back, and this would be {step_us} us")
        self.now_us += step_us
