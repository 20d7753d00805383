"""Routes for chats in FastAPI and Starlette apps: start a run, follow it, stop it, and list runs.

`chat_routes` speaks the contract of `@durable-streams/aisdk-transport`, for `useChat` of the AI SDK, with a stream per
answer. `session_routes` speaks that of `@durable-streams/tanstack-ai-transport`, with a stream per chat.
"""

import asyncio
import inspect
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from http import HTTPStatus
from typing import Any
from urllib.parse import quote
from weakref import WeakKeyDictionary

from mainstem import limits
from mainstem.ai.ag_ui import to_ag_ui
from mainstem.ai.errors import (
    RequestForbidden,
    RequestTooLarge,
    RunInProgress,
    RunNotFound,
    RunsUnavailable,
    TooManyRuns,
)
from mainstem.ai.execution import close_source
from mainstem.ai.pieces import InvalidPiece
from mainstem.ai.runs import Run, Runs, check_ttl
from mainstem.ai.ui_messages import text_chunks
from mainstem.client.core.errors import BadArgument, ClientError, NotFound
from mainstem.client.core.results import StreamInfo

try:
    from starlette.requests import Request
    from starlette.responses import JSONResponse, RedirectResponse, Response
    from starlette.routing import BaseRoute, Route

    from mainstem.ai.chat_requests import (
        SUBMIT,
        ChatRequest,
        check_id,
        is_from_another_site,
        message_text,
        read_chat,
    )
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"the routes of mainstem.ai need the package {error.name}; install it with: pip install 'mainstem[ai]'"
    ) from None

__all__ = ["Answer", "Authorize", "ChatRequest", "chat_routes", "message_text", "session_routes"]

NO_STORE = {"cache-control": "no-store"}
PROBLEM = "application/problem+json"

logger = logging.getLogger(__name__)

Authorize = Callable[[Request, str | None], Awaitable[None] | None]
"""Raises an error, such as Starlette's `HTTPException`, unless the caller may use the chat; None stands for all."""


Answer = Callable[[ChatRequest], AsyncIterator[Any]]
"""Returns the answer to a message: text, or UI message chunks, as the adapters of `mainstem.ai` yield them."""


def chat_routes(
    path: str,
    runs: Runs,
    answer: Answer,
    *,
    read_url: str | Callable[[str], str] = "",
    prefix: str = "chats",
    authorize: Authorize | None = None,
    ttl_s: int | None = limits.RUN_TTL_S,
) -> list[BaseRoute]:
    """Return the routes of chats for `createDurableChatTransport({ api: path })`.

    `read_url` is the URL under which browsers reach the server, for example "/log" for an app that is mounted there. It
    may be a callable that takes the path of a stream's URL and returns the whole URL, to sign it. `prefix` begins the
    ids of the runs and the paths of their streams; other routes with the same `runs` need another one. `authorize`
    decides who may use which chat; without it, everybody may use a chat whose id they know, and nobody may list them.
    An answer is deleted `ttl_s` seconds after its last use; with None it is kept.
    """
    return ChatRoutes(path, runs, answer, read_url, prefix, authorize, ttl_s).routes


def session_routes(
    path: str,
    runs: Runs,
    answer: Answer,
    *,
    read_url: str | Callable[[str], str] = "",
    prefix: str = "sessions",
    authorize: Authorize | None = None,
    ttl_s: int | None = limits.CHAT_TTL_S,
) -> list[BaseRoute]:
    """Return the routes of chats for `durableStreamConnection({ sendUrl: path/ID, readUrl: path/ID/stream })`.

    The arguments are those of `chat_routes`, except that `ttl_s` is about whole chats.
    """
    return SessionRoutes(path, runs, answer, read_url, prefix, authorize, ttl_s).routes


class ChatRoutes:
    """A run per answer, each with a stream of its own. The id of a run is that of its chat."""

    def __init__(
        self,
        path: str,
        runs: Runs,
        answer: Answer,
        read_url: str | Callable[[str], str],
        prefix: str,
        authorize: Authorize | None,
        ttl_s: int | None,
    ) -> None:
        check_ttl(ttl_s)
        _reserve_prefix(runs, prefix)
        self.path = path.rstrip("/")
        self.runs = runs
        self.answer = answer
        self.prefix = prefix
        self.ttl_s = ttl_s
        self._read_url = read_url
        self._authorize = authorize

    @property
    def routes(self) -> list[BaseRoute]:
        return [
            Route(self.path, self._serve(self.start), methods=["POST"]),
            *self._shared_routes(),
        ]

    def _shared_routes(self) -> list[BaseRoute]:
        return [
            Route(self.path, self._serve(self.list_runs), methods=["GET"]),
            Route(self.path + "/{id:path}/stream", self._serve(self.follow), methods=["GET"]),
            Route(self.path + "/{id:path}/stop", self._serve(self.stop), methods=["POST"]),
        ]

    # Requests

    async def start(self, request: Request) -> Response:
        chat = await read_chat(request)
        await self.check(request, chat.id)
        answer_id = uuid.uuid4().hex
        stream = f"{self.stream_prefix(chat.id)}/{answer_id}"
        found = await self.runs.find(self.run_id(chat.id))
        run = await self.answer_once(
            chat, answer_id, found, lambda: as_chunks(self.answer(chat)), stream=stream, format="ui-messages"
        )
        return self.point_to(run)

    async def follow(self, request: Request) -> Response:
        """Point to the stream of the chat's answer. If nothing is left to read: 204, which ends an EventSource."""
        chat_id = await self.admit(request)
        run = await self.runs.find(self.run_id(chat_id))
        if run is None:
            return Response(status_code=204, headers=NO_STORE)
        await self.runs.ensure_stream(run)
        if "text/event-stream" in request.headers.get("accept", ""):
            last = request.headers.get("last-event-id")
            if not run.active and (last is None or await self._is_at_end(run, last)):
                return Response(status_code=204, headers=NO_STORE)
            return redirect(self.stream_url(run.stream), "offset=-1&live=sse")
        return self.point_to(run, 200) if run.active else Response(status_code=204, headers=NO_STORE)

    async def stop(self, request: Request) -> Response:
        chat_id = await self.admit(request)
        status = await self.runs.stop(self.run_id(chat_id))
        return JSONResponse({"id": chat_id, "status": status}, 202 if status == "stopping" else 200, NO_STORE)

    async def list_runs(self, request: Request) -> Response:
        if self._authorize is None:
            raise RequestForbidden("the runs of all chats are listed only if `authorize` decides who may see them")
        await self.check(request, None)
        runs = [
            {
                "id": run.id.removeprefix(self.prefix + "/"),
                "status": run.status,
                "startedAt": run.started_at,
                "streamUrl": self.stream_url(run.stream),
            }
            for run in await self.runs.all()
            if run.id.startswith(self.prefix + "/")
        ]
        return JSONResponse({"runs": runs}, headers=NO_STORE)

    # Runs

    async def answer_once(
        self,
        chat: ChatRequest,
        answer_id: str,
        found: Run | None,
        source: Callable[[], AsyncIterator[Any]],
        **options: Any,
    ) -> Run:
        """Start the answer to a question, or return it if this is a repeated request. `found` is the chat's last run.

        Raises `RunInProgress` while another question is being answered.
        """
        if found is not None:
            if found.active and await self.has_answered(found):
                await wait_for_end(found)
            if is_about(found, chat) and await self.is_kept(found, chat):
                await self.runs.ensure_stream(found)
                return found
            await wait_for_end(found)
        tag = f"{chat.tag} {answer_id}" if chat.tag else ""
        run = await self.runs.start(source, id=self.run_id(chat.id), tag=tag, ttl_s=self.ttl_s, **options)
        if not run.new and not is_about(run, chat):
            raise RunInProgress(f"the chat {chat.id!r} is still being answered")
        return run

    async def has_answered(self, run: Run) -> bool:
        """Return whether readers of a run that is active can see its end: it is noted a moment later."""
        info = await self._look_at(run)
        return info is not None and info.closed

    async def is_kept(self, run: Run, chat: ChatRequest) -> bool:
        """Return whether the same question gets this run again, rather than a new answer."""
        if run.active:
            return True
        return run.status == "finished" and chat.trigger == SUBMIT and await self._look_at(run) is not None

    async def _look_at(self, run: Run) -> StreamInfo | None:
        """Return the state of a run's stream; None if it does not exist, for example because it has expired."""
        try:
            return await self.runs.streams.head(run.stream)
        except NotFound:
            return None

    # Replies

    def point_to(self, run: Run, status: int | None = None) -> Response:
        url = self.stream_url(run.stream)
        headers = {**NO_STORE, "location": url, "access-control-expose-headers": "Location"}
        return JSONResponse({"streamUrl": url}, status or (201 if run.new else 200), headers)

    def stream_url(self, stream: str) -> str:
        path = self.runs.streams.operations.requests.target(stream)
        return self._read_url(path) if callable(self._read_url) else self._read_url + path

    def run_id(self, chat_id: str) -> str:
        return f"{self.prefix}/{chat_id}"

    def stream_prefix(self, chat_id: str) -> str:
        name = quote(chat_id, safe="")
        return f"{self.prefix}/{name if name.strip('.') else name.replace('.', '%2E')}"

    async def _is_at_end(self, run: Run, offset: str) -> bool:
        info = await self._look_at(run)
        return info is None or info.next_offset == offset

    # What all requests share

    async def admit(self, request: Request) -> str:
        """Return the id of the chat in the path of a request, if the caller may use that chat."""
        chat_id = check_id(request.path_params["id"], "the id of the chat")
        await self.check(request, chat_id)
        return chat_id

    async def check(self, request: Request, chat_id: str | None) -> None:
        if self._authorize is not None:
            allowed = self._authorize(request, chat_id)
            if inspect.isawaitable(allowed):
                await allowed

    def _serve(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            try:
                if request.method == "POST" and is_from_another_site(request):
                    raise RequestForbidden("pages of other sites may not start or stop runs here")
                return await handler(request)
            except tuple(STATUSES) as error:
                return problem(error)
            except ClientError as error:  # its text may name hosts and streams that are not for visitors
                logger.error("%s %s failed: %s", request.method, request.url.path, error)
                return problem(RunsUnavailable("the chats are not available at the moment"))

        return serve


class SessionRoutes(ChatRoutes):
    """A stream per chat, which stays open: messages of people and answers of models follow each other in it."""

    @property
    def routes(self) -> list[BaseRoute]:
        return [*self._shared_routes(), Route(self.path + "/{id:path}", self._serve(self.start), methods=["POST"])]

    async def start(self, request: Request) -> Response:
        chat = await read_chat(request, request.path_params["id"])
        await self.check(request, chat.id)
        stream, answer_id = self.stream_prefix(chat.id), uuid.uuid4().hex
        found = await self.runs.find(self.run_id(chat.id))
        is_asked_again = found is not None and is_about(found, chat)
        await self.answer_once(
            chat,
            answer_id,
            found,
            lambda: self._answer(chat, answer_id, is_asked_again),
            stream=stream,
            format="ag-ui",
            close=False,
        )
        return Response(status_code=202, headers=NO_STORE)

    async def has_answered(self, run: Run) -> bool:
        try:
            messages = (await self.runs.streams.read_tail(run.stream, 1)).messages
        except NotFound:
            return False
        match messages[-1] if messages else None:
            case {"type": "RUN_FINISHED", "runId": str(answer_id)}:
                return run.tag.endswith(f" {answer_id}")
            case {"type": "RUN_ERROR"}:
                return True
        return False

    async def is_kept(self, run: Run, chat: ChatRequest) -> bool:
        """Only while it is active: `reload` of the front end, which wants another answer, sends the same request."""
        return run.active

    async def follow(self, request: Request) -> Response:
        """Redirect to the stream of the chat, which is created if it does not exist yet."""
        chat_id = await self.admit(request)
        stream = self.stream_prefix(chat_id)
        await self.runs.create_stream(stream, self.ttl_s)
        return redirect(self.stream_url(stream), request.url.query)

    async def _answer(self, chat: ChatRequest, answer_id: str, is_asked_again: bool) -> AsyncGenerator[Any, None]:
        if chat.messages and not is_asked_again:
            for event in echo_events(chat.messages[-1]):
                yield event
        async with aclosing(to_ag_ui(as_chunks(self.answer(chat)), thread_id=chat.id, run_id=answer_id)) as events:
            async for event in events:
                yield event


_prefixes: WeakKeyDictionary[Runs, list[str]] = WeakKeyDictionary()
"""Of all routes with the same runs. If they shared chats, visitors of one path could use the chats of another one."""


def _reserve_prefix(runs: Runs, prefix: str) -> None:
    used = _prefixes.setdefault(runs, [])
    for other in used:
        if f"{prefix}/".startswith(f"{other}/") or f"{other}/".startswith(f"{prefix}/"):
            raise BadArgument(f"the prefix {prefix!r} overlaps with {other!r} of other routes: pass another prefix=")
    used.append(prefix)


STATUSES: dict[type[ClientError], int] = {
    BadArgument: 400,
    RequestForbidden: 403,
    RunNotFound: 404,
    RunInProgress: 409,
    RequestTooLarge: 413,
    TooManyRuns: 503,
    RunsUnavailable: 503,
}


def is_about(run: Run, chat: ChatRequest) -> bool:
    """Return whether a run answers this very question. Its tag is the question's, and the id of the answer."""
    return chat.tag != "" and run.tag.partition(" ")[0] == chat.tag


async def wait_for_end(run: Run) -> None:
    """Wait a moment for the end of a run: its readers see the end before it is noted, and may answer at once."""
    try:
        async with asyncio.timeout(limits.RUN_END_S):
            await run.wait()
    except TimeoutError:
        logger.info("the run %s goes on while a further message arrives", run.id)


def echo_events(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a person's message as AG-UI events, so that all readers of a session see it.

    A model's message, to which the front end has added the result of a tool, is in the stream already.
    """
    found, role = message.get("id"), message.get("role")
    if role == "assistant":
        return []
    message_id = found if isinstance(found, str) and found else uuid.uuid4().hex
    events: list[dict[str, Any]] = [
        {
            "type": "TEXT_MESSAGE_START",
            "messageId": message_id,
            "role": role if role in ("system", "tool") else "user",
        }
    ]
    if text := message_text(message):
        events.append({"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": text})
    events.append({"type": "TEXT_MESSAGE_END", "messageId": message_id})
    return events


async def as_chunks(source: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    """Yield the UI message chunks of an answer, which may be plain text instead."""
    try:
        async for first in source:
            is_text = isinstance(first, str)
            pieces = _check(str if is_text else dict, first, source)
            async with aclosing(text_chunks(pieces) if is_text else pieces) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
    finally:
        await close_source(source)


async def _check(kind: type[Any], first: Any, rest: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    """Yield all pieces of an answer, whose first one decides of which kind the others must be."""
    piece = first
    while True:
        if not isinstance(piece, kind) or (isinstance(piece, dict) and not isinstance(piece.get("type"), str)):
            raise InvalidPiece(
                f"an answer is text or UI message chunks, and not both; this piece is a {type(piece).__name__}"
            )
        yield piece
        try:
            piece = await anext(rest)
        except StopAsyncIteration:
            return


def redirect(url: str, query: str) -> Response:
    if query:
        url += ("&" if "?" in url else "?") + query
    return RedirectResponse(url, 307, NO_STORE)


def problem(error: ClientError) -> Response:
    """Return a problem document, like those of the server."""
    status = next(status for kind, status in STATUSES.items() if isinstance(error, kind))
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "code": error.code}
    body |= {"detail": error.detail, "retryable": error.retryable}
    if error.hint:
        body["hint"] = error.hint
    return JSONResponse(body, status, NO_STORE, media_type=PROBLEM)
