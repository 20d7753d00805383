import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.sync.validation.tree import STATE_LEVELS_MAX, TARGET_KEYS_MAX, TreeConflict, apply_action, tree_validator
from tests.support.examples import examples

EMPTY_TREE: dict[str, Any] = {"items": {}, "tree": []}


def action(kind, **payload):
    return {"type": kind, "payload": payload}


def push(node_id, parent="_root", position="last", **fields):
    return action(
        "treePush", target="t", value={"id": node_id} | fields, options={"parent": parent, "position": position}
    )


def move(node_id, **options):
    return action("treeMove", target="t", options={"id": node_id} | options)


def replay(*events, state=None):
    state = {} if state is None else state
    for event in events:
        state = apply_action(state, event)
    return state


def outline(state, target="t"):
    """Return the tree as nested pairs, which are easy to read in a failed assertion."""

    def of(nodes):
        return [(node["id"], of(node["children"])) if node["children"] else node["id"] for node in nodes]

    return of(state[target]["tree"])


NEW_TREE = action("set", target="t", value=EMPTY_TREE)
FOREST = replay(NEW_TREE, push("a", name="A"), push("b"), push("a1", "a"), push("a2", "a"), push("a11", "a1"))


def errors(event):
    return [error.field for error in tree_validator(event, [])]


# Shape


@pytest.mark.parametrize(
    "event",
    [
        action("set", target="a", value=1),
        action("set", target="a.b.c", value=None),
        action("set", target=["a.b", "c"], value={"x": []}),
        action("set", target="a", value=[1], options={"replace": True}),
        action("set", target="a", value={}, options={}),
        action("unset", target="a"),
        action("treePush", target="t", value={"id": "x"}),
        push("x", "y", {"after": "z"}, anything=[1]),
        push("x", "y", {"before": "z"}),
        action("treeDelete", target="t", options={"id": "x"}),
        action("treeUpdate", target="t", value={"name": "n"}, options={"id": "x"}),
        action("treeUpdate", target="t", value={"id": "x"}, options={"id": "x", "replace": True}),
        move("x"),
        move("x", parent="_root", position="first"),
        action("unset", target="a") | {"meta": {"beside": "the payload"}},
    ],
)
def test_each_action_is_accepted_in_its_shape(event):
    assert tree_validator(event, []) == []


@pytest.mark.parametrize("kind", ["event", "init", "", "Set", None, 3, ["set"]])
def test_only_the_six_actions_are_accepted(kind):
    assert errors({"type": kind, "payload": {"target": "a", "value": 1}}) == ["event.type"]


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({"type": "set"}, "event.payload"),
        ({"type": "set", "payload": []}, "event.payload"),
        (action("set", target="a"), "event.payload.value"),
        (action("set", value=1), "event.payload.target"),
        (action("set", target="a", value=1, options={"replace": 1}), "event.payload.options.replace"),
        (action("set", target="a", value=1, options=None), "event.payload.options"),
        (action("set", target="a", value=1, extra=1), "event.payload.extra"),
        (action("set", target="a", value=[1]), "event.payload.value"),
        (action("unset", target="a", value=1), "event.payload.value"),
        (action("treePush", target="t", value={"name": "x"}), "event.payload.value.id"),
        (action("treePush", target="t", value="x"), "event.payload.value"),
        (push("_root"), "event.payload.value.id"),
        (push(""), "event.payload.value.id"),
        (push(7), "event.payload.value.id"),
        (push("x", parent=None), "event.payload.options.parent"),
        (push("x", position="middle"), "event.payload.options.position"),
        (push("x", position={"after": "a", "before": "b"}), "event.payload.options.position"),
        (push("x", position={}), "event.payload.options.position"),
        (push("x", position=0), "event.payload.options.position"),
        (action("treeDelete", target="t"), "event.payload.options"),
        (action("treeDelete", target="t", options={}), "event.payload.options.id"),
        (action("treeDelete", target="t", options={"id": "_root"}), "event.payload.options.id"),
        (action("treeDelete", target="t", options={"id": "x", "deep": True}), "event.payload.options.deep"),
        (action("treeUpdate", target="t", options={"id": "x"}), "event.payload.value"),
        (action("treeUpdate", target="t", value={"id": "y"}, options={"id": "x"}), "event.payload.value.id"),
        (move("x", parent="x"), "event.payload.options.parent"),
        (move("x", position={"after": "x"}), "event.payload.options.position"),
        (move("x", postion="last"), "event.payload.options.postion"),
    ],
)
def test_an_invalid_shape_is_refused_at_its_field(event, field):
    assert errors(event) == [field]


@pytest.mark.parametrize(
    "target", ["", ".", "a.", ".a", "a..b", [], [""], ["a", 1], 1, None, {}, "a" + ".a" * TARGET_KEYS_MAX]
)
def test_a_target_is_a_path_of_non_empty_keys(target):
    assert errors(action("unset", target=target)) == ["event.payload.target"]


def test_a_target_path_has_a_length_limit():
    assert errors(action("unset", target="a" + ".a" * (TARGET_KEYS_MAX - 1))) == []


# set and unset


def test_set_creates_the_objects_on_its_path():
    assert replay(action("set", target="a.b.c", value=1)) == {"a": {"b": {"c": 1}}}


def test_a_list_target_names_keys_with_dots():
    assert replay(action("set", target=["a.b", "c"], value=1)) == {"a.b": {"c": 1}}


def test_set_merges_one_level_of_an_object_unless_replace_is_true():
    state = {"a": {"x": {"old": 1}, "y": 2}}
    value = {"x": {"new": 3}}
    assert replay(action("set", target="a", value=value), state=state) == {"a": {"x": {"new": 3}, "y": 2}}
    assert replay(action("set", target="a", value=value, options={"replace": True}), state=state) == {"a": value}


def test_set_replaces_a_value_that_is_not_an_object():
    assert replay(action("set", target="a", value={"x": 1}), state={"a": 5}) == {"a": {"x": 1}}


def test_unset_removes_one_key():
    assert replay(action("unset", target="a.b"), state={"a": {"b": 1, "c": 2}}) == {"a": {"c": 2}}


@pytest.mark.parametrize("target", ["x", "a.x", "a.b.x", "l.0"])
def test_unset_needs_an_existing_target(target):
    with pytest.raises(TreeConflict):
        apply_action({"a": {"b": 1}, "l": [1]}, action("unset", target=target))


@pytest.mark.parametrize("target", ["a.b.c", "l.x.y"])
def test_a_path_leads_through_objects_only(target):
    with pytest.raises(TreeConflict):
        apply_action({"a": {"b": 1}, "l": []}, action("set", target=target, value=1))


# Trees


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        ("first", ["x", "a1", "a2"]),
        ("last", ["a1", "a2", "x"]),
        ({"after": "a1"}, ["a1", "x", "a2"]),
        ({"after": "a2"}, ["a1", "a2", "x"]),
        ({"before": "a1"}, ["x", "a1", "a2"]),
        ({"before": "a2"}, ["a1", "x", "a2"]),
    ],
)
def test_a_node_is_inserted_at_its_position(position, expected):
    pushed = replay(push("x", "a", position), state=FOREST)
    moved = replay(push("x"), move("x", parent="a", position=position), state=FOREST)
    for state in (pushed, moved):
        assert [node["id"] for node in state["t"]["tree"][0]["children"]] == expected


def test_without_options_a_node_is_inserted_first_at_the_top():
    assert outline(replay(action("treePush", target="t", value={"id": "x"}), state=FOREST))[0] == "x"
    assert outline(replay(move("a2"), state=FOREST)) == ["a2", ("a", [("a1", ["a11"])]), "b"]


def test_the_items_hold_the_fields_except_the_id():
    assert FOREST["t"]["items"]["a"] == {"name": "A"}


def test_moving_a_node_moves_its_descendants():
    assert outline(replay(move("a1", parent="b"), state=FOREST)) == [("a", ["a2"]), ("b", [("a1", ["a11"])])]


def test_a_move_within_one_parent_changes_only_the_order():
    moved = replay(move("a1", parent="a", position={"after": "a2"}), state=FOREST)
    assert outline(moved) == [("a", ["a2", ("a1", ["a11"])]), "b"]


def test_deleting_a_node_deletes_its_descendants():
    state = replay(action("treeDelete", target="t", options={"id": "a1"}), state=FOREST)
    assert outline(state) == [("a", ["a2"]), "b"]
    assert state["t"]["items"].keys() == {"a", "a2", "b"}


def test_an_update_merges_or_replaces_the_fields():
    merged = replay(action("treeUpdate", target="t", value={"id": "a", "n": 1}, options={"id": "a"}), state=FOREST)
    assert merged["t"]["items"]["a"] == {"name": "A", "n": 1}
    replaced = action("treeUpdate", target="t", value={"n": 1}, options={"id": "a", "replace": True})
    assert replay(replaced, state=FOREST)["t"]["items"]["a"] == {"n": 1}


def test_a_deep_target_can_hold_a_tree_next_to_other_keys():
    state = replay(
        action("set", target="doc.files", value=EMPTY_TREE | {"title": "Files"}),
        action("treePush", target="doc.files", value={"id": "x"}),
        action("set", target="doc.files.title", value="Papers"),
        action("set", target="doc.files.items.x.name", value="X"),
    )
    assert state == {
        "doc": {"files": {"items": {"x": {"name": "X"}}, "tree": [{"id": "x", "children": []}], "title": "Papers"}}
    }


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (push("a"), "already"),
        (push("x", "nobody"), "the node 'nobody' does not exist"),
        (push("x", "a", {"after": "b"}), "not a child"),
        (push("x", "a", {"before": "a11"}), "not a child"),
        (action("treeDelete", target="t", options={"id": "x"}), "the node 'x' does not exist"),
        (action("treeUpdate", target="t", value={}, options={"id": "x"}), "the node 'x' does not exist"),
        (move("x"), "the node 'x' does not exist"),
        (move("a", parent="nobody"), "the node 'nobody' does not exist"),
        (move("a", parent="a1"), "below its own descendant"),
        (move("a", parent="a11"), "below its own descendant"),
        (move("a", parent="b", position={"after": "a1"}), "not a child"),
        (action("treePush", target="nowhere", value={"id": "x"}), "no tree at 'nowhere'"),
        (action("treePush", target="far.away", value={"id": "x"}), "no value at 'far.away'"),
        (action("treeDelete", target="t.items", options={"id": "a"}), "no tree at 't.items'"),
    ],
)
def test_an_action_that_does_not_fit_the_state_is_a_conflict(event, reason):
    with pytest.raises(TreeConflict, match=reason):
        apply_action(FOREST, event)


@pytest.mark.parametrize(
    "event", [{}, {"type": "set"}, action("treeMove", target="t", options={}), move("a", parent="a")]
)
def test_an_invalid_action_is_a_conflict_too(event):
    with pytest.raises(TreeConflict):
        apply_action(FOREST, event)


NODE = {"id": "x", "children": []}


@pytest.mark.parametrize(
    "event",
    [
        action("set", target="n", value={"items": {}, "tree": [NODE]}),
        action("set", target="n", value={"items": {"x": {}}, "tree": []}),
        action("set", target="n", value={"items": {"x": {}}, "tree": [NODE, NODE]}),
        action("set", target="n", value={"items": {"x": {}}, "tree": [NODE | {"children": [NODE]}]}),
        action("set", target="n", value={"items": {"x": 1}, "tree": [NODE]}),
        action("set", target="n", value={"items": {"x": {}}, "tree": [{"id": "x"}]}),
        action("set", target="n", value={"items": {"x": {}}, "tree": [NODE | {"more": 1}]}),
        action("set", target="n", value={"items": {"_root": {}}, "tree": [{"id": "_root", "children": []}]}),
        action("set", target="n", value={"items": {}, "tree": ["x"]}),
        action("set", target="n", value={"deep": [{"items": {}, "tree": [NODE]}]}),
        action("set", target="half.tree", value=[NODE], options={"replace": True}),
        action("set", target="t", value={"tree": []}),
        action("set", target="t.items.x", value={}),
        action("set", target="t.items.a", value=1),
        action("unset", target="t.items.a"),
        push("x", inner={"items": {}, "tree": [NODE]}),
        action("treeUpdate", target="t", value={"items": {}, "tree": [NODE]}, options={"id": "a"}),
    ],
)
def test_no_action_leaves_a_malformed_tree(event):
    with pytest.raises(TreeConflict):
        replay(event, state=FOREST | {"half": {"items": {}}})


def test_a_tree_or_a_part_of_it_can_be_unset():
    assert replay(action("unset", target="t"), state=FOREST) == {}
    assert replay(action("unset", target="t.items"), state=FOREST).keys() == {"t"}


def test_the_given_state_is_not_changed():
    before = copy.deepcopy(FOREST)
    for event in (
        push("x", "a1"),
        move("a1", parent="b"),
        action("treeDelete", target="t", options={"id": "a"}),
        action("treeUpdate", target="t", value={"n": 1}, options={"id": "a"}),
        action("set", target="t.items.a.name", value="B"),
        action("unset", target="t.items.a.name"),
    ):
        assert apply_action(FOREST, event) != FOREST
        assert before == FOREST


def depth(value):
    levels = 0
    level = [value]
    while level := [each for each in level if isinstance(each, dict | list)]:
        levels += 1
        level = [item for each in level for item in (each.values() if isinstance(each, dict) else each)]
    return levels


def test_a_tree_grows_no_deeper_than_a_snapshot_can_be_sent():
    state, parent = replay(NEW_TREE), "_root"
    with pytest.raises(TreeConflict, match="levels deep"):  # noqa: PT012
        for number in range(STATE_LEVELS_MAX):
            state = apply_action(state, push(str(number), parent))
            parent = str(number)
    assert STATE_LEVELS_MAX - 2 < depth(state) <= STATE_LEVELS_MAX
    pair = replay(push("x"), push("y", "x"), state=state)
    with pytest.raises(TreeConflict, match="levels deep"):
        apply_action(pair, move("x", parent=parent))


def nested(levels):
    value: Any = 0
    for _ in range(levels):
        value = {"k": value}
    return value


def test_a_value_is_at_most_as_deep_as_a_snapshot_can_be_sent():
    fits = replay(action("set", target="a.b", value=nested(STATE_LEVELS_MAX - 2)))
    assert depth(fits) == STATE_LEVELS_MAX
    with pytest.raises(TreeConflict, match="levels deep"):
        replay(action("set", target="a.b", value=nested(STATE_LEVELS_MAX - 1)))
    item = replay(NEW_TREE, push("x", k=nested(STATE_LEVELS_MAX - 4)))
    assert depth(item) == STATE_LEVELS_MAX
    with pytest.raises(TreeConflict, match="levels deep"):
        replay(NEW_TREE, push("x", k=nested(STATE_LEVELS_MAX - 3)))


ids = st.sampled_from("abcdefgh")
positions = st.sampled_from(["first", "last"]) | st.builds(
    lambda side, at: {side: at}, st.sampled_from(["after", "before"]), ids
)
places = st.fixed_dictionaries({}, optional={"parent": ids | st.just("_root"), "position": positions})
targets = st.sampled_from(["t", "t.items", "t.tree", "t.items.a", "t.items.a.name", "u", "u.t"])
values = st.sampled_from(
    [1, {}, {"name": 1}, EMPTY_TREE, {"items": {"a": {}}, "tree": [{"id": "a", "children": []}]}, {"tree": []}]
)
events = st.one_of(
    st.builds(lambda at, place: action("treePush", target="t", value={"id": at}, options=place), ids, places),
    st.builds(lambda at, place: action("treeMove", target="t", options={"id": at} | place), ids, places),
    st.builds(lambda at: action("treeDelete", target="t", options={"id": at}), ids),
    st.builds(lambda at: action("treeUpdate", target="t", value={"n": 1}, options={"id": at}), ids),
    st.builds(
        lambda to, value, all_: action("set", target=to, value=value, options={"replace": all_}),
        targets,
        values,
        st.booleans(),
    ),
    st.builds(lambda to: action("unset", target=to), targets),
)


def trees_in(value):
    if isinstance(value, dict):
        if isinstance(value.get("items"), dict) and isinstance(value.get("tree"), list):
            yield value
        for inner in value.values():
            yield from trees_in(inner)


def ids_of(nodes):
    """Return only for a finite tree; a cycle would raise a RecursionError."""
    return [each for node in nodes for each in (node["id"], *ids_of(node["children"]))]


@given(st.lists(events, max_size=40))
@settings(max_examples=examples(300))
def test_any_sequence_of_actions_keeps_every_tree_well_formed(sequence):
    state = replay(NEW_TREE)
    for event in sequence:
        before = json.dumps(state)
        try:
            after = apply_action(state, event)
        except TreeConflict:
            after = state
        assert json.dumps(state) == before
        state = after
        for tree in trees_in(state):
            assert sorted(ids_of(tree["tree"])) == sorted(tree["items"])


@given(
    st.lists(st.builds(push, ids, ids | st.just("_root"), st.sampled_from(["first", "last"])), max_size=20), ids, ids
)
@settings(max_examples=examples(300))
def test_a_move_is_accepted_exactly_if_both_nodes_exist_and_the_parent_is_not_below_the_node(pushes, node, parent):
    state = replay(NEW_TREE)
    below = {}
    for event in pushes:
        under, new = event["payload"]["options"]["parent"], event["payload"]["value"]["id"]
        if new not in below and (under == "_root" or under in below):
            state = apply_action(state, event)
            below[new] = under

    def ancestors_and_self(each):
        while each != "_root":
            yield each
            each = below[each]

    fits = node in below and parent in below and node not in ancestors_and_self(parent)
    if fits:
        moved = apply_action(state, move(node, parent=parent))
        assert sorted(ids_of(moved["t"]["tree"])) == sorted(below)
    else:
        with pytest.raises(TreeConflict):
            apply_action(state, move(node, parent=parent))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["set", "treeMove", "_root"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "payload", "target", "value", "options", "id", "parent", "position"]), inner
            )
        ),
        max_leaves=15,
    ).filter(lambda value: isinstance(value, dict))
)
def test_any_object_is_either_accepted_or_reported_invalid_and_then_a_conflict(event):
    wrong = tree_validator(event, [])
    if wrong:
        assert all(error.field.startswith("event") for error in wrong)
        with pytest.raises(TreeConflict):
            apply_action({}, event)
