from mainstem.metrics.instruments import OTHER, Counter, Family, Histogram, Kind


def make_family(children_max: int = 100) -> Family[Counter]:
    return Family("things_total", Kind.COUNTER, "Things.", ("colour", "size"), Counter, children_max)


def test_equal_label_values_lead_to_the_same_instrument():
    family = make_family()
    family.of("red", "small").add(2)
    family.of("red", "small").add()
    family.of("red", "large").add()
    assert {values: child.value for values, child in family.children.items()} == {
        ("red", "small"): 3,
        ("red", "large"): 1,
    }


def test_above_the_limit_all_further_values_share_one_instrument():
    family = make_family(children_max=3)
    for number in range(1000):
        family.of("red", str(number)).add()
    assert len(family.children) == 4
    assert family.of(OTHER, OTHER).value == 997
    assert family.of("red", "2").value == 1


def test_a_value_at_a_bound_counts_as_below_it():
    histogram = Histogram((0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 1.0, 7.0):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1]
    assert histogram.sum == 8.65
