"""Live reads with a token: they work, they are private, and they end when the token expires."""

import threading

import pytest

from mainstem.testing.clock import SECOND_US, START_US, FakeClock
from tests.auth.endpoints import ROOT, TEXT, make_closed, make_stream
from tests.support.event_streams import open_events
from tests.support.issuers import bearer


@pytest.fixture
def reader(guarded, path, connect_to):
    client = connect_to(guarded.server)
    client.headers.update(bearer(guarded.secret.token(streams={"read": [path]})))
    return client


def test_an_sse_reader_gets_later_appends(admin, reader, path):
    make_stream(admin, path)
    with open_events(reader, f"{ROOT}{path}?offset=-1&live=sse") as events:
        assert next(events).data == "data"
        assert next(events).json["upToDate"]
        admin.post(ROOT + path, headers=TEXT, content=b"more")
        assert next(events).data == "more"


def test_a_long_poll_gets_later_appends(admin, reader, path):
    make_stream(admin, path)
    at = admin.head(ROOT + path).headers["stream-next-offset"]
    found = []
    poll = threading.Thread(target=lambda: found.append(reader.get(f"{ROOT}{path}?offset={at}&live=long-poll")))
    poll.start()
    admin.post(ROOT + path, headers=TEXT, content=b"more")
    poll.join()
    assert (found[0].status_code, found[0].content) == (200, b"more")


@pytest.fixture
def brief(secret_file, start_thread, connect_to, path):
    """A reader whose token has half a second left, with a clock that stands still."""
    file, issuer = secret_file
    server = start_thread(jwt_secret_file=file, store="memory", clock_us=FakeClock())
    client = connect_to(server)
    client.headers.update(bearer(issuer.token(admin=True)))
    make_stream(client, path)
    client.headers.update(bearer(issuer.token(streams=[path], exp=START_US / SECOND_US + 0.5)))
    return client


@pytest.mark.parametrize("url", [ROOT + "{path}?offset=-1&live=sse", "/v1/stream-set?stream={path}&live=sse"])
@pytest.mark.timeout(30)  # far less than the usual length of a response
def test_an_sse_response_ends_cleanly_when_its_token_expires(brief, path, url):
    reply = brief.get(url.format(path=path))
    assert reply.status_code == 200
    assert "data" in reply.text


@pytest.mark.timeout(20)  # less than the usual length of a long-poll
def test_a_long_poll_ends_when_its_token_expires(brief, path):
    assert brief.get(f"{ROOT}{path}?offset=now&live=long-poll").status_code == 204


@pytest.mark.parametrize("query", ["", "?offset=-1&live=long-poll", "?offset=-1&live=sse"])
def test_reads_with_a_token_are_not_stored_in_shared_caches(admin, reader, path, query):
    make_closed(admin, path)
    reply = reader.get(ROOT + path + query)
    assert reply.status_code == 200
    assert "private" in reply.headers["cache-control"]
    assert "public" not in reply.headers["cache-control"]
    assert "authorization" in reply.headers["vary"]
    if "sse" not in query:
        assert reply.headers["cache-control"] == "private, max-age=60, stale-while-revalidate=300"
        assert reply.headers["vary"] == "accept-encoding, authorization"
        again = reader.get(ROOT + path + query, headers={"if-none-match": reply.headers["etag"]})
        assert (again.status_code, again.headers["vary"]) == (304, "accept-encoding, authorization")


def test_a_set_is_private_too(admin, reader, path):
    make_closed(admin, path)
    reply = reader.get(f"/v1/stream-set?stream={path}&live=sse")
    assert (reply.headers["cache-control"], reply.headers["vary"]) == ("private, no-cache", "authorization")


def test_public_replies_stay_public(client):
    assert client.get(ROOT + "__ds/jwks.json").headers["cache-control"] == "public, max-age=300"


def test_without_tokens_everything_stays_public(start_thread, connect_to, path):
    open_client = connect_to(start_thread(store="memory"))
    make_stream(open_client, path)
    reply = open_client.get(f"{ROOT}{path}?token=mine")
    assert reply.headers["cache-control"] == "public, max-age=60, stale-while-revalidate=300"
    assert reply.headers["vary"] == "accept-encoding"
