"""Mainstem inside a FastAPI app: its streams live under /log, next to the app's own routes.

pip install "mainstem" fastapi
python examples/embed_fastapi.py
curl -X PUT http://127.0.0.1:8000/log/v1/stream/orders -H 'content-type: application/json'
curl -X POST http://127.0.0.1:8000/log/v1/stream/orders -H 'content-type: application/json' -d '{"item": "tea"}'
curl http://127.0.0.1:8000/log/v1/stream/orders
"""

import os

import uvicorn
from fastapi import FastAPI

from mainstem.server import create_app

log = create_app(data=os.environ.get("DATA", "./mainstem-data"))

# The lifespan opens the log before the first request and closes it after the last one. An app that has a lifespan of
# its own enters `log.lifespan(app)` there with `async with`.
app = FastAPI(lifespan=log.lifespan)
app.mount("/log", log)


@app.get("/")
async def home() -> dict[str, str]:
    return {"streams": "/log/v1/stream/"}


if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ.get("PORT", "8000")), timeout_graceful_shutdown=5)
