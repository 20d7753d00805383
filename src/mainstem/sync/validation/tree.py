"""Tree mode (seed 001): six actions on one JSON state. Their shape is checked here, and `apply_action` applies them.

The seed names the mode but defines no shapes. These are the shapes that public clients send, so that they work
unchanged:

    {"type": "set",        "payload": {"target", "value", "options"?: {"replace"?}}}
    {"type": "unset",      "payload": {"target"}}
    {"type": "treePush",   "payload": {"target", "value": {"id", ...}, "options"?: {"parent"?, "position"?}}}
    {"type": "treeDelete", "payload": {"target", "options": {"id"}}}
    {"type": "treeUpdate", "payload": {"target", "value": {...}, "options": {"id", "replace"?}}}
    {"type": "treeMove",   "payload": {"target", "options": {"id", "parent"?, "position"?}}}

- `target` is a path of keys into the state: `"a.b"`, or `["a", "b"]` if a key contains a dot. It leads through objects
  only, never into arrays.
- `parent` is a node's id, or `_root` (the default) for the top level. `position` is `first` (the default), `last`, or
  `{"after": id}` or `{"before": id}` with the id of a child of that parent.
- With `replace` false (the default), the keys of `value` are merged into the existing object, one level deep. An array
  can be set only with `replace` true.
- Unknown fields are refused in `payload` and `options`, and ignored elsewhere.

A tree is an object in the state with two keys: `items` maps each node's id to its fields, and `tree` is an array of
`{"id", "children": [...]}`. Create one with `set` to `{"items": {}, "tree": []}`. Each id occurs once in `tree` and
once in `items`; an action that would break this is a conflict.

The server keeps no state per partition, so it checks the shape only (`tree_validator`). The preconditions need the
state: `apply_action` raises `TreeConflict` if one fails, and a client that replays the log must skip such an event.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, TypeGuard

from mainstem import limits
from mainstem.errors import Conflict
from mainstem.sync.validation.validators import FieldError, json_schema

ROOT: Final = "_root"
TARGET_KEYS_MAX: Final = 64
STATE_LEVELS_MAX: Final = limits.JSON_DEPTH_MAX - 100  # a state is sent in a snapshot, nested in other objects

State = dict[str, Any]
Node = dict[str, Any]
Tree = dict[str, Any]
Path = list[str]
MISSING: Final = object()


class TreeConflict(Conflict):
    """The action does not fit the state: its target or node does not exist, or it would break a tree."""

    code: ClassVar[str] = "tree_conflict"
    title: ClassVar[str] = "The action does not fit the state"


# Shape: the checks that need only the event

_KEY = {"type": "string", "minLength": 1}
_ID = _KEY | {"not": {"const": ROOT}}
_TARGET = {
    "anyOf": [
        {"type": "string", "pattern": rf"^[^.]+(\.[^.]+){{0,{TARGET_KEYS_MAX - 1}}}$"},
        {"type": "array", "items": _KEY, "minItems": 1, "maxItems": TARGET_KEYS_MAX},
    ]
}
_POSITION = {
    "anyOf": [
        {"enum": ["first", "last"]},
        {"type": "object", "required": ["after"], "properties": {"after": _ID}, "additionalProperties": False},
        {"type": "object", "required": ["before"], "properties": {"before": _ID}, "additionalProperties": False},
    ]
}


def _object(properties: dict[str, Any], optional: Sequence[str] = ()) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _event(properties: dict[str, Any], optional: Sequence[str] = ()) -> dict[str, Any]:
    payload = _object({"target": _TARGET} | properties, optional)
    return {"type": "object", "properties": {"payload": payload}, "required": ["payload"]}


_REPLACE = {"replace": {"type": "boolean"}}
_POSITIONING = {"parent": _KEY, "position": _POSITION}

SHAPES: Final = {
    "set": _event({"value": True, "options": _object(_REPLACE, ["replace"])}, ["options"]),
    "unset": _event({}),
    "treePush": _event(
        {
            "value": {"type": "object", "properties": {"id": _ID}, "required": ["id"]},
            "options": _object(_POSITIONING, ["parent", "position"]),
        },
        ["options"],
    ),
    "treeDelete": _event({"options": _object({"id": _ID})}),
    "treeUpdate": _event({"value": {"type": "object"}, "options": _object({"id": _ID} | _REPLACE, ["replace"])}),
    "treeMove": _event({"options": _object({"id": _ID} | _POSITIONING, ["parent", "position"])}),
}
_shape_validators = {action: json_schema(shape) for action, shape in SHAPES.items()}


def tree_validator(event: dict[str, Any], earlier: Sequence[dict[str, Any]], /) -> list[FieldError]:
    """Check that the event is one of the six actions, with all required fields (mode `tree`)."""
    action = event.get("type")
    if not isinstance(action, str) or action not in SHAPES:
        return [FieldError("event.type", f"must be one of {', '.join(SHAPES)}")]
    return _shape_validators[action](event, earlier) or list(_contradictions(action, event["payload"]))


def _contradictions(action: str, payload: dict[str, Any]) -> Iterator[FieldError]:
    """Yield the errors of a payload that has the right shape but cannot apply to any state."""
    options = payload.get("options", {})
    if action == "set" and isinstance(payload["value"], list) and not options.get("replace"):
        yield FieldError("event.payload.value", "must not be an array unless options.replace is true")
    if action == "treeUpdate" and payload["value"].get("id", options["id"]) != options["id"]:
        yield FieldError("event.payload.value.id", "must equal options.id: the id of a node cannot change")
    if action == "treeMove":
        if options.get("parent") == options["id"]:
            yield FieldError("event.payload.options.parent", "must not be the node itself")
        if options["id"] in _neighbours(options):
            yield FieldError("event.payload.options.position", "must not name the node itself")


def _neighbours(options: dict[str, Any]) -> Sequence[str]:
    position = options.get("position")
    return list(position.values()) if isinstance(position, dict) else []


# State: how the actions change it, and their preconditions


def apply_action(state: State, event: dict[str, Any]) -> State:
    """Return the state after an action. The given state is not changed, and the two may share parts.

    `state` is `{}` or the result of an earlier call: its trees are assumed to be well-formed. Raise `TreeConflict` if
    the action does not fit the state or is not a valid action.
    """
    for error in tree_validator(event, ()):
        raise TreeConflict(f"{error.field} {error.message}")
    payload = event["payload"]
    target = payload["target"]
    path = target.split(".") if isinstance(target, str) else target
    return REDUCERS[event["type"]](state, path, payload.get("value"), payload.get("options", {}))


def _set(state: State, path: Path, value: Any, options: dict[str, Any]) -> State:
    def change(old: Any) -> Any:
        new = old | value if _merges(old, value, options) else value
        _check_value(new, len(path) + 1)
        return new

    return _change(state, path, change, create=True)


def _unset(state: State, path: Path, value: Any, options: dict[str, Any]) -> State:
    def change(old: Any) -> Any:
        if old is MISSING:
            raise _no_target(path)
        return MISSING

    return _change(state, path, change)


def _tree_push(state: State, path: Path, value: Any, options: dict[str, Any]) -> State:
    node_id = value["id"]

    def change(tree: Tree) -> Tree:
        if node_id in tree["items"]:
            raise TreeConflict(f"the node {node_id!r} already exists")
        fields = _fields(value, path)
        nodes = _insert(tree, {"id": node_id, "children": []}, options, path)
        return tree | {"items": tree["items"] | {node_id: fields}, "tree": nodes}

    return _change_tree(state, path, change)


def _tree_delete(state: State, path: Path, value: Any, options: dict[str, Any]) -> State:
    def change(tree: Tree) -> Tree:
        node, nodes = _remove(tree, options["id"])
        gone = {each["id"] for level in _levels([node]) for each in level}
        items = {node_id: fields for node_id, fields in tree["items"].items() if node_id not in gone}
        return tree | {"items": items, "tree": nodes}

    return _change_tree(state, path, change)


def _tree_update(state: State, path: Path, value: Any, options: dict[str, Any]) -> State:
    node_id = options["id"]

    def change(tree: Tree) -> Tree:
        _require_node(tree, node_id)
        old = tree["items"][node_id]
        fields = _fields(old | value if _merges(old, value, options) else value, path)
        return tree | {"items": tree["items"] | {node_id: fields}}

    return _change_tree(state, path, change)


def _tree_move(state: State, path: Path, value: Any, options: dict[str, Any]) -> State:
    def change(tree: Tree) -> Tree:
        node, nodes = _remove(tree, options["id"])
        parent = options.get("parent", ROOT)
        if any(each["id"] == parent for level in _levels([node]) for each in level):
            raise TreeConflict(f"the node {options['id']!r} cannot move below its own descendant {parent!r}")
        return tree | {"tree": _insert(tree | {"tree": nodes}, node, options, path)}

    return _change_tree(state, path, change)


REDUCERS: Final[dict[str, Callable[[State, Path, Any, dict[str, Any]], State]]] = {
    "set": _set,
    "unset": _unset,
    "treePush": _tree_push,
    "treeDelete": _tree_delete,
    "treeUpdate": _tree_update,
    "treeMove": _tree_move,
}


def _change(state: State, path: Path, change: Callable[[Any], Any], *, create: bool = False) -> State:
    """Return a copy of the state with the value at `path` changed. `MISSING` stands for no value, before and after."""
    objects: list[dict[str, Any]] = [state]
    for key in path[:-1]:
        inner = objects[-1].get(key, {} if create else MISSING)
        if not isinstance(inner, dict):
            raise _no_target(path)
        objects.append(inner)
    value = change(objects[-1].get(path[-1], MISSING))
    for outer, key in zip(reversed(objects), reversed(path), strict=True):
        value = _without(outer, key) if value is MISSING else outer | {key: value}
        if _is_tree(value):
            _check_tree(value)  # the path may lead through a tree, or complete one
    assert isinstance(value, dict)
    return value


def _change_tree(state: State, path: Path, change: Callable[[Tree], Tree]) -> State:
    """Return a copy of the state with the tree at `path` changed."""

    def change_value(value: Any) -> Tree:
        if not _is_tree(value):
            raise TreeConflict(f"there is no tree at {'.'.join(path)!r}")
        return change(value)

    return _change(state, path, change_value)


def _without(value: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name != key}


def _merges(old: Any, new: Any, options: dict[str, Any]) -> bool:
    return isinstance(old, dict) and isinstance(new, dict) and not options.get("replace", False)


def _no_target(path: Path) -> TreeConflict:
    return TreeConflict(f"there is no value at {'.'.join(path)!r}")


def _require_node(tree: Tree, node_id: str) -> None:
    if node_id not in tree["items"]:
        raise TreeConflict(f"the node {node_id!r} does not exist")


def _fields(value: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the fields of a node as `items` stores them: without the id, which is the key."""
    fields = _without(value, "id")
    _check_value(fields, len(path) + 3)
    return fields


# Nodes: a trail is the list of indexes that leads to a node, from the top level down


def _locate(nodes: list[Node], node_id: str) -> list[int]:
    trail: list[int] = []
    levels = [iter(enumerate(nodes))]
    while levels:
        for index, node in levels[-1]:
            if node["id"] == node_id:
                return [*trail, index]
            if node["children"]:
                trail.append(index)
                levels.append(iter(enumerate(node["children"])))
                break
        else:
            levels.pop()
            del trail[-1:]
    raise AssertionError(f"{node_id!r} is in items but not in the tree")


def _remove(tree: Tree, node_id: str) -> tuple[Node, list[Node]]:
    """Return the node with its descendants, and the tree's nodes without them."""
    _require_node(tree, node_id)
    *trail, index = _locate(tree["tree"], node_id)
    taken: list[Node] = []

    def without(siblings: list[Node]) -> list[Node]:
        taken.append(siblings[index])
        return siblings[:index] + siblings[index + 1 :]

    nodes = _edit(tree["tree"], trail, without)
    return taken[0], nodes


def _insert(tree: Tree, node: Node, options: dict[str, Any], path: Path) -> list[Node]:
    """Return the tree's nodes with the node inserted at the parent and position in the options."""
    parent = options.get("parent", ROOT)
    trail: list[int] = []
    if parent != ROOT:
        _require_node(tree, parent)
        trail = _locate(tree["tree"], parent)
    depth = len(trail) + sum(1 for _ in _levels([node]))
    if len(path) + 2 + 2 * depth > STATE_LEVELS_MAX:  # a node is an object and an array of children
        raise _too_deep()

    def with_node(siblings: list[Node]) -> list[Node]:
        index = _index(siblings, options.get("position", "first"))
        return [*siblings[:index], node, *siblings[index:]]

    return _edit(tree["tree"], trail, with_node)


def _index(siblings: list[Node], position: Any) -> int:
    if position == "first":
        return 0
    if position == "last":
        return len(siblings)
    ((side, neighbour),) = position.items()
    for index, node in enumerate(siblings):
        if node["id"] == neighbour:
            return index + 1 if side == "after" else index
    raise TreeConflict(f"the node {neighbour!r} is not a child of the given parent")


def _edit(nodes: list[Node], trail: list[int], edit: Callable[[list[Node]], list[Node]]) -> list[Node]:
    """Return a copy of the nodes in which the children at the end of the trail are edited."""
    families = [nodes]
    for index in trail:
        families.append(families[-1][index]["children"])
    edited = edit(families.pop())
    for family, index in zip(reversed(families), reversed(trail), strict=True):
        edited = [*family[:index], family[index] | {"children": edited}, *family[index + 1 :]]
    return edited


def _levels(nodes: list[Node]) -> Iterator[list[Node]]:
    """Yield the nodes and all their descendants, level by level."""
    while nodes:
        yield nodes
        nodes = [child for node in nodes for child in node["children"]]


# Well-formedness, which `set` and `unset` must not break


def _is_tree(value: Any) -> TypeGuard[Tree]:
    return isinstance(value, dict) and isinstance(value.get("items"), dict) and isinstance(value.get("tree"), list)


def _check_value(value: Any, level: int) -> None:
    """Raise `TreeConflict` if a value for this level of the state contains a malformed tree or is nested too deeply."""
    values = [value]
    while values:
        containers = [each for each in values if isinstance(each, dict | list)]
        if containers and level > STATE_LEVELS_MAX:
            raise _too_deep()
        for each in containers:
            if _is_tree(each):
                _check_tree(each)
        values = [item for each in containers for item in (each.values() if isinstance(each, dict) else each)]
        level += 1


def _too_deep() -> TreeConflict:
    return TreeConflict(f"the state would be nested more than {STATE_LEVELS_MAX} levels deep")


def _check_tree(tree: Tree) -> None:
    ids: list[str] = []
    families = [tree["tree"]]
    while families:
        for node in families.pop():
            if not _is_node(node):
                raise TreeConflict("each node of a tree must be an object with an id and an array of children")
            ids.append(node["id"])
            families.append(node["children"])
    if len(ids) != len(set(ids)) or set(ids) != tree["items"].keys():
        raise TreeConflict("each id must occur exactly once in the tree and once in its items")
    if not all(isinstance(fields, dict) for fields in tree["items"].values()):
        raise TreeConflict("each item of a tree must be an object")


def _is_node(node: Any) -> bool:
    return (
        isinstance(node, dict)
        and node.keys() == {"id", "children"}
        and isinstance(node["id"], str)
        and node["id"] not in ("", ROOT)
        and isinstance(node["children"], list)
    )
