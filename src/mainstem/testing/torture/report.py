"""The report of a torture run, for people."""

from collections import Counter

from mainstem.testing.torture.rounds import Outcome

VIOLATIONS_SHOWN = 3


def write_report(outcome: Outcome, seed: int, seconds: float) -> str:
    """Return what was called, which faults there were, and the verdict."""
    calls = sum(outcome.calls.values())
    kills = outcome.faults["kill"]
    lines = [
        f"seed {seed}: {outcome.rounds} rounds in {seconds:.0f} s, {outcome.lives:,} lives, {calls:,} calls, "
        f"{kills:,} kills ({kills * 60 / max(seconds, 1):.0f} per minute)",
        "",
    ]
    for kind in sorted({kind for kind, _ in outcome.calls}):
        own = Counter({how: number for (name, how), number in outcome.calls.items() if name == kind})
        lines.append(f"  {kind:<10} {', '.join(f'{number:,} {how}' for how, number in own.most_common())}")
    lines += [
        "",
        f"  faults     {', '.join(f'{number:,} {fault}' for fault, number in outcome.faults.most_common())}",
        "",
    ]
    if not outcome.violations:
        return "\n".join([*lines, "verdict: one order explains every call"])
    smallest = sorted(outcome.violations, key=lambda violation: len(violation.explain()))
    lines.append(f"verdict: {len(smallest)} violations; the history is in {outcome.history}")
    lines += [violation.explain() for violation in smallest[:VIOLATIONS_SHOWN]]
    return "\n".join(lines)
