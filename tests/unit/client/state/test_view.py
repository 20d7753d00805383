from typing import Any

import msgspec
import pytest

from mainstem.client import BadArgument
from mainstem.client.state import Collection, Control, RowChanged, StateTooLarge, View
from mainstem.client.state.messages import Malformed, parse_message

users = Collection("user", dict[str, Any], key="id")
settings = Collection("setting", str)


def message(operation, key, value=None, kind="setting"):
    body = {} if operation == "delete" else {"value": value}
    return {"type": kind, "key": key, **body, "headers": {"operation": operation}}


def control(kind):
    return {"headers": {"control": kind}}


def apply(view, *messages):
    return view.apply([view.decode(parse_message(one), msgspec.json.encode(one.get("value"))) for one in messages])


def test_changes_are_applied_in_order():
    view = View(settings)
    changes = apply(
        view,
        message("insert", "theme", "dark"),
        message("insert", "size", "12"),
        message("update", "theme", "light"),
        message("delete", "size"),
        message("upsert", "font", "serif"),
    )
    assert dict(view[settings]) == {"theme": "light", "font": "serif"}
    assert all(isinstance(change, RowChanged) for change in changes)
    assert [(c.operation, c.key, c.value, c.old_value) for c in changes if isinstance(c, RowChanged)] == [
        ("insert", "theme", "dark", None),
        ("insert", "size", "12", None),
        ("update", "theme", "light", "dark"),
        ("delete", "size", None, "12"),
        ("insert", "font", "serif", None),
    ]


@pytest.mark.parametrize("operation", ["insert", "update", "upsert"])
def test_a_value_is_stored_whether_or_not_the_row_exists(operation):
    view = View(settings)
    [first] = apply(view, message(operation, "theme", "dark"))
    [second] = apply(view, message(operation, "theme", "light"))
    assert isinstance(first, RowChanged)
    assert isinstance(second, RowChanged)
    assert (first.operation, second.operation) == ("insert", "update")
    assert dict(view[settings]) == {"theme": "light"}


def test_a_delete_of_a_missing_row_changes_nothing():
    view = View(settings)
    assert apply(view, message("delete", "theme")) == []
    assert apply(view, message("insert", "theme", "dark"), message("delete", "theme"), message("delete", "theme"))
    assert len(view[settings]) == 0
    assert view.size_bytes == 0


def test_types_have_rows_of_their_own():
    view = View(settings, users)
    apply(view, message("insert", "1", "dark"), message("insert", "1", {"id": "1", "name": "Ada"}, "user"))
    assert view[settings]["1"] == "dark"
    assert view[users]["1"] == {"id": "1", "name": "Ada"}


def test_a_type_without_a_collection_is_ignored_and_noted():
    view = View(settings)
    assert apply(view, message("insert", "1", 5, "number")) == []
    assert view.ignored_type == "number"
    apply(view, control("reset"))
    assert view.ignored_type is None


def test_a_reset_in_the_middle_removes_all_rows_of_all_types():
    view = View(settings, users)
    changes = apply(
        view,
        message("insert", "theme", "dark"),
        message("insert", "1", {"id": "1"}, "user"),
        control("reset"),
        message("update", "theme", "light"),
    )
    assert dict(view[settings]) == {"theme": "light"}
    assert len(view[users]) == 0
    assert changes[2] == Control("reset")
    assert isinstance(changes[3], RowChanged)
    assert (changes[3].operation, changes[3].old_value) == ("insert", None)


@pytest.mark.parametrize(
    "controls",
    [
        ["snapshot-start", "snapshot-end"],
        ["snapshot-end", "snapshot-start"],
        ["snapshot-start", "snapshot-start"],
        ["snapshot-end", "snapshot-end"],
    ],
)
def test_the_limits_of_snapshots_remove_no_row_even_when_they_are_interleaved(controls):
    view = View(settings)
    first, second = map(control, controls)
    apply(
        view, message("insert", "old", "1"), first, message("insert", "new", "2"), second, message("insert", "x", "3")
    )
    assert dict(view[settings]) == {"old": "1", "new": "2", "x": "3"}


def test_rows_are_a_live_read_only_mapping():
    view = View(settings)
    rows = view[settings]
    assert "theme" not in rows
    apply(view, message("insert", "theme", "dark"))
    assert rows.get("theme") == "dark"
    assert rows.get("other") is None
    assert "theme" in rows
    assert [*rows] == ["theme"]
    assert [*rows.items()] == [("theme", "dark")]
    assert repr(rows) == "<1 rows of Collection('setting', str, key=None)>"
    with pytest.raises(TypeError):
        rows["theme"] = "light"  # type: ignore[index]


def test_rows_that_are_too_large_end_the_state():
    view = View(settings, bytes_max=1_000)
    apply(view, message("insert", "theme", "x" * 700))
    apply(view, message("update", "theme", "y" * 700))  # the old value counts no longer
    with pytest.raises(StateTooLarge, match="more than 1000 bytes"):
        apply(view, message("insert", "huge", "z" * 700))


def test_many_small_rows_are_too_large_too():
    view = View(settings, bytes_max=10_000)
    with pytest.raises(StateTooLarge):
        apply(view, *(message("insert", str(number), "") for number in range(101)))


def test_a_value_that_does_not_fit_is_malformed():
    with pytest.raises(Malformed, match="Expected `str`, got `int`"):
        apply(View(settings), message("insert", "theme", 5))


def test_a_view_exports_values_as_they_were_written():
    class Name(msgspec.Struct):
        name: str

    names = Collection("name", Name)
    view = View(names)
    written = b'{"name": "Ada", "more": 12345678901234567890, "x": 1.0}'
    parsed = parse_message(message("insert", "1", msgspec.json.decode(written), "name"))
    view.apply([view.decode(parsed, written)])
    assert [*view.export()] == [(names, "1", written)]


def test_collections_must_be_known_and_distinct():
    with pytest.raises(BadArgument, match="at least one"):
        View()
    with pytest.raises(BadArgument, match="two collections have the type 'setting'"):
        View(settings, Collection("setting", str))
    with pytest.raises(BadArgument, match="was not opened with"):
        View(settings)[users]
    with pytest.raises(BadArgument, match="was not opened with"):
        View(settings)[Collection("setting", int)]
