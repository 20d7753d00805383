"""A FastAPI app with chats, under uvicorn: python -m tests.ai.chat_app PORT [PAGES]. Messages steer the answers."""

import asyncio
import sys
from collections.abc import AsyncGenerator

import uvicorn
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from mainstem.ai import Runs
from mainstem.ai.routes import ChatRequest, chat_routes, session_routes
from mainstem.server import create_app

released = asyncio.Event()


async def answer(chat: ChatRequest) -> AsyncGenerator[str, None]:
    """Answer "Hello, world", and wait in the middle if the message asks for it."""
    yield "Hello"
    if "wait" in chat.text:
        await released.wait()
    if "fail" in chat.text:
        raise RuntimeError("secret")
    for piece in (",", " wor", "ld"):
        yield piece


async def check(request: Request, chat_id: str | None) -> None:
    if chat_id == "forbidden" or (chat_id is None and "admin" not in request.headers):
        raise HTTPException(403)


def make_app(pages: str | None = None) -> FastAPI:
    """`pages` is a folder with files for browsers, which are served under /pages."""
    log = create_app(store="memory", public="read")
    runs = Runs(log)
    routes: list[BaseRoute] = [
        Mount("/log", log),
        *chat_routes("/api/chat", runs, answer, read_url="/log", authorize=check),
        *session_routes("/api/session", runs, answer, read_url="/log"),
    ]
    if pages is not None:
        routes.append(Mount("/pages", StaticFiles(directory=pages)))
    app = FastAPI(routes=routes, lifespan=runs.lifespan)

    @app.post("/release")
    async def release() -> None:
        released.set()

    @app.post("/hold")
    async def hold() -> None:
        released.clear()

    return app


if __name__ == "__main__":
    uvicorn.run(make_app(*sys.argv[2:]), port=int(sys.argv[1]), log_level="warning", timeout_graceful_shutdown=5)
