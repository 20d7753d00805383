"""The page of metrics says what the catalogue says."""

import re

import pytest

from mainstem.metrics.catalogue import Metrics
from mainstem.metrics.instruments import Kind
from mainstem.metrics.pipeline import PipelineMetrics
from tests.docs.metrics_page import PAGE, write_page

FAMILIES = [*Metrics().families, *PipelineMetrics().families]


def test_the_page_is_made_from_the_code():
    assert PAGE.read_text() == write_page(), "run: python -m tests.docs.metrics_page"


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_names_follow_the_conventions_of_prometheus(family):
    assert re.fullmatch(r"(?:mainstem|process|python)_[a-z][a-z0-9_]*", family.name)
    assert family.name.endswith("_total") == (family.kind is Kind.COUNTER)
    assert re.match(r"[A-Z1]", family.meaning)
    assert family.meaning.endswith(".")
    if family.kind is Kind.HISTOGRAM:
        assert family.name.endswith(("_seconds", "_commands"))


def test_every_name_is_there_once():
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


def test_labels_never_name_a_stream_a_partition_or_a_client():
    labels = {label for family in FAMILIES for label in family.labels}
    assert not labels & {"path", "stream", "partition", "client", "client_id", "subject", "address", "id"}


def test_no_label_is_one_that_prometheus_adds():
    """It would call ours `exported_job`."""
    assert not {label for family in FAMILIES for label in family.labels} & {"job", "instance"}
