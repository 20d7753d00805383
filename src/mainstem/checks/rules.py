"""The list of all consistency rules, and the check that runs them."""

from collections.abc import Callable, Iterator

from mainstem import limits
from mainstem.checks import events, log, streams
from mainstem.log import pruned  # noqa: F401 - declares a space, as those below do, so that its states can be decoded
from mainstem.log.store.snapshot import Figures, Finding, Report, StoreSnapshot
from mainstem.streams.subscriptions.core import model, signing  # noqa: F401

Rule = Callable[[StoreSnapshot], Iterator[Finding]]
OnRule = Callable[[str, int, int], None]
"""Called before each rule with its name, its number, and how many rules there are."""

RULES: list[tuple[str, Rule]] = [
    ("storage", lambda snapshot: snapshot.check_storage()),
    ("head", log.check_head),
    ("identity", log.check_identity),
    ("record", log.check_records),
    ("topic", log.check_topics),
    ("tag", log.check_tags),
    ("state", log.check_states),
    ("stream", streams.check_streams),
    ("fork", streams.check_forks),
    ("owner", streams.check_owners),
    ("producer", streams.check_producers),
    ("retention", streams.check_retention),
    ("event", events.check_events),
    ("event id", events.check_event_ids),
    ("partition", events.check_partitions),
]
"""In order: later rules rely on what earlier rules check."""
EMPTY = Figures(0, 0, 0, 0)


def ignore_progress(name: str, number: int, total: int) -> None:
    """Do nothing."""


def check_store(snapshot: StoreSnapshot, on_rule: OnRule = ignore_progress) -> Report:
    """Run all rules on a snapshot, and report up to `limits.CHECK_FINDINGS_MAX` findings."""
    obstacle = snapshot.find_obstacle()
    if obstacle is not None:
        return Report(EMPTY, (Finding(snapshot.storage, obstacle),), more=False)
    findings: list[Finding] = []
    for number, (name, rule) in enumerate(RULES, start=1):
        on_rule(name, number, len(RULES))
        for finding in _check_rule(name, rule, snapshot):
            if len(findings) == limits.CHECK_FINDINGS_MAX:
                return Report(_measure(snapshot), tuple(findings), more=True)
            findings.append(finding)
    return Report(_measure(snapshot), tuple(findings), more=False)


def _check_rule(name: str, rule: Rule, snapshot: StoreSnapshot) -> Iterator[Finding]:
    """Run one rule. Data that is too damaged to be read becomes a finding, and the check goes on."""
    try:
        yield from rule(snapshot)
    except snapshot.read_errors as error:
        yield Finding(snapshot.storage, f"the rule {name!r} could not be checked: {snapshot.explain(error)}")


def _measure(snapshot: StoreSnapshot) -> Figures:
    try:
        return snapshot.measure()
    except snapshot.read_errors:
        return EMPTY
