"""A real S3 API (moto's) in a process, with the standard variables that lead to it, and faults on demand.

As a program, this file serves the API on the port of its argument. It is a process of its own, since delta-rs holds
Python's lock while it waits for a reply.
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any

HOST = "127.0.0.1"
KEY_ID = "AKIAIOSFODNN7MAINSTEM"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYMAINSTEM"
CONTROL = "/-/faults"
BODY = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"


class ObjectStore:
    """An S3-compatible server that keeps its objects in memory."""

    def __init__(self) -> None:
        from tests.support.waits import eventually

        with socket.socket() as probe:
            probe.bind((HOST, 0))
            self._port = int(probe.getsockname()[1])
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as this object)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self._port)], stdout=self._log, stderr=self._log, stdin=subprocess.DEVNULL
        )
        self.url = f"http://{HOST}:{self._port}"
        eventually(self._answers, unless=lambda: None if self._process.poll() is None else "moto has ended")

    @property
    def environment(self) -> dict[str, str]:
        """The standard variables, as every SDK of AWS reads them."""
        return {
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "*",
        }

    def make_bucket(self) -> str:
        """Create a bucket of its own for a test, and return its URI."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        self._request("PUT", f"/{name}")
        return f"s3://{name}"

    def fail(self, status: int, code: str, *, times: int | None = None, methods: Iterable[str] = ()) -> None:
        """Answer the next requests with an error: `times` of them, of these methods; by default all."""
        self._control(status=status, code=code, times=times, methods=list(methods))

    def delay(self, seconds: float) -> None:
        """Answer every request later."""
        self._control(delay=seconds)

    def recover(self) -> None:
        self._control()

    def count_failed(self) -> int:
        """Return how many requests have failed since the last call of `fail`."""
        found: int = json.loads(self._request("GET", CONTROL))
        return found

    def close(self) -> None:
        self._process.kill()
        self._process.wait(30)
        self._log.close()

    def _control(self, **fault: Any) -> None:
        self._request("POST", CONTROL, json.dumps(fault))

    def _request(self, method: str, path: str, body: str = "") -> bytes:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=30)
        try:
            connection.request(method, path, body)
            return connection.getresponse().read()
        finally:
            connection.close()

    def _answers(self) -> bool:
        try:
            self.recover()
        except OSError:
            return False
        return True


def make_app() -> Callable[..., Iterable[bytes]]:
    """Return moto's application behind one that answers with the faults that a test has asked for."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    moto: Any = DomainDispatcherApplication(create_backend_app)
    fault: dict[str, Any] = {}
    failed = [0]

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        body = b""
        if environ["PATH_INFO"] == CONTROL:
            if method == "POST":
                fault.clear()
                fault.update(json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))))
                failed[0] = 0
            start("200 OK", [("Content-Type", "application/json")])
            return [json.dumps(failed[0]).encode()]
        wanted = method in fault.get("methods", ()) or not fault.get("methods")
        if "status" in fault and wanted and (fault["times"] is None or failed[0] < fault["times"]):
            failed[0] += 1
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            body = BODY.format(code=fault["code"]).encode()
            start(
                f"{fault['status']} Failed", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
            )
            return [b"" if method == "HEAD" else body]
        time.sleep(fault.get("delay", 0.0))
        answered: Iterable[bytes] = moto(environ, start)
        return answered

    return answer


def main() -> None:
    from werkzeug.serving import run_simple

    os.environ.pop("WERKZEUG_RUN_MAIN", None)
    run_simple(HOST, int(sys.argv[1]), make_app(), threaded=True)


if __name__ == "__main__":
    main()
