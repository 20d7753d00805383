import pytest

from mainstem.errors import JobsStreamUnusable
from mainstem.log.records import Kind
from mainstem.streams.commands.append import Append
from mainstem.streams.commands.create import Create
from mainstem.streams.commands.delete import Delete
from mainstem.streams.commands.fork import Fork
from mainstem.streams.commands.report import JOBS_RETENTION, ReportRound
from mainstem.streams.rules.json_mode import JSON, parse_body
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.rules.paths import JOBS_PATH
from mainstem.streams.states import JobRound, job_key
from tests.support.book import TEXT

KEY = job_key("archive", "main")


def report(text=b'{"n":1}', *, appended=True, **fields):
    round_ = JobRound(text, reported_at_us=5, position=1, clean=True)
    return ReportRound(KEY, round_, parse_body(text) if appended else None, **fields)


def test_the_first_report_creates_a_json_stream_with_retention(book):
    book.run(report())
    stream = book.stream(JOBS_PATH)
    assert (stream.content_type, stream.retention, stream.messages) == (JSON, JOBS_RETENTION, 1)
    assert [record.kind for record in book.records] == [Kind.CREATE, Kind.APPEND]
    assert book.records[-1].data == b'{"n":1},'


def test_a_later_report_replaces_the_last_round_and_is_appended(book):
    book.run(report(b"1"))
    book.run(report(b"2"))
    assert book.states[KEY].report == b"2"
    assert [record.data for record in book.records if record.kind is Kind.APPEND] == [b"1,", b"2,"]


def test_a_report_that_is_not_appended_writes_no_record(book):
    book.run(report(appended=False))
    assert book.states[KEY].report == b'{"n":1}'
    assert book.records == []
    assert list(book.states) == [KEY]


def test_forgotten_jobs_leave_the_table(book):
    book.run(report())
    other = job_key("audit", "other")
    round_ = JobRound(b"{}", reported_at_us=6, position=0, clean=True)
    book.run(ReportRound(other, round_, None, forgotten=(KEY,)))
    assert KEY not in book.states
    assert book.states[other] == round_


def test_a_stream_that_somebody_made_with_another_retention_is_used_as_it_is(book):
    book.run(Create(JOBS_PATH, "Application/JSON; charset=utf-8"))
    book.run(report())
    stream = book.stream(JOBS_PATH)
    assert (stream.messages, stream.retention) == (1, None)


def test_a_deleted_stream_is_created_again(book):
    book.run(report())
    book.run(Delete(JOBS_PATH))
    book.run(report())
    assert (book.stream(JOBS_PATH).read_seq, book.stream(JOBS_PATH).messages) == (1, 1)


def close_it(book):
    book.run(report())
    book.run(Append(JOBS_PATH, None, None, closes=True))


def make_it_text(book):
    book.run(Create(JOBS_PATH, TEXT))


def delete_it_under_a_fork(book):
    book.run(report())
    book.run(Fork("f", JOBS_PATH, None, Offset(0, 0), 0, None))
    book.run(Delete(JOBS_PATH))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [(close_it, "is closed"), (make_it_text, "content type text/plain"), (delete_it_under_a_fork, "forks read")],
)
def test_a_stream_that_cannot_hold_reports_is_an_error_and_nothing_changes(book, spoil, reason):
    spoil(book)
    states, records = dict(book.states), list(book.records)
    with pytest.raises(JobsStreamUnusable, match=reason):
        book.run(report(b"2"))
    assert (book.states, book.records) == (states, records)
