import dataclasses

import msgspec
import pytest
from pydantic import BaseModel

from mainstem import limits
from mainstem.ai.pieces import PIECE_OVERHEAD_BYTES, BufferedBytes, PieceBuffer, encode_piece, to_json_value
from mainstem.client import BadArgument


@dataclasses.dataclass
class Point:
    x: int


class Struct(msgspec.Struct):
    x: int


class Model(BaseModel):
    x: int
    y: int | None = None


class Text(str):
    """Like the text of LangChain's messages."""

    def __str__(self) -> str:
        return "something else"


@pytest.mark.parametrize(
    ("piece", "message"),
    [
        ("tö\n", '"tö\\n"'.encode()),
        ({"a": [1, None]}, b'{"a":[1,null]}'),
        (Point(1), b'{"x":1}'),
        (Struct(1), b'{"x":1}'),
        (Model(x=1), b'{"x":1,"y":null}'),
        ({"models": [Model(x=1, y=2)]}, b'{"models":[{"x":1,"y":2}]}'),
        (Text("tea"), b'"tea"'),
        ({"text": [Text("tea")]}, b'{"text":["tea"]}'),
        (b"text", b'"text"'),
        (None, b"null"),
    ],
)
def test_a_piece_is_one_json_message(piece, message):
    assert encode_piece(piece) == message


@pytest.mark.parametrize("piece", [object(), {1: object()}, b"\xff", Point, Model, "\ud800"])
def test_garbage_is_refused_without_the_text_of_a_library(piece):
    with pytest.raises(BadArgument, match=r"cannot be stored: yield text, JSON values or models"):
        encode_piece(piece)


def test_a_piece_that_contains_itself_is_refused():
    piece: dict = {}
    piece["self"] = piece
    with pytest.raises(BadArgument, match="cannot be stored"):
        encode_piece(piece)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([Model(x=1), Text("tea")], [{"x": 1, "y": None}, "tea"]),
        (1j, "1j"),
        ("\ud800", "?"),
        ("x" * limits.RUN_PIECE_BYTES_MAX, "This result of 1048578 bytes is too large to be shown."),
    ],
)
def test_a_foreign_value_becomes_json_or_text(value, expected):
    assert to_json_value(value) == expected


def test_a_piece_that_is_too_large_is_refused():
    with pytest.raises(BadArgument, match="larger than 1048576: yield smaller ones"):
        encode_piece("x" * (10 << 20))


def test_the_buffer_returns_all_pieces_in_order_as_far_as_they_fit(monkeypatch):
    monkeypatch.setattr(limits, "RUN_BATCH_BYTES_MAX", 2 * PIECE_OVERHEAD_BYTES + 4)
    monkeypatch.setattr(limits, "RUN_BUFFER_BYTES_MAX", 3 * PIECE_OVERHEAD_BYTES + 6)
    buffer = PieceBuffer(BufferedBytes())
    for piece in (b"1", b"22", b"333"):
        assert not buffer.full
        buffer.add(piece)
    assert buffer.full
    assert buffer.take() == b"[1,22]"
    assert not buffer.full
    assert buffer.take() == b"[333]"
    assert not buffer


def test_the_smallest_pieces_are_limited_in_number():
    buffer, pieces = PieceBuffer(BufferedBytes()), 0
    while not buffer.full:
        buffer.add(b"1")
        pieces += 1
    assert pieces < limits.APPEND_MESSAGES_MAX
    assert buffer.take().count(b"1") < pieces


def test_a_piece_that_is_larger_than_a_batch_is_a_batch_of_its_own(monkeypatch):
    monkeypatch.setattr(limits, "RUN_BATCH_BYTES_MAX", PIECE_OVERHEAD_BYTES + 2)
    buffer = PieceBuffer(BufferedBytes())
    buffer.add(b"12345")
    buffer.add(b"6")
    assert (buffer.take(), buffer.take()) == (b"[12345]", b"[6]")


def test_all_runs_together_have_a_limit_and_each_may_hold_one_piece(monkeypatch):
    monkeypatch.setattr(limits, "RUNS_BUFFER_BYTES_MAX", PIECE_OVERHEAD_BYTES + 3)
    shared = BufferedBytes()
    one, other = PieceBuffer(shared), PieceBuffer(shared)
    one.add(b"333")
    assert one.full
    assert not other.full
    other.add(b"1")
    assert other.full
    one.clear()
    assert not other.full
    other.take()
    assert shared.total == 0
