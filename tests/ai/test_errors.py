"""The guide lists every error of runs, with its code."""

import re
from pathlib import Path

from mainstem.ai import errors
from mainstem.ai.routes import STATUSES
from mainstem.client import ClientError

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "ai-streams.md"
CLASSES = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ClientError)} - {
    ClientError
}


def test_the_guide_lists_every_error_with_its_code():
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| ", GUIDE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted((kind.__name__, kind.code) for kind in CLASSES)


def test_every_error_that_a_visitor_can_cause_has_a_status():
    inside = {errors.RunsNotOpen, errors.StreamInUse}  # of the program itself; visitors get `runs_unavailable`
    assert CLASSES - STATUSES.keys() == inside
