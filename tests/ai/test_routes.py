"""The routes of chats, over real HTTP."""

import asyncio
import json
from contextlib import asynccontextmanager
from urllib.parse import quote
from uuid import uuid4

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from mainstem import limits, sign_url
from mainstem.ai import Runs
from mainstem.ai.registry import Ended
from mainstem.ai.routes import as_chunks, chat_routes, session_routes
from mainstem.client import AsyncStreams, BadArgument, Retries
from mainstem.server import create_app
from tests.ai.embedded import embedded
from tests.ai.sources import count
from tests.support.waits import eventually, eventually_async


@pytest.fixture
def http(chat_app):
    with httpx2.Client(base_url=chat_app.url, timeout=30) as http:
        http.post("/hold")
        yield http


@pytest.fixture
def chat():
    return uuid4().hex


def say(chat, text="hi", message="m1", **body):
    return {
        "id": chat,
        "messages": [{"id": message, "role": "user", "parts": [{"type": "text", "text": text}]}],
        **body,
    }


def test_start_points_to_a_stream_of_ui_message_chunks(http, chat):
    reply = http.post("/api/chat", json=say(chat))
    assert reply.status_code == 201
    assert reply.headers["location"] == reply.json()["streamUrl"]
    assert reply.headers["cache-control"] == "no-store"
    assert "Location" in reply.headers["access-control-expose-headers"]
    eventually(lambda: http.head(reply.headers["location"]).headers.get("stream-closed"))
    chunks = http.get(reply.headers["location"]).json()
    assert (chunks[0]["type"], chunks[-1]["type"]) == ("start", "finish")
    assert "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta") == "Hello, world"


def test_a_double_click_starts_one_run(http, chat):
    first = http.post("/api/chat", json=say(chat, "wait"))
    second = http.post("/api/chat", json=say(chat, "wait"))
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.headers["location"] == second.headers["location"]
    other = http.post("/api/chat", json=say(chat, "wait", message="m2"))
    assert (other.status_code, other.json()["code"]) == (409, "run_in_progress")
    assert "Stop it" in other.json()["hint"]
    http.post("/release")
    eventually(lambda: http.get(f"/api/chat/{chat}/stream").status_code == 204)
    again = http.post("/api/chat", json=say(chat, "wait"))
    assert again.headers["location"] == first.headers["location"]
    regenerated = http.post("/api/chat", json=say(chat, "wait", trigger="regenerate-message"))
    assert regenerated.status_code == 201
    assert regenerated.headers["location"] != first.headers["location"]


@pytest.mark.parametrize(
    "change", [{"text": "edited"}, {"trigger": "other"}, {"parts": [{"type": "tool-x"}]}], ids=repr
)
def test_another_question_with_the_same_message_gets_another_answer(http, chat, change):
    """The person has edited the message, or the front end has added the result of a tool to it."""

    def ask(**changed):
        message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": changed.pop("text", "hi")}]}
        message["parts"] += changed.pop("parts", [])
        return http.post("/api/chat", json={"id": chat, "messages": [message], **changed})

    first = ask()
    eventually(lambda: http.head(first.headers["location"]).headers.get("stream-closed"))
    assert ask().headers["location"] == first.headers["location"]
    second = ask(**change)
    assert (second.status_code, second.headers["location"] == first.headers["location"]) == (201, False)


@pytest.mark.parametrize("text", ["fail", "wait"])
def test_a_question_is_asked_again_if_its_answer_failed_or_was_stopped(http, chat, text):
    first = http.post("/api/chat", json=say(chat, text))
    http.post(f"/api/chat/{chat}/stop")
    eventually(lambda: http.get(f"/api/chat/{chat}/stream").status_code == 204)
    second = http.post("/api/chat", json=say(chat, text))
    assert (second.status_code, second.headers["location"] == first.headers["location"]) == (201, False)


def test_reconnecting_finds_the_run_and_then_nothing(http, chat):
    assert http.get(f"/api/chat/{chat}/stream").status_code == 204
    started = http.post("/api/chat", json=say(chat, "wait"))
    found = http.get(f"/api/chat/{chat}/stream")
    assert (found.status_code, found.json()) == (200, started.json())
    http.post("/release")
    eventually(lambda: http.get(f"/api/chat/{chat}/stream").status_code == 204)


def test_an_event_source_follows_to_the_end_and_is_then_told_to_stop(http, chat):
    events = {"accept": "text/event-stream"}
    url = http.post("/api/chat", json=say(chat, "wait")).headers["location"]
    redirected = http.get(f"/api/chat/{chat}/stream", headers=events)
    assert (redirected.status_code, redirected.headers["location"]) == (307, url + "?offset=-1&live=sse")
    http.post("/release")
    eventually(lambda: http.head(url).headers.get("stream-closed"))
    behind = {**events, "last-event-id": "0000000000000000_0000000000000000"}
    eventually(lambda: http.get(f"/api/chat/{chat}/stream").status_code == 204)
    assert http.get(f"/api/chat/{chat}/stream", headers=behind).status_code == 307
    done = {**events, "last-event-id": http.head(url).headers["stream-next-offset"]}
    assert http.get(f"/api/chat/{chat}/stream", headers=done).status_code == 204
    assert http.get(f"/api/chat/{chat}/stream", headers=events).status_code == 204


def test_stop(http, chat):
    assert http.post(f"/api/chat/{chat}/stop").json()["code"] == "run_not_found"
    url = http.post("/api/chat", json=say(chat, "wait")).headers["location"]
    stopped = http.post(f"/api/chat/{chat}/stop")
    assert (stopped.status_code, stopped.json()) == (202, {"id": chat, "status": "stopping"})
    eventually(lambda: http.head(url).headers.get("stream-closed"))
    assert http.get(url).json()[-1]["type"] == "abort"
    eventually(lambda: http.post(f"/api/chat/{chat}/stop").json()["status"] == "stopped")


def test_a_failure_is_in_the_stream_and_reveals_nothing(http, chat):
    url = http.post("/api/chat", json=say(chat, "fail")).headers["location"]
    eventually(lambda: http.head(url).headers.get("stream-closed"))
    assert http.get(url).json()[-1] == {"type": "error", "errorText": "The run failed."}


def test_the_list_needs_permission(http, chat):
    http.post("/api/chat", json=say(chat))
    assert http.get("/api/chat").status_code == 403
    listed = http.get("/api/chat", headers={"admin": "1"}).json()["runs"]
    assert chat in [run["id"] for run in listed]
    assert http.get("/api/session").json()["code"] == "forbidden"


@pytest.mark.parametrize("method", ["start", "follow", "stop"])
def test_a_caller_without_permission_reaches_no_chat(http, method):
    reply = {
        "start": lambda: http.post("/api/chat", json=say("forbidden")),
        "follow": lambda: http.get("/api/chat/forbidden/stream"),
        "stop": lambda: http.post("/api/chat/forbidden/stop"),
    }[method]()
    assert reply.status_code == 403


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"messages":[]}',
        b'{"id":5}',
        b'{"id":""}',
        b'{"id":"a\\nb"}',
        b'{"id":"a","messages":5}',
        b'{"id":"a","messages":[5]}',
        json.dumps({"id": "x" * 129}).encode(),
        b"[" * 100_000,
        b'{"id":' * 100_000,
        b'{"id":"\xff"}',
        b'{"id":"a","n":1e999}',
        json.dumps({"id": "ü" * 65}).encode(),
        b'{"id":"a","messageId":5}',
        b'{"id":"a","messages":[{"id":5}]}',
        json.dumps({"id": "a", "trigger": "x" * 129}).encode(),
        json.dumps({"id": "a", "messageId": "x" * 129}).encode(),
        json.dumps({"id": "a", "messages": [{"id": "x" * 1_000_000}]}).encode(),
    ],
    ids=lambda body: repr(body[:24]),
)
def test_bad_requests_start_nothing(http, body):
    reply = http.post("/api/chat", content=body, headers={"content-type": "application/json"})
    assert (reply.status_code, reply.json()["code"]) == (400, "bad_argument")
    assert reply.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("chat_id", ["x" * 129, "a%09b", "%00", "x" * 5000])
def test_ids_that_no_chat_has_are_refused_in_paths(http, chat_id):
    replies = [
        http.get(f"/api/chat/{chat_id}/stream"),
        http.post(f"/api/chat/{chat_id}/stop"),
        http.get(f"/api/session/{chat_id}/stream"),
        http.post(f"/api/session/{chat_id}/stop"),
        http.post(f"/api/session/{chat_id}", json=say("a")),
    ]
    assert [(reply.status_code, reply.json()["code"]) for reply in replies] == [(400, "bad_argument")] * len(replies)


def test_a_request_that_is_too_large_is_refused(http):
    body = b"x" * (limits.RUN_REQUEST_BYTES_MAX + 1)
    reply = http.post("/api/chat", content=body, headers={"content-type": "application/json"})
    assert (reply.status_code, reply.json()["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("values", ["{}", "[[[[]]]]", '""'])
def test_a_request_with_more_values_than_its_size_suggests_is_refused(http, values):
    body = b'{"id":"a","messages":[{"parts":[%b]}]}' % b",".join([values.encode()] * 1_000_000)[:4_000_000]
    reply = http.post("/api/chat", content=body, headers={"content-type": "application/json"})
    assert (reply.status_code, reply.json()["code"]) == (413, "body_too_large")


def test_pages_of_other_sites_start_and_stop_nothing(http, chat):
    assert (
        http.post("/api/chat", content=json.dumps(say(chat)), headers={"content-type": "text/plain"}).status_code == 400
    )
    other = {"sec-fetch-site": "cross-site"}
    assert http.post("/api/chat", json=say(chat), headers=other).status_code == 403
    assert http.post(f"/api/chat/{chat}/stop", headers=other).status_code == 403
    # Browsers do not send Sec-Fetch-Site to plain HTTP.
    assert http.post(f"/api/chat/{chat}/stop", headers={"origin": "http://other.example"}).status_code == 403
    for origin in ("null", "", "http://[", "http://" + "x" * 5_000):
        assert http.post(f"/api/chat/{chat}/stop", headers={"origin": origin}).status_code == 403
    assert http.post(f"/api/chat/{chat}/stop", headers={"origin": str(http.base_url).rstrip("/")}).status_code == 404


@pytest.mark.parametrize("chat_id", ["../../etc", "a/b", "ü ?#%", "_mainstem", "."])
def test_any_printable_id_is_a_chat_of_its_own(http, chat_id):
    reply = http.post("/api/chat", json=say(chat_id, message=uuid4().hex))
    assert reply.status_code == 201
    assert reply.headers["location"].startswith("/log/v1/stream/chats/")
    eventually(lambda: http.head(reply.headers["location"]).headers.get("stream-closed"))
    url = f"/api/chat/{quote(chat_id, safe='')}"
    if chat_id != ".":  # clients remove it from paths
        assert http.get(url + "/stream").status_code in (200, 204)
        assert http.post(url + "/stop").json()["id"] == chat_id


def test_the_next_message_may_come_as_soon_as_its_sender_sees_the_end(http, chat):
    """Readers see the end of an answer before the registry has it."""
    for number in range(20):
        url = http.post("/api/chat", json=say(chat, message=f"m{number}")).headers["location"]
        with http.stream("GET", url, params={"offset": "-1", "live": "sse"}) as reply:
            assert reply.status_code == 200
            for line in reply.iter_lines():
                if "streamClosed" in line:
                    break


def test_visitors_cannot_write_to_the_streams_of_runs(http, chat):
    url = http.post("/api/chat", json=say(chat, "wait")).headers["location"]
    json_type = {"content-type": "application/json"}
    assert http.post(url, content=b"1", headers=json_type).status_code == 403
    assert http.delete(url).status_code == 403
    assert http.get("/log/v1/stream/_mainstem/runs").status_code == 403


def test_a_session_keeps_one_stream_for_all_messages(http, chat):
    for number in (1, 2):
        reply = http.post(f"/api/session/{chat}", json={"messages": say(chat, message=f"m{number}")["messages"]})
        assert reply.status_code == 202
        url = http.get(f"/api/session/{chat}/stream?offset=-1").headers["location"]
        eventually(lambda number=number, url=url: types(http, url).count("RUN_FINISHED") == number)
    assert types(http, url)[:3] == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]


def test_a_session_answers_a_message_again_and_does_not_repeat_it(http, chat):
    """As `reload` of TanStack AI asks for it: with the request that was sent before."""
    question = {"messages": say(chat, "wait")["messages"]}
    url = http.get(f"/api/session/{chat}/stream").headers["location"]
    for _ in range(2):  # a double click
        assert http.post(f"/api/session/{chat}", json=question).status_code == 202
    http.post("/release")
    eventually(lambda: "RUN_FINISHED" in types(http, url))
    assert http.post(f"/api/session/{chat}", json=question).status_code == 202
    eventually(lambda: types(http, url).count("RUN_FINISHED") == 2)
    assert types(http, url).count("RUN_STARTED") == 2
    assert [event["role"] for event in events(http, url) if event["type"] == "TEXT_MESSAGE_START"] == [
        "user",
        "assistant",
        "assistant",
    ]


def test_a_session_does_not_repeat_messages_of_models(http, chat):
    """The front end sends them again with the result of a tool."""
    message = {"id": "a1", "role": "assistant", "parts": [{"type": "text", "content": "let me see"}]}
    assert http.post(f"/api/session/{chat}", json={"messages": [message]}).status_code == 202
    url = http.get(f"/api/session/{chat}/stream").headers["location"]
    eventually(lambda: "RUN_FINISHED" in types(http, url))
    assert types(http, url)[0] == "RUN_STARTED"


def events(http, url):
    return http.get(url).json()


def types(http, url):
    return [event["type"] for event in events(http, url)]


@asynccontextmanager
async def connect(*routes):
    app = Starlette(routes=routes)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://app") as http:
        yield http


@embedded
async def test_a_question_whose_answer_has_expired_is_answered_again(runs):
    async with connect(*chat_routes("/api/chat", runs, lambda chat: count(1))) as http:
        first = await http.post("/api/chat", json=say("chat"))
        run = await runs.find("chats/chat")
        assert run is not None
        assert await run.wait() == "finished"
        await runs.streams.delete(run.stream)
        second = await http.post("/api/chat", json=say("chat"))
        assert (second.status_code, second.headers["location"] == first.headers["location"]) == (201, False)


@embedded
async def test_a_question_may_be_asked_again_as_soon_as_its_end_is_visible(runs, monkeypatch):
    """Although the registry does not have the end yet."""
    real, visible, continues = runs.shared.note, asyncio.Event(), asyncio.Event()

    async def note_late(entry):
        if isinstance(entry, Ended):
            visible.set()
            await continues.wait()
        await real(entry)

    monkeypatch.setattr(runs.shared, "note", note_late)
    routes = [
        *chat_routes("/chat", runs, lambda chat: count(1)),
        *session_routes("/session", runs, lambda chat: count(1)),
    ]
    async with connect(*routes) as http:
        for path, body in (("/chat", say("a", trigger="regenerate-message")), ("/session/b", say("b"))):
            visible.clear()
            continues.clear()
            first = await http.post(path, json=body)
            try:
                async with asyncio.timeout(30):
                    await visible.wait()
                asking = asyncio.create_task(http.post(path, json=body))
                await asyncio.sleep(0.05)  # it waits for the end, which it can see
                assert not asking.done()
            finally:
                continues.set()
            second = await asking
            async with asyncio.timeout(30):
                await asyncio.gather(*[run.wait() for run in await runs.all()])
            assert path != "/chat" or second.headers["location"] != first.headers["location"]
        events = await runs.streams.read_json("sessions/b")
        assert [event["type"] for event in events].count("RUN_FINISHED") == 2


@embedded
async def test_routes_with_the_same_runs_do_not_share_chats(runs):
    chat_routes("/api/chat", runs, lambda chat: count(1))
    for prefix in ("chats", "chats/admin"):
        with pytest.raises(BadArgument, match="overlaps with 'chats' of other routes: pass another prefix="):
            chat_routes("/admin/chat", runs, lambda chat: count(1), prefix=prefix)
    chat_routes("/admin/chat", runs, lambda chat: count(1), prefix="chats-of-admins")
    chat_routes("/api/chat", Runs(AsyncStreams("http://127.0.0.1:1")), lambda chat: count(1))


@embedded
async def test_a_ttl_that_is_too_short_is_refused_before_a_visitor_comes(runs):
    for make in (chat_routes, session_routes):
        with pytest.raises(BadArgument, match="ttl_s is 60; it must be at least 900"):
            make("/api/chat", runs, lambda chat: count(1), ttl_s=60)


@embedded
async def test_requests_are_counted_until_their_answers_have_ended(runs, monkeypatch):
    ended = asyncio.Event()

    async def answer(chat):
        yield chat.text
        await ended.wait()

    monkeypatch.setattr(limits, "RUN_REQUESTS_MEMORY_BYTES_MAX", 3_000)
    async with connect(*chat_routes("/api/chat", runs, answer)) as http:
        assert (await http.post("/api/chat", json=say("a", "x" * 1_000))).status_code == 201
        refused = await http.post("/api/chat", json=say("b", "x" * 1_000))
        assert (refused.status_code, refused.json()["code"]) == (503, "too_many_runs")
        ended.set()

        async def ask():
            return (await http.post("/api/chat", json=say("b", "x" * 1_000))).status_code == 201

        await eventually_async(ask)


async def give(*pieces):
    for piece in pieces:
        yield piece


@pytest.mark.parametrize("pieces", [(None,), (5,), ({},), ({"type": 5},), ("text", {"type": "data-x"}), ("text", 5)])
async def test_an_answer_is_text_or_chunks(pieces):
    with pytest.raises(BadArgument, match="an answer is text or UI message chunks, and not both"):
        [chunk async for chunk in as_chunks(give(*pieces))]


@embedded
async def test_a_repeated_request_points_to_a_stream_that_exists(runs, log, monkeypatch):
    """Although the process that got the first request has not created it yet."""
    real, continues = runs.streams.create, asyncio.Event()

    async def hang_once(path, *args, **options):
        if path.startswith("chats/"):
            monkeypatch.setattr(runs.streams, "create", real)
            await continues.wait()
        return await real(path, *args, **options)

    async with Runs(log) as others:

        def serve(runs):
            return connect(*chat_routes("/api/chat", runs, lambda chat: count(1)))

        async with serve(runs) as http, serve(others) as other_http:
            monkeypatch.setattr(runs.streams, "create", hang_once)
            first = asyncio.create_task(http.post("/api/chat", json=say("chat")))
            await eventually_async(lambda: others.find("chats/chat"))
            try:
                second = await other_http.post("/api/chat", json=say("chat"))
                assert second.status_code == 200
                path = second.headers["location"].removeprefix("/v1/stream/")
                assert (await others.streams.head(path)).content_type == "application/json"
            finally:
                continues.set()
            assert (await first).headers["location"] == second.headers["location"]


async def test_streams_of_chats_expire():
    log = create_app(store="memory", public="read")
    runs, others = Runs(log), Runs(log)

    def make_routes(name, runs, **options):
        chats = chat_routes(f"/{name}/chat", runs, lambda chat: count(1), read_url="/log", **options)
        return [*chats, *session_routes(f"/{name}/session", runs, lambda chat: count(1), read_url="/log", **options)]

    app = Starlette(
        routes=[Mount("/log", log), *make_routes("default", runs), *make_routes("short", others, ttl_s=3600)]
    )
    async with (
        runs.lifespan(),
        others,
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://app") as http,
    ):

        async def start_answer(name):
            url = (await http.post(f"/{name}/chat", json=say(name))).headers["location"]
            return (await http.head(url)).headers["stream-ttl"]

        async def open_session(name, chat):
            opened = await http.get(f"/{name}/session/{chat}/stream")
            return (await http.head(opened.headers["location"])).headers["stream-ttl"]

        assert await start_answer("default") == str(limits.RUN_TTL_S)
        assert await start_answer("short") == "3600"
        assert await open_session("default", "kept") == str(limits.CHAT_TTL_S)
        assert await open_session("short", "other") == "3600"
        assert await open_session("short", "kept") == str(limits.CHAT_TTL_S), "a chat keeps the TTL that it began with"
        assert (await http.post("/short/session/kept", json=say("kept"))).status_code == 202


@pytest.mark.slow
async def test_visitors_do_not_learn_where_the_log_is(start_server, caplog):
    server = start_server()
    async with AsyncStreams(server.url, retries=Retries(attempts_max=1)) as streams, Runs(streams) as runs:
        app = Starlette(routes=chat_routes("/api/chat", runs, lambda chat: count(1)))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://app") as http:
            await asyncio.to_thread(server.kill)
            reply = await http.post("/api/chat", json=say("chat"))
    assert (reply.status_code, reply.json()["code"], reply.json()["retryable"]) == (503, "runs_unavailable", True)
    assert server.url.rpartition(":")[2] not in reply.text
    assert "POST /api/chat failed" in caplog.text


@pytest.mark.parametrize("chat_id", ["plain", "ü ?#%/..", "a&b=c"])
async def test_answers_are_read_with_signed_urls_if_the_log_requires_tokens(tmp_path, chat_id):
    secret = "a secret that only this test and its log know"
    (tmp_path / "secret").write_text(secret)
    log = create_app(store="memory", jwt_secret_file=str(tmp_path / "secret"))
    runs = Runs(log)

    def read_url(path):
        return sign_url("http://app/log" + path, secret)

    routes = [Mount("/log", log), *chat_routes("/api/chat", runs, lambda chat: count(2), read_url=read_url)]
    app = Starlette(routes=routes)
    async with (
        runs.lifespan(),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://app") as http,
    ):
        url = (await http.post("/api/chat", json=say(chat_id))).json()["streamUrl"]
        assert (await http.get(url.partition("?")[0])).status_code == 401
        events = (await http.get(url + "&offset=-1&live=sse")).text
        assert '"delta":"1 "' in events
        assert '"streamClosed":true' in events
        source = {"accept": "text/event-stream", "last-event-id": "-1"}
        followed = await http.get(f"/api/chat/{quote(chat_id, safe='')}/stream", headers=source, follow_redirects=True)
        assert '"streamClosed":true' in followed.text
