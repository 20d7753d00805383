"""An HTTP client for a Mainstem server. It needs only the standard library, and retries until a deadline."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote, urlencode, urlsplit

from mainstem import limits
from mainstem.errors import BadOption, RequestRefused, ServerUnreachable
from mainstem.streams.rules.paths import PREFIX

RETRIED = frozenset({408, 429, 502, 503, 504})
NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})
"""What OpenSSL reports when the server answers in plain HTTP."""


@dataclass(frozen=True)
class ServerOptions:
    """The server, the token, and how long to retry. It is pickled and sent to Spark's workers."""

    url: str
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    retry_s: float = limits.PIPELINE_RETRY_S
    stream_prefix: str = PREFIX

    def stream_url(self, path: str) -> str:
        """Return the URL path of a stream."""
        return f"{self.stream_prefix}/{quote(path, safe='/')}"

    def read_token(self) -> str | None:
        """Return the token to send now. A token file is read for every request, so that the token can be renewed."""
        if self.token_file is None:
            return self.token
        try:
            return Path(self.token_file).read_text("utf-8").strip()
        except OSError as error:
            raise BadOption(f"cannot read the token in {self.token_file}: {error.strerror}") from None


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def problem(self) -> dict[str, Any]:
        """The problem document of an error, or an empty one if the body is something else."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


class HttpClient:
    """One connection, opened when it is needed and reopened after it broke. It may send a request more than once."""

    def __init__(
        self,
        server: ServerOptions,
        on_wait: Callable[[str], None] | None = None,
        *,
        timeout_s: float = limits.PIPELINE_WAIT_S_MAX,
    ) -> None:
        """Call `on_wait` once per request that has to wait for the server, with a message for people. `timeout_s` is
        how long each attempt may wait."""
        self.server = server
        self._on_wait = on_wait
        self._timeout_s = timeout_s
        try:
            parts = urlsplit(server.url)
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError:  # an invalid port, or a bracket that is not closed
            parts, self._host = urlsplit(""), ""
        if parts.scheme not in ("http", "https") or not self._host:
            raise BadOption(f"url must be like http://127.0.0.1:4437, not {server.url!r}")
        if parts.path.rstrip("/").endswith(server.stream_prefix):
            base = server.url.rstrip("/").removesuffix(server.stream_prefix)
            raise BadOption(f"url must not end in {server.stream_prefix}: give {base}")
        self._secure = parts.scheme == "https"
        self._base = parts.path.rstrip("/")
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> HttpClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get_json(self, path: str, query: list[tuple[str, str]] | None = None) -> dict[str, Any]:
        reply = self.request("GET", path, query=query)
        try:
            found: dict[str, Any] = json.loads(reply.body)
        except ValueError:
            raise RequestRefused(
                f"{self.server.url} answered {path} with something other than JSON: is it a Mainstem server?"
            ) from None
        return found

    def request(
        self,
        method: str,
        path: str,
        *,
        query: list[tuple[str, str]] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        allowed: frozenset[int] = frozenset(),
    ) -> Reply:
        """Return the reply if its status is a success or `allowed`. Retry temporary failures until the deadline."""
        target = f"{self._base}{path}" + (f"?{urlencode(query)}" if query else "")
        deadline_s = time.monotonic() + self.server.retry_s
        pause_s = limits.PIPELINE_BACKOFF_S
        silent_until_s = time.monotonic() + limits.PIPELINE_SILENT_S
        notified = self._on_wait is None
        refused_token: str | None = None
        while True:
            token = self.server.read_token()
            reply, failure = self._attempt(method, target, headers or {}, body, token)
            wait_s = pause_s
            if reply is not None:
                if reply.status < 400 or reply.status in allowed:
                    return reply
                failure = self._check_refusal(reply, method, path)
                if reply.status == 401 and token != refused_token:
                    refused_token, wait_s = token, 0.0  # the file may hold a newer token by now
                wait_s = max(wait_s, _retry_after(reply))
            if time.monotonic() + wait_s > deadline_s:
                if reply is not None and reply.status == 401:
                    waited = f" within {self.server.retry_s:g} s" if self.server.retry_s else ""
                    raise RequestRefused(
                        f"{method} {path} at {self.server.url}: {failure}. Nobody renewed the token in "
                        f"{self.server.token_file}{waited}: put a valid one there, and run this again",
                        refused=401,
                    )
                raise ServerUnreachable(
                    f"{self.server.url} did not answer {method} {path} within {self.server.retry_s:g} s: {failure}",
                    reason=failure,
                    refused=None if reply is None else reply.status,
                )
            if not notified and time.monotonic() + wait_s > silent_until_s:
                notified = True
                self._notify_of_wait(deadline_s, failure)
            time.sleep(wait_s)
            pause_s = min(pause_s * 2, limits.PIPELINE_BACKOFF_S_MAX)

    def _notify_of_wait(self, deadline_s: float, failure: str) -> None:
        left_s = deadline_s - time.monotonic()
        assert self._on_wait is not None
        self._on_wait(f"waiting up to {left_s:.0f} s for {self.server.url}: {failure}")

    def _attempt(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None, token: str | None
    ) -> tuple[Reply | None, str]:
        sent = dict(headers)
        if token:
            sent["Authorization"] = f"Bearer {token}"
        try:
            connection = self._connect()
            connection.request(method, target, body=body, headers=sent)
            response = connection.getresponse()
            reply = Reply(response.status, response.headers, response.read())  # type: ignore[arg-type]
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise BadOption(
                f"this machine does not trust the certificate of {self.server.url}: {error.verify_message}"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if isinstance(error, ssl.SSLError) and error.reason in NO_TLS:
                raise BadOption(f"{self.server.url} does not use TLS: write its url with http://") from None
            return None, describe_failure(error)
        return reply, ""

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            self._connection = kind(self._host, self._port, timeout=self._timeout_s)
        return self._connection

    def refuse(self, reply: Reply, method: str, path: str) -> NoReturn:
        """Raise `RequestRefused` for a reply that the caller allowed, but cannot use."""
        problem = reply.problem
        text = f"{reply.status} {problem.get('code', '')}: {problem.get('detail', '')}".rstrip(": ")
        raise RequestRefused(
            f"{method} {path} at {self.server.url}: {text}", refusal=problem.get("code"), refused=reply.status
        )

    def _check_refusal(self, reply: Reply, method: str, path: str) -> str:
        """Return the text of a refusal that is worth a retry. Raise `RequestRefused` for any other."""
        problem = reply.problem
        text = f"{reply.status} {problem.get('code', '')}: {problem.get('detail', '')}".rstrip(": ")
        if "code" not in problem and reply.status not in RETRIED:
            text = f"{reply.status} without a Mainstem error: is it a Mainstem server?"
        if reply.status in RETRIED or problem.get("retryable"):
            return text
        if reply.status == 401 and self.server.token_file is not None:
            return text
        if reply.status == 401:
            text += (
                ". Run this again with a valid token: it continues where it stopped. A token in a file (tokenFile, or "
                "--token-file of a job) is read for every request, so it can be renewed meanwhile"
            )
        raise RequestRefused(
            f"{method} {path} at {self.server.url}: {text}", refusal=problem.get("code"), refused=reply.status
        )


def describe_failure(error: Exception) -> str:
    """Return the reason why no reply came, for people."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, socket.gaierror):
        return "its host name is unknown"
    if isinstance(error, TimeoutError):
        return "no reply in time"
    if isinstance(error, http.client.RemoteDisconnected | ConnectionError | http.client.IncompleteRead):
        return "the connection broke"
    if isinstance(error, http.client.HTTPException):
        return "the reply is not HTTP"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    return type(error).__name__


def _retry_after(reply: Reply) -> float:
    value = reply.headers.get("Retry-After", "")
    return min(float(value), limits.PIPELINE_BACKOFF_S_MAX) if value.isdigit() else 0.0
