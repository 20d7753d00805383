"""What people read when JSON cannot be decoded."""

from typing import Annotated, Any, Literal

import msgspec
import pytest

from mainstem.json_errors import explain_json_error


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str = ""


class Document(msgspec.Struct, forbid_unknown_fields=True):
    a: int
    small: Annotated[int, msgspec.Meta(ge=0, le=5)] = 0
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=3)] = "x"
    maybe: str | None = None
    names: tuple[str, ...] = ()
    mode: Literal["x", "y"] = "x"
    flag: bool = False
    ratio: float = 0.0
    few: Annotated[list[int], msgspec.Meta(max_length=1)] = []
    part: Part = Part()
    sized: dict[str, int] = {}


def explain(body: bytes, type_: Any = Document) -> str:
    with pytest.raises((msgspec.MsgspecError, UnicodeDecodeError, RecursionError)) as caught:
        msgspec.json.decode(body, type=type_)
    return explain_json_error(caught.value)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the body is not valid JSON (it ends too early)"),
        (b'{"a":1', "the body is not valid JSON (it ends too early)"),
        (b'{"a":x}', "the body is not valid JSON (see byte 5)"),
        (b'{"a":1} x', "the body is not valid JSON (see byte 9)"),
        (b"[]", "the body must be an object, not an array"),
        (b"{}", "a is missing"),
        (b'{"a":"1"}', "a must be an integer, not a string"),
        (b'{"a":1.5}', "a must be an integer, not a decimal number"),
        (b'{"a":1e400}', "a is a number out of range"),
        (b'{"a":1,"sized":{"k":1e400}}', "the body has a number out of range"),
        (b'{"a":1,"small":6}', "small must be at most 5"),
        (b'{"a":1,"small":-1}', "small must be at least 0"),
        (b'{"a":1,"text":""}', "text must have at least 1 character"),
        (b'{"a":1,"maybe":3}', "maybe must be a string or null, not an integer"),
        (b'{"a":1,"names":["x",2]}', "names[1] must be a string, not an integer"),
        (b'{"a":1,"mode":"z"}', "mode has a value that is not allowed"),
        (b'{"a":1,"flag":1}', "flag must be true or false, not an integer"),
        (b'{"a":1,"ratio":"1"}', "ratio must be a number, not a string"),
        (b'{"a":1,"few":[1,2]}', "few must have at most 1 item"),
        (b'{"a":1,"other":2}', "other is not a known field"),
        (b'{"a":1,"part":{"nam":1}}', "part.nam is not a known field"),
        (b'{"a":1,"sized":{"k":"v"}}', "sized[...] must be an integer, not a string"),
        (b'{"a":1,"text":"\xff"}', "the body is not UTF-8"),
    ],
)
def test_the_reason_names_the_field_and_what_it_must_be(body, said):
    assert explain(body) == said


def test_deep_nesting_has_its_own_reason():
    assert explain(b"[" * 100_000, Any) == "the body is nested too deeply"


@pytest.mark.parametrize("number", [b"1e400", b"9" * 5000])
def test_a_number_that_python_cannot_hold_has_no_path_without_types(number):
    assert explain(b'{"a":[' + number + b"]}", Any) == "the body has a number out of range"
    assert explain(number, Any) == "the body has a number out of range"


def test_the_whole_can_be_named():
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(b"[]", type=Document)
    assert explain_json_error(caught.value, "the claims") == "the claims must be an object, not an array"
