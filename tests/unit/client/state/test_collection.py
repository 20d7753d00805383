import enum
import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict
from uuid import UUID

import msgspec
import pytest
from msgspec import UNSET

from mainstem.client import BadArgument
from mainstem.client.state.collection import Collection
from mainstem.client.state.messages import Malformed


@dataclass
class User:
    id: str
    name: str
    tags: list[str] = field(default_factory=list)


class Task(msgspec.Struct, rename="camel"):
    task_id: int
    done_at: datetime | None = None


class Model:
    """Quacks like a Pydantic model."""

    def __init__(self, id, name):
        self.id, self.name = id, name

    def __eq__(self, other):
        return vars(self) == vars(other)

    def __hash__(self):
        return hash(self.id)

    def model_dump(self, *, mode, by_alias):
        assert (mode, by_alias) == ("json", True)
        return {"id": self.id, "name": self.name}

    @classmethod
    def model_validate_json(cls, value_json):
        value = msgspec.json.decode(value_json)
        if not isinstance(value.get("name"), str):
            raise ValueError("1 validation error\n  name: a string, please")
        return cls(value["id"], value["name"])


users = Collection("user", User, key="id")
tasks = Collection("task", Task, key="taskId")
models = Collection("model", Model, key="id")
dicts = Collection("dict", dict[str, Any], key="id")
settings = Collection("setting", str)

VALUES = [
    (users, User("1", "Ada", ["a"]), "1", {"id": "1", "name": "Ada", "tags": ["a"]}),
    (tasks, Task(7, datetime(2026, 1, 1, tzinfo=UTC)), "7", {"taskId": 7, "doneAt": "2026-01-01T00:00:00Z"}),
    (models, Model("m", "Eve"), "m", {"id": "m", "name": "Eve"}),
    (dicts, {"id": 5, "any": [None]}, "5", {"id": 5, "any": [None]}),
]
IDS = ["dataclass", "struct", "pydantic", "dict"]


@pytest.mark.parametrize(("collection", "value", "key", "encoded"), VALUES, ids=IDS)
def test_a_value_becomes_a_change_and_the_change_a_value(collection, value, key, encoded):
    change = collection.insert(value, txid="t")
    assert (change.type, change.key, change.operation, change.txid) == (collection.type, key, "insert", "t")
    assert change.value == encoded
    assert collection.decode(change.value, change.key) == value


class Point(NamedTuple):
    x: int
    y: int


class Colour(enum.Enum):
    RED = "red"


class Named(TypedDict):
    id: str
    size: int


@dataclass
class Chapter:
    pages: dict[int, str]
    heights: dict[float, Point] = field(default_factory=dict)


@dataclass
class Book:
    chapters: dict[str, Chapter]
    printed: set[date] = field(default_factory=set)


BOOK = Book({"one": Chapter({1: "a"}, {0.5: Point(1, 2)})}, {date(2026, 1, 1)})

MODELS: list[tuple[Any, Any]] = [
    (Named, {"id": "1", "size": 2}),
    (Named | None, None),
    (list[int], [1, 2]),
    (int | str, "x"),
    (Literal["a", "b"], "b"),
    (NewType("Number", int), 5),
    (Annotated[int, msgspec.Meta(ge=3)], 3),
    (Any, {"a": [1]}),
    (dict[int, str], {1: "a"}),
    (dict[Colour, UUID], {Colour.RED: UUID(int=5)}),
    (Book, BOOK),
    (Point, Point(1, 2)),
    (tuple[int, str], (1, "a")),
    (frozenset[int], frozenset({1})),
    (bytes, b"\xff"),
    (Decimal, Decimal("1.50")),
    (timedelta, timedelta(days=1)),
    (int, 10**30),
    (type(None), None),
]


@pytest.mark.parametrize(("model", "value"), MODELS, ids=[str(model) for model, _ in MODELS])
def test_a_model_may_be_any_type_that_msgspec_decodes_from_json(model, value):
    things: Collection[Any] = Collection("thing", model)
    change = things.insert(value, "k")
    written = msgspec.json.encode(change.value)
    assert change.value == msgspec.json.decode(written)
    assert things.decode(change.value, "k") == value
    assert things.decode(change.value, "k", written) == value


def test_a_collection_may_come_before_a_class_that_its_model_names():
    things = Collection("thing", Shelf)
    assert things.insert(Shelf([Late(1)]), "k").value == {"books": [{"id": 1}]}


@dataclass
class Shelf:
    books: list["Late"]


@dataclass
class Late:
    id: int


def test_strict_pydantic_models_and_base64_work():
    pydantic = pytest.importorskip("pydantic")
    config = pydantic.ConfigDict(strict=True, val_json_bytes="base64", ser_json_bytes="base64")
    model = pydantic.create_model("Model", __config__=config, id=int, on=date, uid=UUID, data=bytes, all=set[int])
    strict = Collection("strict", model, key="id")
    value = model(id=3, on=date(2026, 1, 1), uid=UUID(int=5), data=b"\xff", all={1})
    encoded = strict.insert(value).value
    assert isinstance(encoded, dict)
    assert strict.decode(encoded, "3") == value
    assert strict.decode({**encoded, "id": "3"}, "3") == value  # as StreamDB writes it


def test_a_pydantic_model_with_a_number_that_json_does_not_have_is_refused():
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", x=(float | None, None))
    with pytest.raises(BadArgument, match="no Infinity"):
        Collection("model", model).insert(model(x=math.inf), "k")


def test_a_real_pydantic_model_works():
    pydantic = pytest.importorskip("pydantic")
    account = pydantic.create_model("Account", id=(int, ...), opened=(datetime, ...))
    accounts = Collection("account", account, key="id")
    value = account(id=3, opened=datetime(2026, 1, 1, tzinfo=UTC))
    change = accounts.insert(value)
    assert change.key == "3"
    assert accounts.decode(msgspec.json.decode(msgspec.json.encode(change.value)), "3") == value
    with pytest.raises(Malformed, match="does not fit"):
        accounts.decode({"opened": "never"}, "3")


def test_the_operations_differ_in_their_values():
    ada, old = User("1", "Ada"), User("1", "A.")
    assert users.update(ada, old_value=old).old_value == {"id": "1", "name": "A.", "tags": []}
    assert users.upsert(ada).operation == "upsert"
    by_key = users.delete("1")
    assert (by_key.key, by_key.value, by_key.old_value) == ("1", UNSET, UNSET)
    by_value = users.delete(old_value=old)
    assert (by_value.key, by_value.old_value) == ("1", {"id": "1", "name": "A.", "tags": []})


def test_without_a_key_member_values_need_not_be_objects():
    assert settings.insert("dark", "theme").value == "dark"
    assert settings.decode("dark", "theme") == "dark"
    with pytest.raises(BadArgument, match="pass key="):
        settings.insert("dark")


@pytest.mark.parametrize(
    "make",
    [
        lambda: users.insert(Task(1)),  # type: ignore[arg-type]
        lambda: users.insert(None),  # type: ignore[arg-type]
        lambda: users.insert(User("1", 5)),  # type: ignore[arg-type]
        lambda: users.insert(User("", "Ada")),
        lambda: users.insert(User("1", "Ada"), ""),
        lambda: users.insert(User("1", "Ada"), 5),  # type: ignore[arg-type]
        lambda: users.insert(User("1", "Ada"), txid=""),
        lambda: users.insert(User("1", "Ada"), txid=5),  # type: ignore[arg-type]
        lambda: users.insert(User("1", "Ada"), timestamp="now"),
        lambda: users.insert(User("1", "Ada"), timestamp=datetime.now(UTC)),  # type: ignore[arg-type]
        lambda: tasks.insert(Task(1), "x"),
        lambda: Collection("list", list[int], key="id").insert([1], "1"),
        lambda: users.delete(),
        lambda: users.delete(""),
        lambda: dicts.insert({"name": "no id"}),
        lambda: dicts.insert({"id": True}),
        lambda: dicts.insert({"id": 1.5}),
        lambda: dicts.insert({"id": None}),
        lambda: models.insert(Model("1", None)),
        lambda: dicts.insert({"id": "1", "x": math.nan}),
        lambda: dicts.insert({"id": "1", "x": object()}),
        lambda: dicts.insert({"id": "1", "x": "\ud800"}),
        lambda: dicts.insert({"id": "1", "x": {None: 1}}),
        lambda: Collection("named", Named).insert({"id": "1"}, "k"),  # type: ignore[typeddict-item]
        lambda: Collection("list", list[int]).insert(["a"], "k"),  # type: ignore[list-item]
        lambda: Collection("complex", complex).insert(1j, "k"),
        lambda: Collection("", dict),
        lambda: Collection("user", dict, key=""),
    ],
)
def test_a_change_that_readers_could_not_apply_is_a_bad_argument(make):
    with pytest.raises(BadArgument):
        make()


def test_an_unknown_header_is_a_type_error():
    with pytest.raises(TypeError, match="colour"):
        users.insert(User("1", "Ada"), colour="red")


@pytest.mark.parametrize("value", [None, 5, "text", [], True])
def test_a_value_that_is_not_an_object_does_not_fit(value):
    with pytest.raises(Malformed, match="not an object"):
        users.decode(value, "1")


def test_a_value_of_the_wrong_shape_is_malformed_and_the_reason_is_one_short_line():
    with pytest.raises(Malformed, match=r"the value of 'user' '1' does not fit: Expected `str`, got `int`"):
        users.decode({"name": 5}, "1")
    with pytest.raises(Malformed, match=r"1 validation error name: a string, please$"):
        models.decode({}, "1")


def test_the_key_of_the_message_takes_precedence():
    """As in the JavaScript package, which writes the key into the value."""
    assert users.decode({"name": "Ada"}, "1") == User("1", "Ada")
    assert users.decode({"id": "2", "name": "Ada"}, "1") == User("1", "Ada")
    assert tasks.decode({"taskId": 7}, "7") == Task(7)
    assert dicts.decode({"id": True}, "True") == {"id": "True"}


def test_a_key_that_is_the_text_of_a_whole_number_fits_a_model_with_a_number():
    """StreamDB writes every key as text."""
    assert tasks.decode({"taskId": "7"}, "7") == Task(7)
    assert tasks.decode({}, "-7") == Task(-7)
    assert tasks.decode({"taskId": 1}, "7") == Task(7)
    assert users.decode({"id": "7", "name": "Ada"}, "7") == User("7", "Ada")


@pytest.mark.parametrize("key", ["07", "+7", " 7", "7_0", "7.0", "-0", "٧", "x", "9" * 5_000])
def test_other_texts_are_not_numbers(key):
    with pytest.raises(Malformed, match="does not fit: Expected `int`, got `str`"):
        tasks.decode({"taskId": key}, key)


def test_decoding_leaves_the_message_as_it_was():
    value = {"name": "Ada"}
    users.decode(value, "1")
    assert value == {"name": "Ada"}
