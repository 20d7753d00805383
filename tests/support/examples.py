"""How many examples Hypothesis tries."""

from tests.support.requirements import IN_CI


def examples(number: int) -> int:
    """All of them in CI; elsewhere a quarter, because whoever waits for a run has started it to see something else."""
    return number if IN_CI else max(number // 4, 10)
