"""A clock that moves only when a test moves it."""

SECOND_US = 1_000_000
START_US = 1_700_000_000 * SECOND_US  # a day in 2023, so that times are as large as real ones


class FakeClock:
    """A clock to pass to the server: a callable that returns microseconds since 1970."""

    def __init__(self, now_us: int = START_US) -> None:
        self.now_us = now_us

    def __call__(self) -> int:
        return self.now_us

    def advance(self, seconds: float = 0, *, us: int = 0) -> None:
        """Move the clock forward. It never goes back, because the log's times would go back with it."""
        step_us = round(seconds * SECOND_US) + us
        if step_us < 0:
            raise ValueError(f"the clock cannot go back; the step would be {step_us} us")
        self.now_us += step_us
