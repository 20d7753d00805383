"""Packages of other people that build on the official JavaScript client, unchanged, against a real server."""

import re
from pathlib import Path

import pytest

from tests.official_clients.test_javascript_client import node, run

__all__ = ["node"]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "other-clients.md"

SEEN = {
    "@durable-streams/state": ("state", {"theme": "light", "hasLanguage": False, "size": 12}),
    "@durable-streams/aisdk-transport": (
        "aisdk",
        {"text": "Hello, world", "resumed": "Hello, world", "closed": True},
    ),
    "@durable-streams/tanstack-ai-transport": (
        "tanstack",
        {"status": 200, "snapshot": ["user", "assistant"], "text": "Still here"},
    ),
    "@durable-streams/y-durable-streams": ("yjs", {"items": 40, "equal": True}),
}


@pytest.mark.slow
@pytest.mark.timeout(360)
@pytest.mark.parametrize("package", SEEN)
def test_a_package_works_unchanged(start_server, node, package):
    server = start_server()
    program, expected = SEEN[package]
    assert run(node, "packages.mjs", server.url, program) == expected
    assert "Traceback" not in server.stderr


def test_the_page_lists_the_packages_that_these_tests_run_with_their_versions():
    """The table under "Tested automatically" has one row per package of package.json and per other client."""
    from tests.official_clients.inventory import AUTOMATED

    section = PAGE.read_text().partition("## Tested automatically")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([^ |]+) \|", section, re.MULTILINE)
    assert sorted(rows) == sorted(AUTOMATED.items())
