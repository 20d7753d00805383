"""The rules for UI message chunks: the fields that `uiMessageChunkSchema` of the npm package `ai` 6 requires, and the
order that its reader requires."""

from collections.abc import AsyncIterator, Iterable
from typing import Any

from mainstem.ai.pieces import encode_piece

TEXT = str
FIELDS: dict[str, dict[str, type]] = {
    "start": {},
    "start-step": {},
    "text-start": {"id": TEXT},
    "text-delta": {"id": TEXT, "delta": TEXT},
    "text-end": {"id": TEXT},
    "reasoning-start": {"id": TEXT},
    "reasoning-delta": {"id": TEXT, "delta": TEXT},
    "reasoning-end": {"id": TEXT},
    "tool-input-start": {"toolCallId": TEXT, "toolName": TEXT},
    "tool-input-delta": {"toolCallId": TEXT, "inputTextDelta": TEXT},
    "tool-input-available": {"toolCallId": TEXT, "toolName": TEXT, "input": object},
    "tool-input-error": {"toolCallId": TEXT, "toolName": TEXT, "input": object, "errorText": TEXT},
    "tool-output-available": {"toolCallId": TEXT, "output": object},
    "tool-output-error": {"toolCallId": TEXT, "errorText": TEXT},
    "tool-approval-request": {"approvalId": TEXT, "toolCallId": TEXT},
    "message-metadata": {"messageMetadata": object},
    "finish-step": {},
    "finish": {},
    "error": {"errorText": TEXT},
    "abort": {},
}
OPTIONAL: dict[str, dict[str, type]] = {
    "start": {"messageId": TEXT},
    "abort": {"reason": TEXT},
    "finish": {"finishReason": TEXT},
}


def check_chunks(chunks: Iterable[dict[str, Any]], *, complete: bool = True) -> None:
    """Fail unless the chunks are valid, and in an order that readers accept."""
    parts: set[tuple[str, str]] = set()
    calls: set[str] = set()
    in_step = False
    types = []
    for chunk in chunks:
        encode_piece(chunk)  # `durable` can store it
        type_ = chunk["type"]
        types.append(type_)
        if type_.startswith("data-"):
            assert "data" in chunk, chunk
            continue
        assert type_ in FIELDS, chunk
        for name, kind in FIELDS[type_].items():
            assert isinstance(chunk[name], kind), chunk
        for name, kind in OPTIONAL.get(type_, {}).items():
            assert isinstance(chunk.get(name, kind()), kind), chunk
        kind_of_part, _, phase = type_.partition("-")
        if kind_of_part in ("text", "reasoning"):
            part = (kind_of_part, chunk["id"])
            assert in_step, chunk
            assert (part in parts) is (phase != "start"), chunk
            parts = parts - {part} if phase == "end" else parts | {part}
        elif type_.startswith("tool-input"):
            assert in_step, chunk
            assert type_ != "tool-input-delta" or chunk["toolCallId"] in calls, chunk
            calls.add(chunk["toolCallId"])
        elif type_.startswith(("tool-output", "tool-approval")):
            assert chunk["toolCallId"] in calls, chunk
        elif type_ in ("start-step", "finish-step"):
            assert in_step is (type_ == "finish-step"), types
            assert not parts, parts
            in_step = type_ == "start-step"
    assert types[0] == "start"
    assert types.count("start") == 1
    if complete:
        assert types[-1] == "finish"
        assert types.count("finish") == 1
        assert not parts
        assert not in_step


def join_text(chunks: Iterable[dict[str, Any]], type: str = "text-delta") -> str:
    return "".join(chunk["delta"] for chunk in chunks if chunk["type"] == type)


def keep(chunks: Iterable[dict[str, Any]], *types: str) -> list[dict[str, Any]]:
    return [chunk for chunk in chunks if chunk["type"] in types]


async def collect(source: AsyncIterator[dict[str, Any]], into: list[dict[str, Any]]) -> None:
    """Collect the chunks of a source that may fail."""
    async for chunk in source:
        into.append(chunk)
