"""Records of very many messages: every reader gets past them, within limited memory."""

import asyncio
import io
import itertools
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pyarrow as pa
import pytest

from mainstem import limits
from mainstem.log.commit import CommitLog
from mainstem.log.live import Live
from mainstem.log.records import CommittedId, Kind, Record, TopicId
from mainstem.log.store import SqliteStore
from mainstem.server.log_api.formats import encode_ndjson
from mainstem.server.log_api.paging import ResumePoints, take_page
from mainstem.server.log_api.rows import Rows as ExportedRows
from mainstem.server.log_api.selection import COLUMNS, Selection
from mainstem.streams.commands.append import Append
from mainstem.streams.commands.create import Create, CreateDescription, Lifetime
from mainstem.streams.rules.json_mode import NOTHING, Messages, parse_body
from mainstem.testing.server import ServerProcess

ARROW = {"accept": "application/vnd.apache.arrow.stream"}
JSON = "application/json"
MANY = 1_200_000
NAMES = {TopicId(1): CreateDescription("json", JSON, 0), TopicId(2): CreateDescription("text", "text/plain", 0)}

# The rule, on records of any size


def record(number: int, messages: list[object], topic: int = 1) -> Record:
    data = parse_body(json.dumps(messages, separators=(",", ":")).encode()).data
    start = 1000 * number
    return Record(CommittedId(number), 0, Kind.APPEND, TopicId(topic), start, start + len(data), len(messages), data)


Rows = list[tuple[int, int, str, str]]


def read_all(
    records: list[Record], rows_max: int, bytes_max: int = 10**6, *, forgetful: bool = False
) -> tuple[Rows, int]:
    """Return all rows, read page by page as a client does, and the number of pages."""
    after, position, pages = 0, 0, 0
    rows: Rows = []
    resume_points: ResumePoints = {}
    while left := fitting([one for one in records if one.committed_id > after], bytes_max):
        if forgetful:
            resume_points.clear()
        taken = take_page(
            left, NAMES, Selection(after=after, position=position, bytes_max=1), resume_points, rows_max, bytes_max
        )
        made = ExportedRows(taken.records, NAMES, taken.first_position)
        assert len(made) <= rows_max
        got = [json.loads(line) for line in encode_ndjson(made, COLUMNS).splitlines()]
        rows += [(row["committed_id"], row["position"], row["offset"], row["data"]) for row in got]
        reached = left[-1].committed_id if taken.next is None else taken.next
        assert (reached, taken.position) > (after, position)
        after, position, pages = reached, taken.position, pages + 1
    return rows, pages


def fitting(records: list[Record], bytes_max: int) -> list[Record]:
    """Return as many records as a store returns at once: at least one, or all that fit."""
    sizes = itertools.accumulate(len(one.data) for one in records)
    return [
        one for number, (one, size) in enumerate(zip(records, sizes, strict=True)) if not number or size <= bytes_max
    ]


RECORDS = [
    record(1, [1, 2]),
    record(2, list(range(10))),
    record(3, ["x"]),
    record(4, [[n] for n in range(7)]),
    record(5, [0]),
]


@pytest.mark.parametrize("rows_max", [1, 2, 3, 4, 7, 10, 100])
def test_pages_that_end_within_records_hold_every_row_once(rows_max):
    whole, _ = read_all(RECORDS, 1000)
    assert [(number, place) for number, place, _, _ in whole] == [
        (one.committed_id, place) for one in RECORDS for place in range(one.messages)
    ]
    assert read_all(RECORDS, rows_max)[0] == whole
    assert read_all(RECORDS, rows_max, forgetful=True)[0] == whole


@pytest.mark.parametrize("bytes_max", [1, 5, 8, 20])
def test_a_record_is_also_split_by_bytes_but_never_within_a_message(bytes_max):
    rows, pages = read_all(RECORDS, 1000, bytes_max)
    assert rows == read_all(RECORDS, 1000)[0]
    assert pages > 1


def test_without_a_position_a_page_ends_between_records():
    taken = take_page(RECORDS, NAMES, Selection(), {}, rows_max=11)
    assert [one.committed_id for one in taken.records] == [1]
    assert (taken.next, taken.position) == (1, 0)
    taken = take_page(RECORDS[1:], NAMES, Selection(after=1), {}, rows_max=4)
    assert taken.records == RECORDS[1:2], "at least one whole record"


def test_a_position_applies_only_to_the_next_record():
    """That record may have been erased since."""
    taken = take_page(RECORDS[2:], NAMES, Selection(after=1, position=5), {}, rows_max=100)
    assert taken.records == RECORDS[2:]
    assert taken.first_position == 0


def test_a_position_beyond_the_record_continues_with_the_next():
    taken = take_page(RECORDS[1:], NAMES, Selection(after=1, position=10), {}, rows_max=100)
    assert taken.records == RECORDS[2:]


def test_a_record_that_cannot_be_split_is_sent_whole():
    text = Record(CommittedId(1), 0, Kind.APPEND, TopicId(2), 0, 1000, 1, b"x" * 1000)
    damaged = Record(CommittedId(1), 0, Kind.APPEND, TopicId(1), 0, 9, 5, b'1,"2,3,4,')
    for one in (text, damaged):
        taken = take_page([one, RECORDS[1]], NAMES, Selection(position=0, bytes_max=1), {}, rows_max=3, bytes_min=10)
        assert taken.records == [one]
        assert (taken.next, taken.position) == (1, 0)


# Over HTTP, with records that an HTTP client can no longer write


async def store_appends(directory: Path, *appends: Messages) -> None:
    store = SqliteStore(directory)
    await store.open()
    log = CommitLog(store, Live(), lambda: 1_700_000_000_000_000)
    log.start()
    await log.submit(Create("tiny", JSON, NOTHING, False, Lifetime(), None, 0))
    for messages in appends:
        await log.submit(Append("tiny", JSON, messages, False, None, None, None, 0))
    await log.stop()
    await store.close()


@pytest.fixture(scope="module")
def monster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Three appends: one message, more than a million messages, one message."""
    data = tmp_path_factory.mktemp("monster") / "data"
    data.mkdir()
    appends = [Messages(b'"before",', 1), Messages(b"7," * MANY, MANY), Messages(b'"behind",', 1)]
    asyncio.run(store_appends(data, *appends))
    with ServerProcess(data) as server:
        yield server


@pytest.fixture
def http(monster: ServerProcess) -> Iterator[httpx2.Client]:
    with closing(httpx2.Client(base_url=monster.url, timeout=60, trust_env=False)) as client:
        yield client


def peak_bytes(pid: int) -> int:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def exporters(server: ServerProcess) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()]


@pytest.mark.parametrize("headers", [ARROW, {}], ids=["arrow", "ndjson"])
def test_a_record_of_millions_of_messages_is_read_in_pages_within_limited_memory(monster, http, headers):
    after, position, rows, edges = 0, 0, 0, []
    while True:
        page = http.get("/v1/log", params={"after": after, "position": position}, headers=headers)
        assert page.status_code == 200, page.text
        rows += int(page.headers["log-rows"])
        assert int(page.headers["log-rows"]) <= limits.LOG_PAGE_ROWS
        if headers:
            with pa.ipc.open_stream(io.BytesIO(page.content)) as stream:
                places = stream.read_all().column("position").to_pylist()
        else:
            places = [json.loads(line)["position"] for line in page.text.splitlines()]
        edges.append((places[0], places[-1]))
        after, position = int(page.headers["log-next"]), int(page.headers.get("log-position", 0))
        if "log-up-to-date" in page.headers:
            break
    assert rows == MANY + 2
    # Every page continues where the previous one ended, up to the last message of the record.
    inside = [edge for edge in edges if edge[1] > 0]
    assert [first for first, _ in inside] == [0, *(last + 1 for _, last in inside[:-1])]
    assert inside[-1][1] == MANY - 1 or edges[-1] == (inside[-1][1] + 1, 0)
    [pid] = exporters(monster)
    assert peak_bytes(pid) < 400_000_000


def test_an_older_reader_gets_an_error_that_names_the_remedy(http):
    first = http.get("/v1/log", params={"until": 2})
    assert first.headers["log-rows"] == "1"
    refused = http.get("/v1/log", params={"after": 2})
    assert (refused.status_code, refused.json()["code"]) == (400, "record_too_large")
    assert "position=0" in refused.json()["hint"]


def test_a_tail_read_works_within_such_a_record(monster, http):
    assert http.get("/v1/stream/tiny", params={"tail": 1}).text == '["behind"]'
    assert http.get("/v1/stream/tiny", params={"tail": 4}).text == '[7,7,7,"behind"]'
    assert peak_bytes(monster.pid) < 400_000_000


def test_a_live_reader_gets_such_a_record_in_parts_and_may_resume_in_the_middle(http):
    def events(last: str | None):
        headers = {} if last is None else {"last-event-id": last}
        with http.stream("GET", "/v1/log", params={"live": "sse", "after": 2}, headers=headers) as response:
            rows = 0
            for line in response.iter_lines():
                if line.startswith('data:{"committed_id"'):
                    rows += 1
                elif line.startswith("id:"):
                    yield line.removeprefix("id:"), rows
                    rows = 0

    begun = events(None)
    place, rows = next(begun)
    assert (place, rows) == (f"2:{limits.LOG_PAGE_ROWS}", limits.LOG_PAGE_ROWS)
    begun.close()
    resumed = events(f"2:{MANY - 5}")
    assert [next(resumed), next(resumed)] == [("3", 5), ("4", 1)]
    resumed.close()
