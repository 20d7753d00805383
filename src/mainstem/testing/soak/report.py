"""The report of a soak, for people."""

from collections import Counter

from mainstem.testing.soak.run import Result
from mainstem.testing.soak.samples import Growth

VIOLATIONS_SHOWN = 5
UNITS = {"memory_bytes": ("memory", 1e6, " MB"), "disk_bytes": ("disk", 1e6, " MB")}
RECOVERY_S_MAX = 1.0


def judge(result: Result) -> list[str]:
    """Return everything that is wrong, each as text."""
    wrong = [violation.explain() for violation in result.violations]
    wrong += [f"not flat: {_describe(growth)}" for growth in result.growth if not growth.flat]
    flood = result.flood
    if flood is not None:
        if not flood.refused:
            wrong.append("never refused: the flood was not large enough")
        elif flood.refused_s > flood.stored_s:
            wrong.append("refused too late: a refusal takes longer than an append")
        if flood.recovered_s > RECOVERY_S_MAX:
            wrong.append(f"recovered too late: after {flood.recovered_s:.1f} s")
    return wrong


def write_report(result: Result) -> str:
    plan, flood = result.plan, result.flood
    kinds: Counter[str] = Counter()
    for (kind, _), number in result.calls.items():
        kinds[kind] += number
    told = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common())
    lines = [
        f"seed {plan.seed}: {plan.minutes:g} minutes, {result.epochs} epochs, {result.restarts} restarts",
        f"  calls      {sum(kinds.values()):,}: {told}",
        f"  clients    {plan.busy:,} busy, {result.connected:,} idle",
        f"  beside     {result.looks:,} looks at expiring and trimmed streams, {result.webhooks:,} webhooks, "
        f"{result.backups} backups, {result.jobs} rounds of Spark jobs",
    ]
    lines += [f"  {_describe(growth)}" for growth in result.growth]
    if flood is not None:
        lines.append(
            f"  overload   {flood.stored:,} appends of 1 MiB were stored, each in {flood.stored_s:.2f} s, "
            f"{flood.refused:,} were refused, each in {flood.refused_s:.2f} s, and {flood.unanswered:,} had no answer; "
            f"the server was as quick as always {flood.recovered_s:.2f} s later"
        )
    wrong = judge(result)
    if not wrong:
        return "\n".join([*lines, "verdict: one order explains every call, and the server did not grow"])
    return "\n".join([*lines, f"verdict: {len(wrong)} faults", *wrong[:VIOLATIONS_SHOWN]])


def _describe(growth: Growth) -> str:
    name, unit, suffix = UNITS.get(growth.measure, (growth.measure, 1, ""))
    before, after, allowed = (f"{value / unit:,.0f}{suffix}" for value in (growth.before, growth.after, growth.allowed))
    return f"{name:<10} {before}, later {after} (at most {allowed})"
