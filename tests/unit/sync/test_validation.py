import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import SettingsError
from mainstem.sync.validation import (
    ANNOTATIONS,
    ERRORS_MAX,
    FIELD_CHARS_MAX,
    FieldError,
    accept_all,
    json_schema,
    load_hook,
    load_schemas,
    model_validator,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=15,
)


def faults(schema, value):
    """What a schema says of a value, which stands in the event as `v`."""
    return json_schema({"properties": {"v": schema}})({"v": value}, [])


def accepts(schema, value):
    return faults(schema, value) == []


# Modes


@given(st.dictionaries(st.text(max_size=4), json_values, max_size=4))
def test_mode_none_accepts_any_object(event):
    assert accept_all(event, []) == []


def test_a_model_is_chosen_by_the_schema_field_before_the_type():
    def says(name):
        return lambda event, earlier: [FieldError("event", name)]

    validate = model_validator({name: says(name) for name in ("by-schema", "by-payload", "by-type", "event")})

    def chosen(**event):
        return [error.message for error in validate(event, [])]

    assert chosen(type="by-type") == ["by-type"]
    assert chosen(type="by-type", schema="by-schema", payload={"schema": "by-payload"}) == ["by-schema"]
    assert chosen(type="event", payload={"schema": "by-payload"}) == ["by-payload"]
    assert chosen(type="by-type", payload={"schema": "by-payload"}) == ["by-type"]
    assert chosen(type="event", payload={"data": 1}) == ["event"]


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"type": "other"}, FieldError("event.type", "names an unknown schema")),
        ({"type": "note", "schema": "other"}, FieldError("event.schema", "names an unknown schema")),
        ({"type": "event", "payload": {"schema": "x"}}, FieldError("event.payload.schema", "names an unknown schema")),
        ({}, FieldError("event.type", "names no schema")),
        ({"type": 3}, FieldError("event.type", "names no schema")),
        ({"type": ["note"]}, FieldError("event.type", "names no schema")),
        ({"type": "note", "schema": None}, FieldError("event.schema", "names no schema")),
    ],
)
def test_an_event_without_a_known_schema_is_refused(event, error):
    assert model_validator({"note": {}})(event, []) == [error]


def test_a_model_may_be_a_callable_or_a_json_schema():
    validate = model_validator({"note": {"required": ["text"]}, "free": accept_all})
    assert validate({"type": "note"}, []) == [FieldError("event.text", "is missing")]
    assert validate({"type": "note", "text": ""}, []) == []
    assert validate({"type": "free"}, []) == []


def test_a_validator_sees_the_earlier_events_of_its_batch():
    def no_second(event, earlier):
        return [FieldError("event", "is the second")] if event in earlier else []

    validate = model_validator({"note": no_second})
    event = {"type": "note"}
    assert validate(event, []) == []
    assert validate(event, [event]) == [FieldError("event", "is the second")]


def test_what_a_validator_raises_goes_through():
    def broken(event, earlier):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        model_validator({"note": broken})({"type": "note"}, [])


def test_a_hook_is_named_by_module_and_callable():
    assert load_hook("mainstem.sync.validation:accept_all") is accept_all


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "package.module:callable"),
        ("json", "package.module:callable"),
        (":loads", "package.module:callable"),
        ("json:", "package.module:callable"),
        ("no.such.module:thing", "cannot be imported"),
        ("json:no_such_thing", "has no 'no_such_thing'"),
        ("json:__name__", "is not callable"),
    ],
)
def test_a_hook_that_cannot_be_called_stops_the_start(name, reason):
    with pytest.raises(SettingsError, match=reason):
        load_hook(name)


def test_schemas_are_read_from_the_json_files_of_a_directory(tmp_path):
    (tmp_path / "note.created.json").write_text('{"required": ["text"]}')
    (tmp_path / "free.json").write_text("{}")
    (tmp_path / "README.md").write_text("not a schema")
    schemas = load_schemas(tmp_path)
    assert schemas.keys() == {"note.created", "free"}
    assert model_validator(schemas)({"type": "note.created"}, []) == [FieldError("event.text", "is missing")]


@pytest.mark.parametrize("text", ["{", "[]", "true", '{"format": "date"}', '"\udcff"'])
def test_a_bad_schema_file_stops_the_start_and_is_named(tmp_path, text):
    (tmp_path / "note.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(SettingsError, match=re.escape("note.json: ")):
        load_schemas(tmp_path)


@pytest.mark.parametrize("name", ["", "no-such-directory"])
def test_a_directory_without_schemas_stops_the_start(tmp_path, name):
    with pytest.raises(SettingsError, match="holds no"):
        load_schemas(tmp_path / name)


# JSON Schema


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("null", [None], [0, False, "", [], {}]),
        ("boolean", [True, False], [0, 1, None, "true"]),
        ("integer", [0, -1, 10**30, 1.0, -0.0, 1e300], [1.5, True, "1", None]),
        ("number", [0, 1.5, 10**30], [True, "1", None]),
        ("string", ["", "a"], [1, None, ["a"]]),
        ("array", [[], [1]], [{}, "a", None]),
        ("object", [{}, {"a": 1}], [[], "a", None]),
        (["string", "null"], ["a", None], [1, False]),
    ],
)
def test_type(kind, good, bad):
    assert all(accepts({"type": kind}, value) for value in good)
    assert not any(accepts({"type": kind}, value) for value in bad)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"const": 1}, [1, 1.0], [True, "1", 2, None]),
        ({"const": False}, [False], [0, None]),
        ({"const": {"a": [1, {"b": 0}]}}, [{"a": [1.0, {"b": -0.0}]}], [{"a": [True, {"b": 0}]}, {"a": [1, {}]}]),
        ({"enum": ["a", 1, None]}, ["a", 1.0, None], ["b", True, False]),
        ({"enum": []}, [], [None, 0]),
        ({"minimum": 2}, [2, 2.5, "x", None], [1, 1.999, -(10**30)]),
        ({"maximum": 2}, [2, 1.5, "x", True], [3, 2.001]),
        ({"exclusiveMinimum": 2}, [2.001, []], [2, 1]),
        ({"exclusiveMaximum": 2.5}, [2, 2.499], [2.5, 3]),
        ({"minLength": 2}, ["ab", "😀😀", 1, []], ["a", "😀", ""]),
        ({"maxLength": 2}, ["ab", "😀😀", [1, 2, 3]], ["abc", "😀😀😀"]),
        ({"minItems": 1}, [[0], "", {}], [[]]),
        ({"maxItems": 1}, [[0], [], "abc"], [[0, 0]]),
        ({"minProperties": 1}, [{"a": 1}, [], ""], [{}]),
        ({"maxProperties": 1}, [{"a": 1}, {}, [1, 2]], [{"a": 1, "b": 2}]),
        (
            {"uniqueItems": True},
            [[1, True], [0, False], ["1", 1], "aa"],
            [[1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1}]],
        ),
        ({"uniqueItems": False}, [[1, 1]], []),
        ({"required": ["a"]}, [{"a": None}, [], "a"], [{}, {"b": 1}]),
        ({"properties": {"a": {"type": "string"}}}, [{}, {"a": ""}, {"b": 1}, []], [{"a": 1}]),
        ({"properties": {"a": False}}, [{}, {"b": 1}], [{"a": 1}]),
        ({"properties": {"a": True}, "additionalProperties": False}, [{}, {"a": 1}, [1]], [{"b": 1}, {"a": 1, "b": 1}]),
        ({"additionalProperties": {"type": "integer"}}, [{}, {"a": 1}], [{"a": ""}]),
        ({"items": {"type": "integer"}}, [[], [1, 2], {"a": ""}], [[""], [1, ""]]),
        ({"prefixItems": [{"type": "integer"}, {"type": "string"}]}, [[], [1], [1, ""], [1, "", None]], [[""], [1, 1]]),
        ({"prefixItems": [True], "items": False}, [[], [1]], [[1, 2]]),
        ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, [1, 2], [0, 3]),
        ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, ["", 5], [4]),
        ({"oneOf": [{"minimum": 1}, {"maximum": 2}]}, [0, 3], [1, 2]),
        ({"not": {"type": "string"}}, [1, None], ["a"]),
        ({"type": "string", "minLength": 1, "title": "t"}, ["a"], ["", 1]),
        (True, [None, {}], []),
        (False, [], [None, {}]),
        ({}, [None, 1, ""], []),
    ],
)
def test_a_keyword_accepts_and_refuses_as_the_specification_says(schema, good, bad):
    assert [value for value in good if not accepts(schema, value)] == []
    assert [value for value in bad if accepts(schema, value)] == []


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("b", ["abc"], ["ac"]),
        ("^[a-z]+$", ["abc"], ["abc\n", "\nabc", "ab1"]),
        (r"^\d+$", ["12"], ["١٢"]),
        (r"\$$", ["5$"], ["5", "$5"]),
        (r"^[$]$", ["$"], ["a", "$\n"]),
        (r"^[\]$]+$", ["]$"], ["]\n"]),
        (r"^(a|b$)", ["ax", "b"], ["bx", "b\n"]),
    ],
)
def test_a_pattern_is_searched_for_and_ends_at_the_very_end(pattern, good, bad):
    assert [text for text in good if not accepts({"pattern": pattern}, text)] == []
    assert [text for text in bad if accepts({"pattern": pattern}, text)] == []
    assert accepts({"pattern": pattern}, 5)


def test_an_error_names_its_field():
    schema = {
        "required": ["id", "lines"],
        "properties": {
            "lines": {"items": {"required": ["sku"], "properties": {"amount": {"minimum": 1}}}},
            "pair": {"prefixItems": [True, {"type": "string"}]},
        },
        "additionalProperties": False,
    }
    event = {"lines": [{"sku": "a", "amount": 1}, {"amount": 0}], "pair": [0, 0], "more": 1}
    assert sorted(json_schema(schema)(event, []), key=lambda error: error.field) == [
        FieldError("event.id", "is missing"),
        FieldError("event.lines[1].amount", "must be at least 1"),
        FieldError("event.lines[1].sku", "is missing"),
        FieldError("event.more", "is not allowed"),
        FieldError("event.pair[1]", "must be string"),
    ]


TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {"required": ["id"], "properties": {"children": {"items": {"$ref": "#/$defs/node"}}}},
        "a/b~c": {"type": "string"},
    },
    "properties": {"label": {"$ref": "#/$defs/a~1b~0c"}, "again": {"$ref": "#"}},
}


def test_a_reference_leads_to_a_definition_and_may_be_recursive():
    validate = json_schema(TREE)
    assert validate({"id": 1, "children": [{"id": 2, "children": [{"id": 3}]}], "label": "x"}, []) == []
    assert validate({"id": 1, "children": [{"id": 2, "children": [{}]}]}, []) == [
        FieldError("event.children[0].children[0].id", "is missing")
    ]
    assert validate({"id": 1, "label": 2}, []) == [FieldError("event.label", "must be string")]
    assert validate({"id": 1, "again": {"id": 2, "again": {}}}, []) == [
        FieldError("event.again.again.id", "is missing")
    ]


def test_keywords_beside_a_reference_count():
    schema = {"$defs": {"text": {"type": "string"}}, "properties": {"v": {"$ref": "#/$defs/text", "minLength": 2}}}
    assert [json_schema(schema)({"v": value}, []) == [] for value in ("ab", "a", 1)] == [True, False, False]


def test_an_event_too_deep_for_a_recursive_schema_is_refused_and_no_crash():
    event = {"id": 0}
    for number in range(5000):
        event = {"id": number, "children": [event]}
    assert json_schema(TREE)(event, []) == [FieldError("event", "is nested too deeply for its schema")]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"format": "date"}, "unsupported here: format"),
        ({"multipleOf": 2}, "unsupported here: multipleOf"),
        ({"patternProperties": {}}, "unsupported here: patternProperties"),
        ({"if": {}, "then": {}}, "unsupported here: if, then"),
        ({"$dynamicRef": "#a"}, r"unsupported here: \$dynamicRef"),
        ({"Type": "string"}, "unsupported here: Type"),
        ({"properties": {"a": {"items": {"format": "date"}}}}, "#/properties/a/items: unsupported here: format"),
        ({"properties": {"a": {"anyOf": [{}, {"format": "date"}]}}}, "#/properties/a/anyOf/1: unsupported"),
        ({"properties": {"a": {"$defs": {}}}}, r"#/properties/a: unsupported here: \$defs"),
        ({"$defs": {"unused": {"format": "date"}}}, r"#/\$defs/unused: unsupported"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, r"#/\$schema: must be"),
        ({"$ref": "#/$defs/none"}, r"#/\$ref: must be"),
        ({"$ref": "other.json"}, r"#/\$ref: must be"),
        ({"$ref": 3}, r"#/\$ref: must be"),
        ({"type": "int"}, "#/type: must be of"),
        ({"type": []}, "#/type: must be of"),
        ({"type": ["string", 3]}, "#/type: must be of"),
        ({"enum": "a"}, "#/enum: must be an array"),
        ({"minimum": "1"}, "#/minimum: must be a number"),
        ({"minimum": True}, "#/minimum: must be a number"),
        ({"minLength": -1}, "#/minLength: must be an integer"),
        ({"maxItems": 1.5}, "#/maxItems: must be an integer"),
        ({"pattern": "("}, "#/pattern: not a pattern"),
        ({"pattern": r"\p{L}"}, "#/pattern: not a pattern"),
        ({"pattern": 1}, "#/pattern: must be a string"),
        ({"required": "a"}, "#/required: must be strings"),
        ({"required": [1]}, "#/required: must be strings"),
        ({"properties": []}, "#/properties: must be an object"),
        ({"properties": {"a": 1}}, "#/properties/a: a schema is"),
        ({"items": [{}]}, "#/items: a schema is"),
        ({"prefixItems": []}, "#/prefixItems: must be a non-empty array"),
        ({"anyOf": []}, "#/anyOf: must be a non-empty array"),
        ({"oneOf": {}}, "#/oneOf: must be a non-empty array"),
        ({"not": 1}, "#/not: a schema is"),
        ({"uniqueItems": 1}, "#/uniqueItems: must be a boolean"),
        ({"$defs": []}, r"#/\$defs: must be an object"),
    ],
)
def test_a_schema_that_could_not_be_enforced_is_refused_when_it_is_loaded(schema, reason):
    with pytest.raises(SettingsError, match=reason):
        json_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"not": {"$ref": "#"}}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
    ],
)
def test_a_schema_that_applies_itself_without_end_is_refused(schema):
    with pytest.raises(SettingsError, match="without end"):
        json_schema(schema)


@pytest.mark.parametrize("name", [*sorted(ANNOTATIONS), "$id"])
def test_annotations_are_allowed_and_demand_nothing(name):
    assert json_schema({name: "x"})({"any": "event"}, []) == []


def test_the_answer_is_bounded_however_much_is_wrong():
    assert len(faults({"items": False}, [0] * 100_000)) == ERRORS_MAX
    (error,) = json_schema({"additionalProperties": False})({"k" * 100_000: 1}, [])
    assert len(error.field) == FIELD_CHARS_MAX
    assert error.field.startswith("event.kkk")
