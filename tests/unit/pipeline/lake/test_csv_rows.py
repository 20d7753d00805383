"""CSV as Spark reads it. The expected values are what Spark 4.3 returned for the same text."""

import msgspec
import pytest

from mainstem.errors import BadOption, BadRow
from mainstem.pipeline.lake.csv_rows import check_rows, infer_types, make_parser, name_columns, split_rows
from mainstem.pipeline.lake.spark_types import SparkNeeded


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (b'a,b\n"",\n"x",y\n', [["a", "b"], ["", ""], ["x", "y"]]),
        (b'a,b\nx"y,"z"\n', [["a", "b"], ['x"y', "z"]]),
        (b'a,b\r\n"p\r\nq",z\r\n', [["a", "b"], ["p\nq", "z"]]),
        (b"a,b\n\n1,2\n\n", [["a", "b"], ["1", "2"]]),
        (b"a,b\n , x \n", [["a", "b"], [" ", " x "]]),
        (b'a\n\n""\nx\n', [["a"], [""], ["x"]]),
        (b"\xef\xbb\xbfa,b\n1,2", [["a", "b"], ["1", "2"]]),
        (b'a,b\n"\\",2\n', [["a", "b"], ["\\", "2"]]),
        (b'a,b\nx,"y""z"\n', [["a", "b"], ["x", 'y"z']]),
    ],
)
def test_fields_and_lines(data, rows):
    assert split_rows(data) == rows


@pytest.mark.parametrize(
    "data",
    [b'a\n"x"y\n', b'a\n"p\r\nq"\n', b"a\n\xff\n", b"a\n\0\n", b'a\n "x"\n', b"a\nb\rc\n", b'a\n"open\n', b"a\n \n"],
)
def test_what_spark_reads_in_its_own_way_is_left_to_it(data):
    with pytest.raises(SparkNeeded):
        split_rows(data)


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["1", "-1", "+1", "007", "2147483647"], "integer"),
        (["1", "2147483648"], "long"),
        (["1", "2.5", ".5", "1e5", "1.5E-3"], "double"),
        (["true", "FALSE", ""], "boolean"),
        (["2026-01-31"], "date"),
        (
            ["2026-01-31", "2026-01-31T10:11:12Z", "2026-01-31 10:11:12.123456", "2026-01-31T10:11:12+02:00"],
            "timestamp",
        ),
        (["1", "x"], "string"),
        (["1", "true"], "string"),
        (["1.5", "2026-01-31"], "string"),
        (["10:11", "x"], "string"),
        (["12 Main St", "nan", "null", "yes"], "string"),
        ([""], "string"),
    ],
)
def test_types_are_inferred_as_by_spark(values, type_):
    found = msgspec.json.decode(infer_types(["a"], iter([[value] for value in values])))
    assert found["fields"] == [{"name": "a", "type": type_, "nullable": True, "metadata": {}}]


@pytest.mark.parametrize(
    "value",
    [
        "10:11",
        "5.",
        "1d",
        "NaN",
        "Inf",
        " 1",
        "2026-1-3",
        "2026-02-30",
        "9223372036854775808",
        "T10:11",
        "0x10",
        "1-2",
        "\u0661",
    ],
)
def test_types_that_are_not_obvious_are_left_to_spark(value):
    with pytest.raises(SparkNeeded, match="column 'a'"):
        infer_types(["a"], iter([[value]]))


def test_lines_that_do_not_fit_are_refused():
    rows = split_rows(b"n,shop\n1,a,too,many\n")
    with pytest.raises(BadRow, match=r"x\.csv has a line that does not fit its header \(1,a,too,many\)"):
        check_rows(rows, name_columns(rows, header=True), "x.csv", header=True)
    with pytest.raises(BadOption, match="another header than the first file"):
        check_rows([["shop", "n"]], ["n", "shop"], "x.csv", header=True)
    with pytest.raises(SparkNeeded):
        check_rows([["N", "shop"]], ["n", "shop"], "x.csv", header=True)
    with pytest.raises(SparkNeeded):
        name_columns([["a", "A"]], header=True)
    assert name_columns([["x", "y"]], header=False) == ["_c0", "_c1"]


def test_a_value_that_does_not_fit_a_declared_type_is_left_to_spark():
    assert make_parser("n", "integer")("007") == 7
    with pytest.raises(SparkNeeded, match="column 'n'"):
        make_parser("n", "integer")("2147483648")
    with pytest.raises(SparkNeeded, match="decimal"):
        make_parser("n", "decimal(3,1)")
