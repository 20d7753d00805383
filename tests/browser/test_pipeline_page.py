"""The pipeline in the console: the last round of each job, and the history of rounds."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.browsers import PHONE

TABLE = {"table": "s3://bucket/lake", "version": 12, "files": 340, "bytes": 5 * 1024 * 1024}


@pytest.fixture
def server(start_server):
    return start_server("--store", "memory")


@pytest.fixture
def report(server, connect_to):
    http = connect_to(server)

    def send(job: str, name: str, **fields: Any) -> None:
        body = {"job": job, "name": name, "started_at": "2026-05-01T02:00:00Z", "duration_s": 1.5, **fields}
        reply = http.post("/v1/jobs", json=body)
        assert reply.status_code == 204, reply.text

    return send


def test_the_page_explains_itself_and_the_first_report_appears(open_console, server, report):
    page = open_console(server.url).open("pipeline")
    expect(page.get_by_role("heading", name="No job has reported yet")).to_be_visible()
    expect(page.get_by_label("Command")).to_have_text(f"mainstem pipeline archive ./lake --url {server.url}")
    expect(page.get_by_role("heading", name="History")).to_be_hidden()
    report("export", "nightly", rows=250, round=1)
    expect(page.get_by_role("region", name="nightly, export")).to_contain_text("250")
    expect(page.get_by_role("heading", name="No job has reported yet")).to_be_hidden()
    expect(page.locator(".tail-state")).to_have_text("Live")


def test_each_job_shows_its_last_round_and_an_archive_its_table(open_console, server, report):
    report("archive", "lake-eu", round=7, rows=1234, position=50, lag=3, details=TABLE)
    report("audit", "checks", faults=2)
    report("retain", "policies", error="the table is not readable")
    page = open_console(server.url).open("pipeline")
    archive = page.get_by_role("region", name="lake-eu, archive")
    expect(archive).to_contain_text("Round 7")
    expect(archive).to_contain_text("3 ids")
    for text in ("fine", "1\u202f234", "1.5 s", "s3://bucket/lake", "12", "340", "5 MiB"):
        expect(archive.get_by_text(text, exact=True)).to_be_visible()
    expect(page.get_by_role("region", name="checks, audit")).to_contain_text("2 faults")
    failed = page.get_by_role("region", name="policies, retain")
    expect(failed.get_by_text("failed", exact=True)).to_be_visible()
    expect(failed).to_contain_text("the table is not readable")
    report("retain", "policies", rows=1)
    expect(failed.get_by_text("fine", exact=True)).to_be_visible()


def test_the_history_is_followed_and_filtered_by_job(open_console, server, report):
    report("archive", "lake", round=1, rows=1)
    report("rollup", "hourly", round=1, rows=2)
    page = open_console(server.url).open("pipeline")
    names = page.locator("td.col-path")
    expect(names).to_have_text(["lake archive", "hourly rollup"])
    report("archive", "lake", round=2, rows=3, error="no space left")
    expect(names).to_have_text(["lake archive", "hourly rollup", "lake archive"])
    expect(page.locator("td.col-error").last).to_have_text("no space left")
    page.get_by_role("region", name="lake, archive").get_by_role("button", name="History").click()
    expect(names).to_have_text(["lake archive", "lake archive"])
    expect(page.get_by_label("Job", exact=True)).to_be_focused()
    report("rollup", "hourly", round=2, rows=4)
    report("archive", "lake", round=3, rows=5)
    expect(names).to_have_text(["lake archive"] * 3)
    page.reload()
    expect(names).to_have_text(["lake archive"] * 3)
    page.get_by_label("Job", exact=True).select_option("All jobs")
    expect(names).to_have_count(5)
    page.locator("td.col-error").get_by_text("no space left").click()
    expect(page.locator(".detail .problem")).to_have_text("no space left")


def test_reports_and_strange_messages_are_text(open_console, server, report, connect_to):
    console = open_console(server.url)
    console.page.on("dialog", lambda dialog: (console.problems.append(dialog.message), dialog.dismiss()))
    hostile = "\u202e<img src=x onerror=alert(1)>"
    details = {"table": hostile, "version": hostile, "files": None, "bytes": [1]}
    report("archive", "odd", error=hostile, details=details)
    strange = [
        1,
        None,
        "text",
        {"job": 5},
        {"job": hostile, "name": hostile, "rows": hostile, "error": {}, "details": 7},
    ]
    assert connect_to(server).post("/v1/stream/_mainstem/jobs", json=strange).status_code == 204
    page = console.open("pipeline")
    seen = hostile.replace("\u202e", "\\u202e")
    card = page.get_by_role("region", name="odd, archive")
    expect(card.locator(".problem")).to_have_text(seen)
    expect(card.locator("code")).to_have_text(seen)
    expect(card.get_by_text("Version")).to_have_count(0)
    expect(page.locator("td.col-path")).to_have_text(["odd archive", f"{seen} {seen}"])
    page.locator("td.col-path").last.click()
    expect(page.get_by_label("Content", exact=True)).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator("main img").count() == 0


def test_a_history_that_was_deleted_is_explained(open_console, server, report, connect_to):
    report("archive", "lake", rows=1)
    assert connect_to(server).delete("/v1/stream/_mainstem/jobs").status_code == 204
    page = open_console(server.url).open("pipeline")
    expect(page.get_by_role("region", name="lake, archive")).to_be_visible()
    expect(page.locator(".tail-state")).to_contain_text("does not exist")


def test_only_administrators_see_the_pipeline(guarded, open_console):
    server, issuer = guarded
    page = open_console(server.url).open("pipeline", issuer.token(metrics=True, streams=["**"]))
    expect(page.get_by_role("heading", name="Pipeline is not available")).to_be_visible()
    expect(page.get_by_role("navigation").get_by_role("link", name="Pipeline")).to_have_count(0)


def test_a_card_keeps_the_focus_while_reports_arrive(open_console, server, report):
    report("archive", "lake", round=1, rows=1)
    page = open_console(server.url).open("pipeline")
    card = page.get_by_role("region", name="lake, archive")
    card.get_by_role("button", name="History").focus()
    report("archive", "lake", round=2, rows=2)
    report("audit", "checks", rows=2)
    expect(card).to_contain_text("Round 2")
    expect(page.get_by_role("region", name="checks, audit")).to_be_visible()
    expect(card.get_by_role("button", name="History")).to_be_focused()


def test_a_phone_shows_everything(open_console, server, report):
    report("archive", "n" * 64, rows=1, error="e" * 900, details={**TABLE, "table": "s3://" + "t" * 500})
    page = open_console(server.url, viewport=PHONE).open("pipeline")
    expect(page.locator("td.col-path")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
