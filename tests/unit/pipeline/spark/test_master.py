"""Which Spark master is used."""

import pytest

from mainstem.errors import BadOption
from mainstem.pipeline.spark.master import MASTER_VARIABLE, choose_master


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2,3]", "yarn", "spark://h:1", "sc://h:2"])
def test_a_valid_spark_master_is_passed_on(master, monkeypatch):
    monkeypatch.setenv(MASTER_VARIABLE, master)
    assert choose_master(None) == choose_master(master) == master


@pytest.mark.parametrize("master", ["nonsense", "local[x]", "local[]", "http://h:1", "spark://"])
def test_an_invalid_master_is_refused_before_java_starts(master):
    with pytest.raises(BadOption, match="is not a Spark master"):
        choose_master(master)
