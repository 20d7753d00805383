"""A chat with a language model whose answers survive reloads, and that several tabs follow. See README.md.

pip install 'mainstem[ai]' fastapi uvicorn
python examples/llm_chat/app.py

Without OPENAI_API_KEY, a fake model answers. OPENAI_BASE_URL and MODEL choose another model with the same API.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from fastapi import FastAPI
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Mount

from mainstem.ai import Runs
from mainstem.ai.routes import ChatRequest, chat_routes, message_text
from mainstem.ai.ui_messages import data, text_chunks
from mainstem.server import create_app

PAGE = Path(__file__).parent / "index.html"
FAKE_ANSWER = """You wrote: {text}

This answer comes from a fake model, one word at a time, so that you can try things while it is being written. Reload \
the page: the answer continues, and no word is missing or shown twice. Open the same address in a second tab: it shows \
the same words at the same time. Press Stop in either tab: the model stops, and both tabs show that.

The page does not receive the answer from the request that asked for it. A run writes the answer to a stream, and \
every page reads that stream."""

port = int(os.environ.get("PORT", "8000"))
log = create_app(data=os.environ.get("DATA", f"./llm-chat-data-{port}"), public="read")
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


async def answer(chat: ChatRequest) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the answer as UI message chunks, with the question, so that the stream shows both to every reader."""
    model = ask_model if os.environ.get("OPENAI_API_KEY") else ask_fake_model
    async with aclosing(text_chunks(model(chat))) as chunks:
        async for chunk in chunks:
            yield chunk
            if chunk["type"] == "start":
                yield data("question", {"text": chat.text})


def authorize(request: Request, chat_id: str | None) -> None:
    """Allow everybody to use a chat whose id they know. An app with users checks here whose chat it is."""
    if chat_id is None:
        raise HTTPException(403, "nobody may list the chats of all people")


routes = [Mount("/log", log), *chat_routes("/api/chat", runs, answer, read_url="/log", authorize=authorize)]
app = FastAPI(routes=routes, lifespan=runs.lifespan)


@app.get("/")
async def home() -> FileResponse:
    return FileResponse(PAGE, headers={"cache-control": "no-cache"})


if __name__ == "__main__":
    uvicorn.run(app, port=port, timeout_graceful_shutdown=5)
