"""`python -m bench.ai_app PORT LOG`: an app whose model yields the time at which it spoke.

LOG is the folder of an embedded log, or the URL of a server.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import AsyncGenerator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from bench.wire import HOST
from mainstem import AsyncStreams
from mainstem.ai import Runs
from mainstem.server import create_app

LOG = sys.argv[2]
routes: list[BaseRoute] = []
if LOG.startswith("http://"):
    runs = Runs(AsyncStreams(LOG))
else:
    embedded = create_app(data=LOG, public="read", max_live_readers_per_client=10_000)
    routes.append(Mount("/log", embedded))
    runs = Runs(embedded)
gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


async def speak(name: str, tokens: int, per_s: float) -> AsyncGenerator[str, None]:
    """Yield the time as a token, `per_s` times per second, once the gate is open."""
    await gates[name].wait()
    loop = asyncio.get_running_loop()
    next_s = loop.time()
    for _ in range(tokens):
        yield str(time.monotonic_ns())
        next_s += 1 / per_s
        await asyncio.sleep(max(0.0, next_s - loop.time()))


async def start(request: Request) -> Response:
    name, tokens, per_s = (request.query_params[key] for key in ("name", "tokens", "per_s"))
    run = await runs.start(lambda: speak(name, int(tokens), float(per_s)), id=name)
    return JSONResponse({"path": f"/v1/stream/{run.stream}"})


async def begin(request: Request) -> Response:
    for name in request.query_params.getlist("name"):
        gates[name].set()
    return Response()


async def stop(request: Request) -> Response:
    await runs.stop(request.query_params["name"])
    return Response()


app = Starlette(
    lifespan=runs.lifespan,
    routes=[
        *routes,
        Route("/ready", begin),
        Route("/start", start, methods=["POST"]),
        Route("/begin", begin, methods=["POST"]),
        Route("/stop", stop, methods=["POST"]),
    ],
)

if __name__ == "__main__":
    uvicorn.run(app, host=HOST, port=int(sys.argv[1]), log_level="warning", timeout_graceful_shutdown=5)
