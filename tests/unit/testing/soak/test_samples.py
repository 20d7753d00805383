import pytest

from mainstem.testing.soak.samples import Sample, measure_growth

FLAT = Sample(life=2, memory_bytes=100_000_000, disk_bytes=50_000_000, files=1_000, threads=5, tasks=2_000)


def grown(samples):
    return [growth.measure for growth in measure_growth(samples) if not growth.flat]


def test_a_server_that_uses_the_same_all_the_time_is_flat():
    assert grown([FLAT] * 40) == []
    assert len(measure_growth([FLAT] * 40)) == 5


@pytest.mark.parametrize(
    ("measure", "per_sample"),
    [("memory_bytes", 1_000_000), ("disk_bytes", 1_000_000), ("files", 5), ("threads", 1), ("tasks", 5)],
)
def test_steady_growth_is_found(measure, per_sample):
    samples = [FLAT._replace(**{measure: getattr(FLAT, measure) + number * per_sample}) for number in range(40)]
    assert grown(samples) == [measure]


def test_warming_up_is_not_growth():
    cold = FLAT._replace(memory_bytes=10_000_000, threads=1)
    assert grown([cold] * 10 + [FLAT] * 30) == []


def test_a_single_peak_is_not_growth():
    assert grown([FLAT] * 39 + [FLAT._replace(memory_bytes=900_000_000)]) == []


def test_only_the_last_life_counts():
    assert grown([FLAT._replace(life=1, memory_bytes=10_000_000)] * 100 + [FLAT] * 8) == []


def test_a_short_life_says_nothing():
    assert measure_growth([FLAT] * 3) == []
