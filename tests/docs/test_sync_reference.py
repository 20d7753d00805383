"""sync-protocol.md names the messages of the sync protocol, their fields and their errors: all of them, and no more."""

import re

import pytest

from mainstem.errors import SyncError
from mainstem.server.descriptions.asyncapi import build_asyncapi
from mainstem.server.descriptions.sync_messages import FROM_CLIENT, FROM_SERVER, SYNC_ERRORS
from mainstem.server.settings import Settings
from mainstem.sync.protocol.messages import Envelope, Message, OversizeMessage
from mainstem.sync.protocol.replies import CAPABILITIES, close_code
from mainstem.sync.protocol.session import ALLOWED_TYPES
from tests.docs.sections import CODE, Section, read_sections
from tests.support.json_schemas import list_fields

SECTIONS = read_sections("sync-protocol.md")
DOCUMENT = build_asyncapi(Settings(), "")
MESSAGES = FROM_CLIENT | FROM_SERVER


def find(title: str) -> Section:
    return next(section for section in SECTIONS if section.title == title)


def find_message(type_: str) -> Section:
    """The section of a message. One without a table, for several messages, shares the table of the section before."""
    number, section = next((n, s) for n, s in enumerate(SECTIONS) if type_ in s.title.split(", "))
    return section if section.tables("field") or ", " not in section.title else SECTIONS[number - 1]


def fields_of(type_: str) -> set[str]:
    payload = DOCUMENT["components"]["messages"][type_]["payload"]["properties"]["payload"]
    return set(list_fields(payload, DOCUMENT))


def test_every_message_has_a_section_under_its_sender():
    titles = [section.title for section in SECTIONS]
    borders = [n for n, title in enumerate(titles) if re.fullmatch(r"(Messages f|F)rom the (client|server)", title)]
    end = titles.index("Errors")
    listed = [
        {name for title in titles[start + 1 : stop] for name in title.split(", ")}
        for start, stop in zip(borders, [borders[1], end], strict=True)
    ]
    assert listed == [set(FROM_CLIENT), set(FROM_SERVER)]


@pytest.mark.parametrize("type_", MESSAGES)
def test_a_section_names_no_field_that_the_message_does_not_have(type_):
    """A row names a field by its path, or an item of the one array that the section is about by its own name."""
    rows, fields = find_message(type_).names("field"), fields_of(type_)
    if len(find_message(type_).title.split(", ")) > 1 or type_ in ("event_committed", "event_rejected"):
        fields |= fields_of("submit_events_result")
    leaves = fields | {field.rpartition("[].")[2] for field in fields}
    assert set(rows) <= leaves
    assert len(set(rows)) == len(rows)


@pytest.mark.parametrize("type_", MESSAGES)
def test_a_section_names_every_field_of_the_message(type_):
    section = find_message(type_)
    rows = {name: row[-1] for table in section.tables("field") for row in table.rows for name in CODE.findall(row[0])}
    prose = set(CODE.findall(section.prose))
    for field in fields_of(type_):
        parent, _, leaf = field.rpartition(".")
        parent = parent.removesuffix("[]")
        if field in rows or (leaf in rows and (parent in prose or "[]" in field)):
            continue
        if parent:  # its parent's row names it, or the message whose fields these are
            row = rows.get(parent) or rows.get(parent.rpartition("[].")[2]) or ""
            named = CODE.findall(row)
            assert leaf in named or any(leaf in fields_of(other) for other in named if other in MESSAGES), field
        else:
            assert field in prose, field
            assert not rows or any(name in field_items(type_, field) for name in rows), field


def field_items(type_: str, field: str) -> set[str]:
    """The names of the fields of an array's items."""
    return {name.removeprefix(f"{field}[].") for name in fields_of(type_) if name.startswith(f"{field}[].")}


def test_the_envelope_has_the_fields_of_the_structs():
    assert set(find("Envelope").names("field")) == {*Envelope.__struct_fields__, *Message.__struct_fields__}


def test_the_states_accept_the_messages_that_the_session_accepts():
    listed = {row[0]: set(CODE.findall(row[1])) for row in find("States").tables("state")[0].rows}
    assert listed == {state.value: set(types) for state, types in ALLOWED_TYPES.items()}


def test_the_capabilities_are_listed():
    row = next(row for row in find("connected").tables("field")[0].rows if row[0] == "`capabilities`")
    assert CODE.findall(row[1]) == CAPABILITIES


def test_every_error_is_listed_with_its_close_code():
    rows = find("Errors").tables("code")[0].rows
    listed = {(CODE.findall(row[0])[0], row[2]) for row in rows}
    found: tuple[type[SyncError], ...] = (*SYNC_ERRORS, OversizeMessage)
    # Only the class decides about the close code, and not every class takes the same arguments.
    assert listed == {(error.code, str(close_code(error.__new__(error))) if error.closes else "") for error in found}
