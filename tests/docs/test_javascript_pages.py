"""The reference of the JavaScript client lists every error code, member, option and change, and no others."""

import re
from pathlib import Path

from tests.docs.pages import ROOT
from tests.docs.sections import Table, find_tables, read_sections
from tests.support.js_sources import (
    DECLARATIONS,
    find_changes,
    find_codes,
    find_declaration,
    find_retryable_codes,
    find_union,
)

PAGE = "\n".join(section.text for section in read_sections("javascript-client.md"))
MEMBER = re.compile(r"^  (?:get )?(\w+)(?:<.*>)?[(:]", re.MULTILINE)


def find_table(first: str) -> Table:
    return next(table for table in find_tables(PAGE) if table.head[0] == first)


def test_every_code_of_the_source_has_a_row_and_every_row_a_code():
    assert len(find_codes()) > 20
    assert sorted(find_table("code").names()) == sorted(find_codes() | find_union("ServerErrorCode"))


def test_a_row_says_whether_its_code_is_retryable():
    said = {row[0].strip("`"): row[1] for row in find_table("code").rows}
    assert {code for code, word in said.items() if word == "yes"} == find_retryable_codes()
    assert set(said.values()) == {"yes", "no"}


def test_the_codes_of_the_server_are_those_of_the_sync_protocol():
    [errors] = [section for section in read_sections("sync-protocol.md") if section.title == "Errors"]
    assert set(errors.names("code")) == find_union("ServerErrorCode")


def test_every_member_of_the_client_is_listed_and_no_other():
    members = set(MEMBER.findall(find_declaration("class OfflineClient"))) - {"constructor"}
    listed = {
        re.sub(r"^await |\(.*", "", name)
        for table in find_tables(PAGE)
        if table.head[0] == "member"
        for name in table.names()
    }
    assert len(members) > 20
    assert listed == members


def test_every_option_is_listed_and_no_other():
    options = re.findall(r"^  (\w+)\??:", find_declaration("interface ClientOptions"), re.MULTILINE)
    assert set(find_table("option").names()) == set(options)


def test_every_change_is_listed_and_no_other():
    assert set(find_table("change").names()) == find_changes()


def test_every_export_is_listed():
    exported = set(re.findall(r"^export (?:class|function) (\w+)", DECLARATIONS, re.MULTILINE)) | {"fileStore"}
    assert {name for row in find_table("import from").rows for name in re.findall(r"`(\w+)`", row[1])} == exported


def test_the_readme_of_the_package_leads_to_the_pages():
    readme = (ROOT / "js" / "README.md").read_text()
    for page in ("guides/javascript-client", "reference/javascript-client"):
        assert page in readme
        assert Path(ROOT, "docs", f"{page}.md").is_file()
