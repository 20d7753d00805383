"""What a job checks before it starts Spark."""

import tomllib
from pathlib import Path

import pytest

from mainstem import __version__
from mainstem.errors import RequestRefused, VersionMismatch
from mainstem.pipeline.start_checks import (
    SPARK_BELOW,
    SPARK_MIN,
    Caller,
    check_caller,
    check_client_id,
    check_spark_version,
    check_versions,
)

URL = "http://server"
PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_an_administrator_may_run_jobs():
    check_caller(Caller(__version__, authenticates=True, admin=True), URL)
    with pytest.raises(RequestRefused, match=r"lacks the admin claim.*mainstem token --admin") as refused:
        check_caller(Caller(__version__, authenticates=True, admin=False), URL)
    assert refused.value.facts["refused"] == 403


def test_events_need_a_token_for_their_client():
    check_client_id(Caller("0.1.0", authenticates=False, admin=True), URL, None)
    check_client_id(Caller("0.1.0", authenticates=True, admin=True, client_id="c"), URL, "c")
    with pytest.raises(RequestRefused, match="pass --client-id c"):
        check_client_id(Caller("0.1.0", authenticates=True, admin=True, client_id="c"), URL, None)
    with pytest.raises(RequestRefused, match="names no client"):
        check_client_id(Caller("0.1.0", authenticates=True, admin=True), URL, "c")


@pytest.mark.parametrize("version", ["0.1.0", "0.1.9", "0.3.0"])
def test_versions_near_each_other_work_together(version):
    check_versions(version, URL)


@pytest.mark.parametrize(("version", "older"), [("0.4.0", "this program"), ("1.0.0", "this program")])
def test_versions_far_from_each_other_do_not(version, older):
    with pytest.raises(VersionMismatch, match=f"runs Mainstem {version}, and this is {__version__}: upgrade {older}"):
        check_versions(version, URL)


def test_the_installed_spark_fits_and_the_range_is_that_of_the_package():
    check_spark_version()
    least, below = (".".join(map(str, version)) for version in (SPARK_MIN, SPARK_BELOW))
    extra = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]["spark"]
    assert any(line.startswith("pyspark") and f">={least},<{below}" in line for line in extra)
