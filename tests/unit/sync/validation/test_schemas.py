from typing import Any

import pytest

from mainstem.errors import SettingsError
from mainstem.sync.validation.schemas import ANNOTATIONS
from mainstem.sync.validation.validators import ERRORS_MAX, FIELD_CHARS_MAX, FieldError, json_schema


def faults(schema, value):
    """Return the errors of a value under a schema. The value is the field `v` of the event."""
    return json_schema({"properties": {"v": schema}})({"v": value}, [])


def accepts(schema, value):
    return faults(schema, value) == []


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
def test_the_type_keyword_accepts_exactly_its_types(kind, good, bad):
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
def test_a_pattern_is_searched_for_and_a_dollar_matches_only_the_very_end(pattern, good, bad):
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
        FieldError("event.pair[1]", "must be a string"),
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
    assert validate({"id": 1, "label": 2}, []) == [FieldError("event.label", "must be a string")]
    assert validate({"id": 1, "again": {"id": 2, "again": {}}}, []) == [
        FieldError("event.again.again.id", "is missing")
    ]


def test_keywords_beside_a_reference_count():
    schema = {"$defs": {"text": {"type": "string"}}, "properties": {"v": {"$ref": "#/$defs/text", "minLength": 2}}}
    assert [json_schema(schema)({"v": value}, []) == [] for value in ("ab", "a", 1)] == [True, False, False]


def test_an_event_too_deep_for_a_recursive_schema_is_refused_without_a_crash():
    event: dict[str, Any] = {"id": 0}
    for number in range(5000):
        event = {"id": number, "children": [event]}
    assert json_schema(TREE)(event, []) == [FieldError("event", "is nested too deeply for its schema")]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"format": "date"}, "has unsupported keywords: format"),
        ({"multipleOf": 2}, "has unsupported keywords: multipleOf"),
        ({"patternProperties": {}}, "has unsupported keywords: patternProperties"),
        ({"if": {}, "then": {}}, "has unsupported keywords: if, then"),
        ({"$dynamicRef": "#a"}, r"has unsupported keywords: \$dynamicRef"),
        ({"Type": "string"}, "has unsupported keywords: Type"),
        (
            {"properties": {"a": {"items": {"format": "date"}}}},
            "#/properties/a/items: has unsupported keywords: format",
        ),
        ({"properties": {"a": {"anyOf": [{}, {"format": "date"}]}}}, "#/properties/a/anyOf/1: has unsupported"),
        ({"properties": {"a": {"$defs": {}}}}, r"#/properties/a: has unsupported keywords: \$defs"),
        ({"$defs": {"unused": {"format": "date"}}}, r"#/\$defs/unused: has unsupported"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, r"#/\$schema: must be"),
        ({"$ref": "#/$defs/none"}, r"#/\$ref: must be"),
        ({"$ref": "other.json"}, r"#/\$ref: must be"),
        ({"$ref": 3}, r"#/\$ref: must be"),
        ({"type": "int"}, "#/type: must be one or more of"),
        ({"type": []}, "#/type: must be one or more of"),
        ({"type": ["string", 3]}, "#/type: must be one or more of"),
        ({"enum": "a"}, "#/enum: must be an array"),
        ({"minimum": "1"}, "#/minimum: must be a number"),
        ({"minimum": True}, "#/minimum: must be a number"),
        ({"minLength": -1}, "#/minLength: must be an integer"),
        ({"maxItems": 1.5}, "#/maxItems: must be an integer"),
        ({"pattern": "("}, "#/pattern: is not a valid regular expression"),
        ({"pattern": r"\p{L}"}, "#/pattern: is not a valid regular expression"),
        ({"pattern": 1}, "#/pattern: must be a string"),
        ({"required": "a"}, "#/required: must be an array of strings"),
        ({"required": [1]}, "#/required: must be an array of strings"),
        ({"properties": []}, "#/properties: must be an object"),
        ({"properties": {"a": 1}}, "#/properties/a: must be an object or a boolean"),
        ({"items": [{}]}, "#/items: must be an object or a boolean"),
        ({"prefixItems": []}, "#/prefixItems: must be a non-empty array"),
        ({"anyOf": []}, "#/anyOf: must be a non-empty array"),
        ({"oneOf": {}}, "#/oneOf: must be a non-empty array"),
        ({"not": 1}, "#/not: must be an object or a boolean"),
        ({"uniqueItems": 1}, "#/uniqueItems: must be a boolean"),
        ({"$defs": []}, r"#/\$defs: must be an object"),
    ],
)
def test_an_unenforceable_schema_is_refused_when_it_is_loaded(schema, reason):
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
    with pytest.raises(SettingsError, match="so its check would never end"):
        json_schema(schema)


@pytest.mark.parametrize("name", [*sorted(ANNOTATIONS), "$id"])
def test_annotations_are_allowed_and_require_nothing(name):
    assert json_schema({name: "x"})({"any": "event"}, []) == []


def test_the_answer_is_bounded_however_many_errors_there_are():
    assert len(faults({"items": False}, [0] * 100_000)) == ERRORS_MAX
    (error,) = json_schema({"additionalProperties": False})({"k" * 100_000: 1}, [])
    assert len(error.field) == FIELD_CHARS_MAX
    assert error.field.startswith("event.kkk")
