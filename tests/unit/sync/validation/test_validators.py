import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import SettingsError
from mainstem.sync.validation.validators import FieldError, accept_all, load_hook, load_schemas, model_validator

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=15,
)


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
        ({"type": "other"}, FieldError("event.type", "is not the name of a schema on this server")),
        ({"type": "note", "schema": "other"}, FieldError("event.schema", "is not the name of a schema on this server")),
        (
            {"type": "event", "payload": {"schema": "x"}},
            FieldError("event.payload.schema", "is not the name of a schema on this server"),
        ),
        ({}, FieldError("event.type", "must be the name of a schema")),
        ({"type": 3}, FieldError("event.type", "must be the name of a schema")),
        ({"type": ["note"]}, FieldError("event.type", "must be the name of a schema")),
        ({"type": "note", "schema": None}, FieldError("event.schema", "must be the name of a schema")),
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


def test_an_exception_of_a_validator_is_passed_on():
    def broken(event, earlier):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        model_validator({"note": broken})({"type": "note"}, [])


def test_a_hook_is_named_by_module_and_callable():
    assert load_hook("mainstem.sync.validation.validators:accept_all") is accept_all


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
def test_an_uncallable_hook_stops_the_start(name, reason):
    with pytest.raises(SettingsError, match=reason):
        load_hook(name)


def test_schemas_are_loaded_from_the_json_files_of_a_directory(tmp_path):
    (tmp_path / "note.created.json").write_text('{"required": ["text"]}')
    (tmp_path / "free.json").write_text("{}")
    (tmp_path / "README.md").write_text("not a schema")
    schemas = load_schemas(tmp_path)
    assert schemas.keys() == {"note.created", "free"}
    assert model_validator(schemas)({"type": "note.created"}, []) == [FieldError("event.text", "is missing")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not a JSON object"),
        ("[]", "is not a JSON object"),
        ("true", "is not a JSON object"),
        ('"\udcff"', "is not a JSON object"),
        ('{"format": "date"}', "is invalid at #: has unsupported keywords: format"),
    ],
)
def test_a_bad_schema_file_stops_the_start_and_is_named(tmp_path, text, reason):
    path = tmp_path / "note.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(SettingsError) as raised:
        load_schemas(tmp_path)
    assert raised.value.detail == f"the schema {path} {reason}"


@pytest.mark.parametrize("name", ["", "no-such-directory"])
def test_a_directory_without_schemas_stops_the_start(tmp_path, name):
    with pytest.raises(SettingsError, match="so every event would be rejected"):
        load_schemas(tmp_path / name)
