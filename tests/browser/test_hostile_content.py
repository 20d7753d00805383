"""Names, payloads and content types of strangers are text, whatever is in them."""

import json
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

SCRIPT = "<img src=x onerror=alert(1)><script>alert(1)</script>"
NAMES = [
    SCRIPT,
    "javascript:alert(1)",
    "\u202etxt.exe",
    "a\u200bb",
    "name with spaces/%2e%2e/&amp;\"'`",
    "\U0001f600/é/\u0301",
]


def show(path: str) -> str:
    return f"stream/{quote(path, safe='')}"


@pytest.fixture(autouse=True)
def no_dialogs(console):
    """A script that runs would open a dialog of the browser."""
    console.page.on("dialog", lambda dialog: (console.problems.append(dialog.message), dialog.dismiss()))


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_is_text_in_the_list_and_on_its_page(console, api, name):
    api.put("/v1/stream/" + quote(name, safe="/"), content=b"[1]", headers={"content-type": "application/json"})
    seen = name.replace("\u202e", "\\u202e").replace("\u200b", "\\u200b")
    page = console.open("streams")
    link = page.get_by_role("link", name=seen, exact=True)
    expect(link).to_be_visible()
    link.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(seen)
    expect(page.locator("td.col-content")).to_have_text("1")
    assert page.locator("main img, main script").count() == 0


def test_marks_of_direction_in_a_payload_are_escapes(console, api):
    api.put("/v1/stream/bidi", json=[{"file": "\u202egnp.exe", "html": SCRIPT}])
    page = console.open("stream/bidi")
    page.locator("td.col-content").click()
    payload = page.get_by_label("Content", exact=True)
    expect(payload.locator(".escape").first).to_have_text("\\u202e")
    expect(payload).to_contain_text("<script>alert(1)</script>")


def test_text_that_is_not_utf_8_shows_its_bytes(console, api):
    api.put("/v1/stream/latin", content=b"caf\xe9 \x00\x1b[31m", headers={"content-type": "text/plain"})
    page = console.open("stream/latin?offset=-1")
    page.locator("td.col-content").click()
    expect(page.get_by_label("Content", exact=True)).to_contain_text("caf\ufffd \\x00\\x1b[31m")
    page.get_by_role("button", name="Hex").click()
    expect(page.get_by_label("Content", exact=True)).to_contain_text("63 61 66 e9 20 00 1b 5b")


def test_bytes_are_a_hex_dump(console, api):
    api.put("/v1/stream/bytes", content=bytes(range(256)), headers={"content-type": "image/png"})
    page = console.open("stream/bytes")
    page.locator("td.col-content").click()
    expect(page.get_by_label("Content", exact=True)).to_contain_text(
        "00000040  40 41 42 43 44 45 46 47  48 49 4a 4b 4c 4d 4e 4f  |@ABCDEFGHIJKLMNO|"
    )


def test_a_hostile_content_type_is_text(console, api):
    hostile = 'text/html; x="<script>alert(1)</script>"'
    api.put("/v1/stream/typed", content=SCRIPT.encode(), headers={"content-type": hostile})
    page = console.open("stream/typed")
    expect(page.locator("dd").get_by_text("text/html")).to_be_visible()
    expect(page.locator("td.col-content")).to_have_text(SCRIPT)
    assert page.locator("main img, main script").count() == 0


def test_numbers_and_duplicate_keys_stay_as_they_were_sent(console, api):
    raw = '[{"n":12345678901234567890.0100,"n":1e400,"list":[],"nested":{"a":[1,{"b":null}]}}]'
    api.put("/v1/stream/exact", content=raw, headers={"content-type": "application/json"})
    page = console.open("stream/exact")
    page.locator("td.col-content").click()
    expected = (
        '{\n  "n": 12345678901234567890.0100,\n  "n": 1e400,\n  "list": [],\n'
        '  "nested": {\n    "a": [\n      1,\n      {\n        "b": null\n      }\n    ]\n  }\n}'
    )
    assert page.get_by_label("Content", exact=True).text_content() == expected


def test_a_message_of_10_mb_is_cut_and_more_is_shown_on_demand(console, api):
    message = {"text": "x" * 10_000_000, "end": True}
    api.put("/v1/stream/huge", content=json.dumps([message]), headers={"content-type": "application/json"})
    page = console.open("stream/huge")
    page.locator("td.col-content").click()
    payload = page.get_by_label("Content", exact=True)
    expect(page.get_by_text("Cut: this message has 9.54 MiB.")).to_be_visible()
    shown = len(payload.text_content())
    assert 30_000 < shown < 60_000
    page.get_by_role("button", name="Show more").click()
    assert 200_000 < len(payload.text_content()) - shown < 300_000
