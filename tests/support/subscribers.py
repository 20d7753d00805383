"""What applications do with subscriptions: create them, claim, acknowledge, and follow their wake stream."""

from typing import Any

import httpx2

ROOT = "/v1/stream/"
TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}


def append(client: httpx2.Client, path: str, data: bytes = b"data") -> str:
    """Append, creating the stream if it does not exist; return the offset after the append."""
    reply = client.post(ROOT + path, headers=TEXT, content=data)
    if reply.status_code == 404:
        reply = client.put(ROOT + path, headers=TEXT, content=data)
    assert reply.status_code in {201, 204}, reply.text
    offset: str = reply.headers["stream-next-offset"]
    return offset


def create(client: httpx2.Client, path: str, data: bytes = b"", **headers: str) -> str:
    reply = client.put(ROOT + path, headers=TEXT | headers, content=data)
    assert reply.status_code == 201, reply.text
    offset: str = reply.headers["stream-next-offset"]
    return offset


class Subscriber:
    """One subscription by its id."""

    def __init__(self, client: httpx2.Client, name: str) -> None:
        self.client = client
        self.name = name
        self.url = f"{ROOT}__ds/subscriptions/{name}"

    def put(self, **config: Any) -> httpx2.Response:
        return self.client.put(self.url, json=config)

    def listen(self, url: str, **config: Any) -> "Subscriber":
        """Create the subscription as a webhook."""
        made = self.put(type="webhook", webhook={"url": url}, **config)
        assert made.status_code == 201, made.text
        return self

    def pull(self, wake_stream: str, **config: Any) -> "Subscriber":
        """Create the subscription as a pull-wake."""
        made = self.put(type="pull-wake", wake_stream=wake_stream, **config)
        assert made.status_code == 201, made.text
        return self

    def describe(self) -> dict[str, Any]:
        found = self.client.get(self.url)
        assert found.status_code == 200, found.text
        described: dict[str, Any] = found.json()
        return described

    def links(self) -> dict[str, tuple[str, str]]:
        return {link["path"]: (link["link_type"], link["acked_offset"]) for link in self.describe()["streams"]}

    def acked(self, path: str) -> str:
        return self.links()[path][1]

    def delete(self) -> httpx2.Response:
        return self.client.delete(self.url)

    # What operators do

    def inspect(self) -> dict[str, Any]:
        found = self.client.get(f"/v1/subscriptions/{self.name}")
        assert found.status_code == 200, found.text
        inspected: dict[str, Any] = found.json()
        return inspected

    def cursors(self) -> dict[str, dict[str, Any]]:
        return {stream["path"]: stream for stream in self.inspect()["streams"]}

    def control(self, action: str, **body: Any) -> None:
        """Pause, resume or redeliver."""
        reply = self.try_control(action, **body)
        assert reply.status_code == 204, reply.text

    def try_control(self, action: str, **body: Any) -> httpx2.Response:
        return self.client.post(f"/v1/subscriptions/{self.name}/{action}", json=body or None)

    # What workers do

    def claim(self, worker: str = "ann") -> httpx2.Response:
        return self.client.post(self.url + "/claim", json={"worker": worker})

    def claimed(self, worker: str = "ann") -> dict[str, Any]:
        reply = self.claim(worker)
        assert reply.status_code == 200, reply.text
        claim: dict[str, Any] = reply.json()
        return claim

    def act(
        self, action: str, wake: dict[str, Any], acks: dict[str, str] | None = None, *, done: bool = False, **other: Any
    ) -> httpx2.Response:
        """Send ack, callback or release as the worker of a wake; `other` overrides what the worker sends."""
        token = other.pop("token", wake.get("token") or wake.get("callback_token"))
        body = {"wake_id": wake["wake_id"], "generation": wake["generation"]}
        if acks is not None:
            body["acks"] = [{"stream": path, "offset": offset} for path, offset in acks.items()]
        if done:
            body["done"] = True
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return self.client.post(f"{self.url}/{action}", json=body | other, headers=headers)

    def ack(self, wake: dict[str, Any], acks: dict[str, str] | None = None, **other: Any) -> httpx2.Response:
        return self.act("ack", wake, acks, **other)

    def callback(self, wake: dict[str, Any], acks: dict[str, str] | None = None, **other: Any) -> httpx2.Response:
        return self.act("callback", wake, acks, **other)

    def finish(self, wake: dict[str, Any], action: str = "ack") -> bool:
        """Acknowledge everything that the wake listed; return whether another wake follows."""
        tails = {stream["path"]: stream["tail_offset"] for stream in wake["streams"]}
        reply = self.act(action, wake, tails, done=True)
        assert reply.status_code == 200, reply.text
        assert reply.json()["ok"] is True
        more: bool = reply.json()["next_wake"]
        return more


class WakeStream:
    """A worker's view of a wake stream: message after message, with a long-poll when there is none yet."""

    def __init__(self, client: httpx2.Client, path: str) -> None:
        self.client = client
        self.path = path
        made = client.put(ROOT + path, headers=JSON)
        assert made.status_code in {200, 201}, made.text
        self.offset = made.headers["stream-next-offset"]
        self._messages: list[dict[str, Any]] = []

    def next(self) -> dict[str, Any]:
        message = self.poll()
        assert message is not None, "no wake came"
        return message

    def poll(self) -> dict[str, Any] | None:
        """Return the next message, or None if there is none by the end of the server's long-poll."""
        if not self._messages:
            page = self.client.get(f"{ROOT}{self.path}?offset={self.offset}&live=long-poll")
            assert page.status_code in {200, 204}, page.text
            self.offset = page.headers["stream-next-offset"]
            self._messages = page.json() if page.status_code == 200 else []
        return self._messages.pop(0) if self._messages else None
