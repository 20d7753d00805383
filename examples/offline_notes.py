"""Take notes online or offline: every run adds a note, shows all notes, and syncs them if a server is running.

    .venv/bin/python examples/offline_notes.py ws://127.0.0.1:4437/v1/sync notes.db "buy milk" [TOKEN]

Run it a few times without a server, and then with one: the server commits the notes that were written offline, each
of them once and in order. `*` marks a note that is not committed yet.
"""

import asyncio
import sys
from typing import Any

from mainstem.client.offline import Event, OfflineClient, SyncClientError

PARTITION = "notes"
WAIT_S = 3.0


def collect(notes: list[dict[str, Any]], event: Event) -> list[dict[str, Any]]:
    """Add a note to the view, a list. Drafts come last, and are marked."""
    notes.append({"text": event.event["text"], "mark": "*" if event.is_draft else " "})
    return notes


async def run(url: str, path: str, text: str, token: str) -> None:
    async with OfflineClient(url, client_id="notes-example", token=token, store=path, partitions=[PARTITION]) as client:
        client.register_view("notes", collect, [])
        await client.submit([PARTITION], {"text": text})  # on the local disk when this returns
        try:
            async with asyncio.timeout(WAIT_S):
                await client.synced()
        except TimeoutError:
            print(f"offline; notes waiting to be sent: {client.waiting}", file=sys.stderr)
        for note in await client.view("notes"):
            print(f"{note['mark']} {note['text']}")
        for rejection in await client.rejections():
            print(f"rejected: {rejection.reason} {rejection.event}", file=sys.stderr)
            await client.dismiss(rejection.id)


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit("usage: offline_notes.py URL FILE TEXT [TOKEN]")
    try:
        url, path, text, token = [*sys.argv[1:], ""][:4]
        asyncio.run(run(url, path, text, token))
    except SyncClientError as error:
        sys.exit(str(error))
