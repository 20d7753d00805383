"""The guide to the JavaScript client is true: its page works in Chromium, and its blocks run in Node.js."""

import subprocess

import pytest
from playwright.sync_api import expect

from mainstem.testing.server import ServerProcess
from tests.docs.pages import FENCE, PORT, ROOT, matches
from tests.js_client.test_node import node_command
from tests.support.static_sites import serve_folder

GUIDE = (ROOT / "docs" / "guides" / "javascript-client.md").read_text()


def find_blocks(*languages: str) -> list[str]:
    return [match["text"] for match in FENCE.finditer(GUIDE) if match["language"] in languages]


@pytest.fixture
def server(tmp_path):
    with ServerProcess(tmp_path / "data") as server:
        yield server


def at(server: ServerProcess, text: str) -> str:
    """Return a text of the guide with the port of the server."""
    return text.replace(PORT, server.url.rpartition(":")[2])


def test_the_blocks_of_the_guide_run_in_nodejs_and_print_what_it_says(server, tmp_path):
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "mainstem-client").symlink_to(ROOT / "js")
    blocks = find_blocks("js")
    assert len(blocks) >= 8
    (tmp_path / "guide.mjs").write_text(at(server, "\n".join(blocks)))
    command = [*node_command(), "guide.mjs"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert matches("".join(find_blocks("output")), done.stdout), done.stdout


def test_the_page_of_the_guide_works_in_two_browsers_and_after_a_reload(server, browser, tmp_path):
    [html] = find_blocks("html")
    (tmp_path / "index.html").write_text(at(server, html))
    with serve_folder(tmp_path) as url:
        pages = [browser.new_context().new_page() for _ in range(2)]
        for page in pages:
            page.goto(url)
            expect(page.get_by_role("status")).to_have_text("live, 0 not sent")
        ada, bob = pages
        ada.get_by_label("Item").fill("<b>Milk</b>")
        ada.get_by_role("button", name="Add").click()
        expect(bob.get_by_role("listitem")).to_have_text(["<b>Milk</b>"])
        server.flags = ("--port", server.url.rpartition(":")[2])
        server.kill()
        expect(bob.get_by_role("status")).to_have_text("offline, 0 not sent")
        bob.get_by_label("Item").fill("Tea")
        bob.get_by_role("button", name="Add").click()
        expect(bob.get_by_role("listitem")).to_have_text(["<b>Milk</b>", "Tea"])
        server.start()
        bob.reload()  # without the server, the page could not load the client again
        for page in pages:
            expect(page.get_by_role("listitem")).to_have_text(["<b>Milk</b>", "Tea"])
            expect(page.get_by_role("status")).to_have_text("live, 0 not sent")
        for page in pages:
            page.context.close()
