"""Mainstem inside a Starlette app that has a lifespan of its own.

make install
.venv/bin/python examples/embed_starlette.py
curl http://127.0.0.1:8001/log/healthz

Only one process may use a data directory, so run one worker. PORT=8002 starts another copy with its own directory.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from mainstem.server import create_app

port = int(os.environ.get("PORT", "8001"))
log = create_app(data=os.environ.get("DATA", f"./embedded-data-{port}"))


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    # Open whatever else your app needs here, before or after the log.
    async with log.lifespan(app):
        yield


async def home(request: Request) -> JSONResponse:
    return JSONResponse({"streams": "/log/v1/stream/"})


app = Starlette(routes=[Route("/", home), Mount("/log", log)], lifespan=lifespan)

if __name__ == "__main__":
    uvicorn.run(app, port=port, timeout_graceful_shutdown=5)
