"""Writers that keep writing while their server is killed and started again."""

import http.client
import threading
from collections.abc import Iterator, Sequence

from tests.support.http_requests import TEXT, Reply, connect, send

LOAD = "/v1/stream/load"
WAIT_S_MAX = 60.0


class Stopped(Exception):
    """The test is over."""


class Endpoint:
    """The server's address since its last start, and how many requests it has answered so far."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._life = 0
        self._address: tuple[str, int] | None = None
        self._stopped = False
        self._answered = 0

    def move(self, address: tuple[str, int]) -> None:
        with self._changed:
            self._life += 1
            self._address = address
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def find(self, after: int) -> tuple[int, tuple[str, int]]:
        """Return the first life of the server after the given one, and its address."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._stopped or self._life > after, WAIT_S_MAX):
                raise TimeoutError("the server did not come back")
            if self._stopped:
                raise Stopped
            assert self._address is not None
            return self._life, self._address

    def check(self) -> None:
        if self._stopped:
            raise Stopped

    def count(self) -> None:
        with self._changed:
            self._answered += 1
            self._changed.notify_all()

    def wait_for_answers(self, more: int) -> None:
        with self._changed:
            enough = self._answered + more
            if not self._changed.wait_for(lambda: self._answered >= enough, WAIT_S_MAX):
                raise TimeoutError(f"only {self._answered} of {enough} requests were answered")


class Writer(threading.Thread):
    """Sends numbered requests, one after the other. `acknowledged` holds the numbers that the server has confirmed."""

    def __init__(self, endpoint: Endpoint, name: str, line_bytes: int = 0) -> None:
        super().__init__(name=name, daemon=True)
        self.endpoint = endpoint
        self.line_bytes = line_bytes
        self.acknowledged: list[int] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            life = 0
            numbers = self.numbers()
            number = next(numbers)
            while True:
                life, address = self.endpoint.find(after=life)
                connection = connect(address)
                try:
                    while True:
                        self.endpoint.check()
                        self.check_reply(self.request(connection, number))
                        self.acknowledged.append(number)
                        self.endpoint.count()
                        number = next(numbers)
                except (OSError, http.client.HTTPException):
                    number = self.after_doubt(number, numbers)
                finally:
                    connection.close()
        except Stopped:
            pass
        except BaseException as failure:  # noqa: BLE001 (the test raises it again in its own thread)
            self.failure = failure

    def numbers(self) -> Iterator[int]:
        return iter(range(1_000_000))

    def after_doubt(self, number: int, numbers: Iterator[int]) -> int:
        """Return the number to send after a request that the server may or may not have processed."""
        raise NotImplementedError

    def request(self, connection: http.client.HTTPConnection, number: int) -> Reply:
        raise NotImplementedError

    def check_reply(self, reply: Reply) -> None:
        raise NotImplementedError

    def line(self, number: int) -> bytes:
        """Return the name and the number, padded with spaces to the requested length."""
        return f"{self.name}:{number}".ljust(self.line_bytes).encode() + b"\n"


class PlainWriter(Writer):
    """Cannot find out whether an interrupted request was processed, and never retries it."""

    def request(self, connection: http.client.HTTPConnection, number: int) -> Reply:
        return send(connection, "POST", LOAD, self.line(number), TEXT)

    def check_reply(self, reply: Reply) -> None:
        assert reply.status == 204, reply

    def after_doubt(self, number: int, numbers: Iterator[int]) -> int:
        return next(numbers)


class ProducerWriter(Writer):
    """Retries each unacknowledged request with the same sequence number; the server must store it exactly once."""

    def request(self, connection: http.client.HTTPConnection, number: int) -> Reply:
        producer = {"Producer-Id": self.name, "Producer-Epoch": "0", "Producer-Seq": str(number)}
        return send(connection, "POST", LOAD, self.line(number), TEXT | producer)

    def check_reply(self, reply: Reply) -> None:
        assert reply.status in (200, 204), reply
        assert reply.headers["Producer-Seq"] == str(len(self.acknowledged))

    def after_doubt(self, number: int, numbers: Iterator[int]) -> int:
        return number


class Creator(ProducerWriter):
    """Creates streams with a first line. A PUT may be retried: it creates the stream, or confirms that it exists."""

    def request(self, connection: http.client.HTTPConnection, number: int) -> Reply:
        return send(connection, "PUT", self.path(number), self.line(number), TEXT)

    def check_reply(self, reply: Reply) -> None:
        assert reply.status in (200, 201), reply

    def path(self, number: int) -> str:
        return f"/v1/stream/created/{self.name}/{number}"


def stop_writers(endpoints: Sequence[Endpoint], writers: Sequence[Writer]) -> None:
    """Stop the writers, and raise the first failure that one of them met."""
    for endpoint in endpoints:
        endpoint.stop()
    for writer in writers:
        writer.join(WAIT_S_MAX)
        assert not writer.is_alive()
        if writer.failure is not None:
            raise writer.failure
