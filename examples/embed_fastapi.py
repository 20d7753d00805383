"""Mainstem inside a FastAPI app: its streams are under /log, next to the app's own routes.

make install
.venv/bin/python examples/embed_fastapi.py
curl -X PUT http://127.0.0.1:8000/log/v1/stream/orders -H 'content-type: application/json'
curl -X POST http://127.0.0.1:8000/log/v1/stream/orders -H 'content-type: application/json' -d '{"item": "tea"}'
curl http://127.0.0.1:8000/log/v1/stream/orders

Only one process may use a data directory, so run one worker. PORT=8002 starts another copy with its own directory.
"""

import os

import uvicorn
from fastapi import FastAPI

from mainstem.server import create_app

port = int(os.environ.get("PORT", "8000"))
log = create_app(data=os.environ.get("DATA", f"./embedded-data-{port}"))

# The lifespan opens the log before the first request and closes it after the last one. If your app has a lifespan of
# its own, enter `log.lifespan(app)` in it with `async with`.
app = FastAPI(lifespan=log.lifespan)
app.mount("/log", log)


@app.get("/")
async def home() -> dict[str, str]:
    return {"streams": "/log/v1/stream/"}


if __name__ == "__main__":
    uvicorn.run(app, port=port, timeout_graceful_shutdown=5)
