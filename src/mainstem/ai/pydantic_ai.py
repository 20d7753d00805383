"""Pydantic AI agents as UI message chunks: `durable(stream_agent(agent, prompt), stream=...)`."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, cast

from mainstem.ai.pieces import to_json_value
from mainstem.ai.ui_messages import Chunk

try:
    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.messages import UserContent
    from pydantic_ai.ui.vercel_ai import VercelAIEventStream
    from pydantic_ai.ui.vercel_ai.response_types import BaseChunk, DoneChunk
except ImportError as error:
    raise ImportError(
        "mainstem.ai.pydantic_ai needs the package pydantic-ai-slim; "
        "install it with: pip install 'mainstem[pydantic-ai]'"
    ) from error


class _Chunks(VercelAIEventStream[Any, Any]):
    """The library's own translation into chunks, except that an error reaches the caller.

    `durable` then records that the run has failed, and decides what readers may know about it.
    """

    async def on_error(self, error: Exception) -> AsyncIterator[BaseChunk]:
        raise error
        yield  # so that it is a generator


async def stream_agent(
    agent: AbstractAgent[Any, Any],
    prompt: str | Sequence[UserContent] | None = None,
    *,
    message_id: str | None = None,
    **options: Any,
) -> AsyncGenerator[Chunk, None]:
    """Run an agent, and yield its text, thinking, tool calls and results as UI message chunks.

    `options` are those of `Agent.run_stream_events`, such as `message_history`, `deps` and `model`. Closing the
    generator cancels the run. An error of the run is raised here, after the chunks before it.
    """
    stream = _Chunks(sdk_version=6, server_message_id=message_id)
    async with agent.run_stream_events(prompt, **options) as events:
        chunks = cast(AsyncGenerator[BaseChunk, None], stream.transform_stream(events))
        async with aclosing(chunks):
            async for chunk in chunks:
                if not isinstance(chunk, DoneChunk):  # it ends an HTTP response; a stream is closed instead
                    yield _dump(chunk)


def _dump(chunk: BaseChunk) -> Chunk:
    """Return a chunk without the optional fields that it does not have. A tool may have returned None."""
    absent = {
        name
        for name, field in type(chunk).model_fields.items()
        if not field.is_required() and getattr(chunk, name) is None
    }
    dumped = chunk.model_dump(mode="json", by_alias=True, exclude=absent)
    if "output" in dumped:
        dumped["output"] = to_json_value(dumped["output"])
    return dumped
