"""Reducers as pure rules, and how workers combine rows by key."""

import json
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import BadOption, ReducerFailed
from mainstem.pipeline.jobs.snapshot.fold import ENTRY, RESET, Combiner
from mainstem.pipeline.jobs.snapshot.reducers import (
    Entry,
    Function,
    Message,
    StateProtocol,
    Tree,
    apply_entry,
    make_reducer,
    parse_path,
)
from mainstem.pipeline.jobs.targets import TargetSelector


def extract(reducer, value):
    return reducer.extract(value if isinstance(value, bytes) else json.dumps(value).encode())


@pytest.mark.parametrize(
    ("text", "path"),
    [("a", ("a",)), ("a.b", ("a", "b")), ("$.a.b", ("a", "b")), ("$", ()), ("", ()), ("/a.b/c~1d~0", ("a.b", "c/d~"))],
)
def test_paths_have_three_forms(text, path):
    assert parse_path(text) == path


@pytest.mark.parametrize("text", ["a..b", ".a.", "a."])
def test_a_path_without_a_name_is_refused(text):
    with pytest.raises(BadOption):
        parse_path(text)


def test_the_newest_value_of_a_key_wins_and_null_removes_it():
    lww = make_reducer("lww", ["id"], "body.text")
    assert extract(lww, {"id": "a", "body": {"text": "x"}}) == Entry("", "a", b'"x"')
    assert extract(lww, {"id": "a", "body": {"text": None}}) == Entry("", "a", None)
    assert extract(lww, {"id": "a", "body": 7}) == Entry("", "a", None)
    assert extract(lww, {"id": "a"}) == Entry("", "a", None)
    assert extract(lww, {"id": 1.5, "body": {"text": 1}}) == Entry("", "1.5", b"1")
    nothings: list[Any] = [{}, {"id": None}, {"id": []}, {"id": {"a": 1}}, [1], 7, "text", {"body": {"text": 1}}]
    for nothing in nothings:
        assert extract(lww, nothing) is None


def test_a_key_of_several_fields_is_an_array_of_them():
    lww = make_reducer("lww", ["shop", "order.id"])
    found = extract(lww, {"shop": "a", "order": {"id": 7}})
    assert (found.key, json.loads(found.value)) == ('["a",7]', {"shop": "a", "order": {"id": 7}})
    assert extract(lww, {"shop": "a"}) is None


@pytest.mark.parametrize(("mark", "gone"), [(True, True), (1, True), ("now", True), (False, False), (None, False)])
def test_a_tombstone_removes_the_key(mark, gone):
    lww = make_reducer("lww", ["k"], None, "deleted")
    found = extract(lww, {"k": "a", "deleted": mark})
    assert (found.value is None) is gone
    assert extract(lww, {"k": "a"}).value is not None


def test_a_key_with_half_a_surrogate_pair_is_ignored():
    assert extract(make_reducer("lww", ["k"]), b'{"k":"\\ud800","v":1}') is None


def change(operation, key="1", type_="user", **fields):
    return {"type": type_, "key": key, "headers": {"operation": operation}, **fields}


def test_the_state_protocol_is_materialised_as_its_specification_says():
    state = make_reducer("state")
    assert isinstance(state, StateProtocol)
    messages = [
        change("insert", value={"name": "Alice"}),
        change("insert", "2", value={"name": "Bob"}),
        change("update", value={"name": "Alice Smith"}, old_value={"name": "Alice"}),
        change("upsert", type_="flag", value=None),
        change("insert", type_="gone", value=1),
        change("delete", type_="gone"),
        change("update", "3"),
        change("insert", "", value=1),
        {"headers": {"control": "snapshot-start"}},
        {"value": 1},
        "text",
    ]
    table = state.begin(None)
    for message in messages:
        entry = extract(state, message)
        if entry is not None:
            apply_entry(table, entry)
    assert json.loads(state.encode(table)) == {
        "user": {"1": {"name": "Alice Smith"}, "2": {"name": "Bob"}},
        "flag": {"1": None},
    }
    apply_entry(table, extract(state, {"headers": {"control": "reset"}}))
    assert state.encode(table) == b"{}"


@pytest.mark.parametrize("name", ["lww", "state", "tree"])
def test_a_state_of_another_reducer_is_refused(name):
    reducer = make_reducer(name, ["k"] if name == "lww" else [])
    with pytest.raises(ReducerFailed):
        reducer.begin(b"[1,2]")


def test_an_action_that_does_not_fit_the_tree_is_ignored():
    tree = make_reducer("tree")
    assert isinstance(tree, Tree)
    state, known = tree.step({}, Message({"type": "set", "payload": {"target": "a", "value": 1}}, 1, 0, ""))
    assert (state, known) == ({"a": 1}, True)
    assert tree.step(state, Message({"type": "unset", "payload": {"target": "b"}}, 2, 0, "")) == (state, False)
    assert tree.step(state, Message(7, 3, 0, "")) == (state, False)


def test_the_result_of_a_function_must_be_json():
    function = make_reducer("builtins:max")
    assert isinstance(function, Function)
    assert function.encode({"a": 1}) == b'{"a":1}'
    with pytest.raises(ReducerFailed, match="cannot be written as JSON"):
        function.encode({1, object})
    with pytest.raises(ReducerFailed, match="failed at committed id 7"):
        function.step(None, Message({}, 7, 0, ""))


@pytest.mark.parametrize(
    ("name", "keys", "fault"),
    [
        ("lww", [], "lww needs --key"),
        ("lww", ["$"], "a field of the message"),
        ("state", ["k"], "are for lww"),
        ("newest", [], "there is no reducer 'newest'"),
        ("no.such.module:f", [], "cannot be imported"),
        ("json:no_such_function", [], "cannot be imported"),
        ("json:__name__", [], "is not a function"),
        ("json:", [], "there is no reducer"),
    ],
)
def test_an_invalid_reducer_is_refused(name, keys, fault):
    with pytest.raises(BadOption, match=fault):
        make_reducer(name, keys)


# Combining: however the log is divided into tasks, the combined result equals the fold in order


def batch_of(rows):
    size = len(rows)
    columns = {
        "committed_id": pa.array([row[0] for row in rows], pa.int64()),
        "position": pa.array([row[1] for row in rows], pa.int32()),
        "stream": pa.array([None] * size, pa.string()),
        "offset": pa.array([None] * size, pa.string()),
        "partitions": pa.array([["p"]] * size, pa.list_(pa.string())),
        "content_type": pa.array(["application/json"] * size),
        "data": pa.array([row[2] for row in rows], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_only_the_newest_entry_of_each_key_counts(seed, tasks):
    chance = random.Random(seed)
    state = make_reducer("state")
    assert isinstance(state, StateProtocol)
    messages = [
        {"headers": {"control": "reset"}}
        if chance.random() < 0.1
        else change(chance.choice(["insert", "delete"]), chance.choice("ab"), chance.choice("tu"), value=number)
        for number in range(chance.randint(1, 30))
    ]
    rows = [(number // 2 + 1, number % 2, json.dumps(message).encode()) for number, message in enumerate(messages)]
    expected = state.begin(None)
    for _, _, data in rows:
        entry = state.extract(data)
        assert entry is not None
        apply_entry(expected, entry)
    cuts = sorted(chance.randint(0, len(rows)) for _ in range(tasks - 1))
    pieces = [rows[start:end] for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    combined = []
    for piece in pieces:
        for batch in Combiner(state, TargetSelector(("p",))).combine([batch_of(piece)] if piece else []):
            combined += batch.to_pylist()
    newest: dict[Any, Any] = {}
    for row in combined:
        if row["role"] in (RESET, ENTRY):
            name, place = (row["role"], row["group"], row["key"]), (row["committed_id"], row["position"])
            if name not in newest or newest[name][0] < place:
                newest[name] = (place, row["value"])
    cleared = newest.pop((RESET, None, None), ((0, 0), None))[0]
    table: dict[str, dict[str, bytes]] = {}
    for (_, group, key), (place, value) in newest.items():
        if place > cleared:
            apply_entry(table, Entry(group, key, value))
    assert state.encode(table) == state.encode(expected)
