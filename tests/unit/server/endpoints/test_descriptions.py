"""The descriptions of the API are built once each, and only so many are kept."""

import asyncio

from mainstem import limits
from mainstem.server.endpoints.descriptions import Descriptions


async def get(descriptions, root="", encoding=""):
    sent = []

    async def send(message):
        sent.append(message)

    headers = [(b"accept-encoding", encoding.encode())]
    await descriptions.openapi({"method": "GET", "root_path": root, "headers": headers}, None, send)
    assert sent[0]["status"] == 200
    return b"".join(message.get("body", b"") for message in sent)


async def test_clients_that_ask_at_the_same_time_share_one_build():
    built = []

    def build(root):
        built.append(root)
        return {"root": root, "text": "x" * 10_000}

    descriptions = Descriptions(build, build)
    plain = await asyncio.gather(*(get(descriptions) for _ in range(20)))
    coded = await asyncio.gather(*(get(descriptions, encoding="gzip") for _ in range(20)))
    assert built == [""]
    assert len(set(plain)) == 1
    assert len(set(coded)) == 1
    assert len(coded[0]) < len(plain[0])


async def test_clients_that_choose_the_root_cannot_fill_the_memory():
    descriptions = Descriptions(lambda root: {"root": root}, lambda root: {})
    for number in range(limits.DESCRIPTIONS_KEPT_MAX * 3):
        assert f"/{number}".encode() in await get(descriptions, f"/{number}")
    assert len(descriptions._kept) == limits.DESCRIPTIONS_KEPT_MAX
