"""A figure of the benchmark is judged by what the same run measured, and by nothing else."""

import pytest
from bench.growth_scenarios import FIGURES, SIZES
from bench.measurements import Measurement
from bench.results import Results
from bench.targets import TARGETS, AtLeast, Below, TimesElectric, judge_measurement


def collect(**peers):
    """Return the results of peers, each of which has (name, better, samples)."""
    results = Results()
    for peer, rows in peers.items():
        for name, better, samples in rows:
            for sample in samples:
                results.add(peer, Measurement(name, name, sample, "", better))
    return results


@pytest.mark.parametrize(
    ("better", "mine", "theirs", "ratio"),
    [("more", 50.0, 100.0, 0.5), ("more", 0.0, 100.0, 0.0), ("less", 4.0, 1.0, 0.25), ("less", 1.0, 4.0, 4.0)],
)
def test_a_ratio_says_how_many_times_better_we_are(better, mine, theirs, ratio):
    results = collect(mainstem=[("x", better, [mine])], electric=[("x", better, [theirs])])
    assert results.rows["x"].find_ratio("mainstem", "electric") == ratio


@pytest.mark.parametrize(("better", "mine", "theirs"), [("more", 5.0, 0.0), ("less", 0.0, 5.0), ("less", -1.0, 5.0)])
def test_a_figure_that_is_not_positive_has_no_ratio_to_it(better, mine, theirs):
    results = collect(mainstem=[("x", better, [mine])], electric=[("x", better, [theirs])])
    assert results.rows["x"].find_ratio("mainstem", "electric") is None


def test_ratio_and_spread_come_from_medians():
    results = collect(mainstem=[("x", "more", [1, 60, 50])], electric=[("x", "more", [100, 100, 900])])
    assert results.rows["x"].find_ratio("mainstem", "electric") == 0.5
    assert results.rows["x"].find_spread("mainstem") == 59 / 50


@pytest.mark.parametrize(("mine", "mark"), [(65.0, "pass"), (64.9, "MISS")])
def test_a_rate_is_judged_beside_electric(mine, mark):
    assert TARGETS["append-c64"] == TimesElectric(0.65)
    rows = [("append-c64", "more", [mine])], [("append-c64", "more", [100.0])]
    assert judge_measurement("append-c64", collect(mainstem=rows[0], electric=rows[1])) == mark
    assert judge_measurement("append-c64", collect(mainstem=rows[0], node=rows[1])) == "-"
    assert judge_measurement("append-c64", collect(mainstem=rows[0])) == "-"
    assert judge_measurement("append-c64", collect(electric=rows[1])) == "-"


@pytest.mark.parametrize(("mine", "mark"), [(1.25, "pass"), (1.26, "MISS")])
def test_a_latency_is_judged_beside_electric(mine, mark):
    assert TARGETS["sse-200-p50"] == TimesElectric(0.8)
    results = collect(mainstem=[("sse-200-p50", "less", [mine])], electric=[("sse-200-p50", "less", [1.0])])
    assert judge_measurement("sse-200-p50", results) == mark


@pytest.mark.parametrize(
    ("name", "better", "first", "value", "mark"),
    [
        ("growth-append-10m", "more", 100.0, 85.0, "pass"),
        ("growth-append-10m", "more", 100.0, 84.0, "MISS"),
        ("growth-append-10m", "more", 100.0, 300.0, "pass"),
        ("growth-rss-10m", "less", 100.0, 114.0, "pass"),
        ("growth-rss-10m", "less", 100.0, 116.0, "MISS"),
        ("growth-rss-10m", "less", 100.0, 30.0, "pass"),
    ],
)
def test_growth_is_judged_by_the_first_figure(name, better, first, value, mark):
    rows = [(name.replace("10m", "0"), better, [first]), (name, better, [value])]
    assert judge_measurement(name, collect(mainstem=rows)) == mark
    assert judge_measurement(name, collect(mainstem=rows[1:])) == "-"


def test_every_size_after_the_first_is_judged():
    names = {f"growth-{figure}-{size}" for figure in FIGURES for size in SIZES}
    assert names - TARGETS.keys() == {f"growth-{figure}-0" for figure in FIGURES if figure != "sse-append"}


@pytest.mark.parametrize(
    ("name", "target", "value", "mark"),
    [
        ("rss-sse", Below(6), 5.9, "pass"),
        ("rss-sse", Below(6), 6.0, "MISS"),
        ("sync-50x4-times", AtLeast(3.7), 3.7, "pass"),
        ("sync-50x4-times", AtLeast(3.7), 3.6, "MISS"),
    ],
)
def test_other_bounds_need_no_other_figure(name, target, value, mark):
    assert TARGETS[name] == target
    assert judge_measurement(name, collect(mainstem=[(name, "more", [value])])) == mark
    assert judge_measurement(name, collect(electric=[(name, "more", [value])])) == "-"


def test_a_figure_without_target_is_not_judged():
    assert judge_measurement("sync-one", collect(mainstem=[("sync-one", "more", [1.0])])) == "-"


def test_few_targets_are_absolute_speeds():
    """Other bounds are for ratios, memory, disk space, and goals of the pipeline, the browser and runs."""
    bounds = {name for name, target in TARGETS.items() if isinstance(target, AtLeast | Below)}
    absolute = {"spark-read", "spark-first", "audit", "browser-view", "ai-first", "ai-stop", "ai-remote-stop"}
    assert {name for name in bounds - absolute if not name.startswith("rss-") and not name.endswith("-times")} == {
        "ai-crowd-growth",
        "archive-growth",
        "archive-memory",
        "archive-rewrite",
        "fork-space",
        "metrics-kept",
        "spark-appends-kept",
        "spark-columns-parquet",
        "spark-read-parquet",
    }
