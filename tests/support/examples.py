"""How many examples Hypothesis tries."""

from tests.support.requirements import IN_CI


def examples(number: int) -> int:
    """Return all of them in CI, and a quarter elsewhere, where somebody is waiting for the run."""
    return number if IN_CI else max(number // 4, 10)
