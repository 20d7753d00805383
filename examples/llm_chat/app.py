"""A chat with a language model whose answers survive reloads, and that several tabs follow. See README.md.

make install
.venv/bin/python examples/llm_chat/app.py

Without OPENAI_API_KEY, a fake model answers. OPENAI_BASE_URL and MODEL choose another model with the same API.
"""

import asyncio
import json
import os
import secrets
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import uvicorn
from fastapi import FastAPI
from fastapi.responses import FileResponse
from starlette.routing import Mount

from mainstem import create_app, sign_url
from mainstem.ai import Runs
from mainstem.ai.routes import ChatRequest, message_text, session_routes

PAGE = Path(__file__).parent / "index.html"
FAKE_ANSWER = """You wrote: {text}

This answer comes from a fake model, one word at a time, so that you can try things while it is being written. Reload \
the page: the answer continues, and no word is missing or shown twice. Open the same address in a second tab: it shows \
the same words at the same time. Press Stop in either tab: the model stops, and both tabs show that.

The page does not receive the answer from the request that asked for it. A run writes the answer to a stream, and \
every page reads that stream."""


def load_secret(path: Path) -> str:
    """Return the secret of the log's tokens. The first start creates it, in a file that only its owner can read."""
    if not path.exists():
        with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(secrets.token_hex(32))
    return path.read_text()


port = int(os.environ.get("PORT", "8000"))
data = os.environ.get("DATA", f"./llm-chat-data-{port}")
secret_file = Path(f"{data}.key")
secret = load_secret(secret_file)
log = create_app(data=data, jwt_secret_file=str(secret_file))
runs = Runs(log)


async def ask_fake_model(chat: ChatRequest) -> AsyncGenerator[str, None]:
    pause_s = float(os.environ.get("PACE_MS", "70")) / 1000
    for word in FAKE_ANSWER.format(text=chat.text).split(" "):
        yield word + " "
        await asyncio.sleep(pause_s)


async def ask_model(chat: ChatRequest) -> AsyncGenerator[str, None]:
    """Yield the answer of a model with OpenAI's chat completions API."""
    url = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1").rstrip("/") + "/chat/completions"
    headers = {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    messages = [
        {"role": "assistant" if message.get("role") == "assistant" else "user", "content": message_text(message)}
        for message in chat.messages
    ]
    body = {"model": os.environ.get("MODEL", "gpt-4o-mini"), "messages": messages, "stream": True}
    async with (
        httpx2.AsyncClient(timeout=60) as client,
        client.stream("POST", url, json=body, headers=headers) as reply,
    ):
        reply.raise_for_status()
        async for line in reply.aiter_lines():
            event = line.removeprefix("data:").strip()
            if not line.startswith("data:") or event == "[DONE]":
                continue
            for choice in json.loads(event)["choices"]:
                if piece := choice["delta"].get("content"):
                    yield piece


def read_url(path: str) -> str:
    """Return the URL of a chat's stream, with a token that allows reading it, and nothing else, for a while."""
    return sign_url("/log" + path, secret, expires_in_s=float(os.environ.get("URL_S", "600")))


answer = ask_model if os.environ.get("OPENAI_API_KEY") else ask_fake_model
routes = [Mount("/log", log), *session_routes("/api/chat", runs, answer, read_url=read_url)]
app = FastAPI(routes=routes, lifespan=runs.lifespan)


@app.get("/")
async def home() -> FileResponse:
    return FileResponse(PAGE, headers={"cache-control": "no-cache"})


if __name__ == "__main__":
    uvicorn.run(app, port=port, timeout_graceful_shutdown=5, access_log=False)  # it would contain signed URLs
