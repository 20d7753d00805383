"""A reader that stops reading costs the server no memory, delays nobody, and misses nothing."""

import json
from pathlib import Path

import httpx2
import pytest

from mainstem import limits
from tests.support.plain_http import EventReader

TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}
CLOSE = {"stream-closed": "true"}
MIB = 1024 * 1024


def resident_bytes(pid):
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024


def numbered_lines(first, number):
    """Return numbered lines of 4 KiB each."""
    return b"".join(b"%04095d\n" % (first + line) for line in range(number))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc, which only Linux has")
def test_a_stalled_reader_costs_no_memory_delays_nobody_and_gets_everything_once(start_server):
    server = start_server()
    path = f"{server.url}/v1/stream/big"
    lines, appends = 128, 64  # 512 KiB per append
    with httpx2.Client(timeout=30, trust_env=False) as client:
        # The same work first without a reader, so that the measurement shows the reader and not the caches.
        client.put(path + "-warm", headers=TEXT)
        for number in range(appends):
            client.post(path + "-warm", headers=TEXT, content=numbered_lines(number * lines, lines))
        client.put(path, headers=TEXT)
        target = "/v1/stream/big?offset=-1&live=sse"
        with (
            EventReader(server.address, target, receive_bytes=4096) as stalled,
            EventReader(server.address, target) as lively,
        ):
            stalled.take(1)
            lively.take(1)
            before = resident_bytes(server.pid)
            reached = 0
            for number in range(appends):
                sent = client.post(path, headers=TEXT, content=numbered_lines(number * lines, lines))
                assert sent.status_code == 204
                while reached < lines * 4096 * (number + 1):  # the other reader keeps up all the time
                    event = lively.next()
                    assert event is not None
                    reached += len(event.data) if event.name == "data" else 0
            grown = resident_bytes(server.pid) - before
            client.post(path, headers=TEXT | CLOSE, content=b"end")
            received = "".join(event.data for event in stalled.rest() if event.name == "data")
    assert grown < appends * lines * 4096 // 4, f"the server grew by {grown / MIB:.1f} MiB"
    assert received.encode() == numbered_lines(0, lines * appends) + b"end"


def test_readers_of_different_speed_get_the_same_messages_in_the_same_order(client, server, json_stream):
    """One reads continuously, one only at the end, one little by little with new connections."""
    target = f"{json_stream}?offset=-1&live=sse"
    messages = [{"n": number, "pad": "x" * 2000} for number in range(400)]
    with (
        EventReader(server.address, target) as eager,
        EventReader(server.address, target, receive_bytes=2048) as late,
    ):
        eager.take(1)
        late.take(1)
        at, sipped = "-1", []
        for start in range(0, 400, 20):
            client.post(json_stream, headers=JSON, json=messages[start : start + 20])
            with EventReader(server.address, f"{json_stream}?offset={at}&live=sse") as sip:
                event, control = sip.take(2)
                sipped += json.loads(event.data)
                at = control.control["streamNextOffset"]
        client.post(json_stream, headers=CLOSE)
        for reader in (eager, late):
            events = reader.rest()
            assert [m for event in events if event.name == "data" for m in json.loads(event.data)] == messages
            assert events[-1].control["streamClosed"] is True
    assert sipped == messages


def test_a_reader_that_leaves_is_forgotten(client, server, text_stream):
    before = server.app.live.readers
    for _ in range(10):
        with EventReader(server.address, f"{text_stream}?offset=-1&live=sse") as reader:
            reader.take(1)
    while server.app.live.readers > before:  # returns once the server has noticed, or with the time-out of the test
        client.post(text_stream, headers=TEXT, content=b"x")
    assert client.get(text_stream).status_code == 200


@pytest.mark.parametrize("content_type", ["text/plain", "application/json"])
def test_a_reader_that_retention_has_overtaken_gets_no_wrong_data(
    start_thread, connect_to, path, monkeypatch, content_type
):
    """Its response ends, and from then on its offset returns 410: the data that follows it has been trimmed."""
    monkeypatch.setattr(limits, "REAP_EVERY_S", 0.01)
    monkeypatch.setattr(limits, "RETENTION_EVERY_S", 0.01)
    server = start_thread()
    client = connect_to(server)
    client.put(path, headers={"content-type": content_type, "stream-retention": "max-bytes=1000"})
    records = [b'"%09d%b"' % (number, b"x" * 100_000) for number in range(120)]
    separator = b"," if content_type == "application/json" else b""
    stored = separator.join(records) + separator
    with EventReader(server.address, f"{path}?offset=-1&live=sse", receive_bytes=4096) as reader:
        reader.take(1)
        for record in records:  # far more than fits into the sockets between the server and the reader
            assert client.post(path, headers={"content-type": content_type}, content=record).status_code == 204
        last = f"{0:016d}_{len(stored) - len(records[-1] + separator):016d}"
        while client.head(path).headers["stream-earliest-offset"] != last:
            pass  # returns once the reaper has trimmed the stream, or with the time-out of the test
        client.post(path, headers=CLOSE)
        received, at = b"", None
        for event in reader.rest():
            if event.name == "data":
                data = event.data.encode()
                received += data[1:-1] + b"," if separator else data
            elif event.name == "control":
                at = event.control["streamNextOffset"]
    assert stored.startswith(received)
    assert at == f"{0:016d}_{len(received):016d}"
    gone = client.get(f"{path}?offset={at}&live=sse")
    assert (gone.status_code, gone.headers["stream-earliest-offset"]) == (410, last)
