"""The simplest model of the Durable Streams protocol, written from its text: lists and dicts, one request at a time."""

from dataclasses import dataclass, field

SECOND_US = 1_000_000

Producer = tuple[str, int, int]
Outcome = tuple[object, ...]
"""A refusal: its code and facts. A success: what was done, and where the stream then ends."""


@dataclass
class Life:
    """A stream from its PUT to its deletion or expiry. A path can have several lives, one after the other."""

    number: int
    media_type: str
    ttl_s: int | None
    expires_us: int | None
    data: bytes = b""
    closed: bool = False
    closed_by: Producer | None = None
    last_seq: bytes | None = None
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)
    over: bool = False
    touched_in_doubt: bool = False
    """The last request changed nothing: the protocol leaves open whether it counts as a write that slides the TTL."""

    @property
    def end(self) -> tuple[int, int]:
        return self.number, len(self.data)


def media_type(content_type: str) -> str:
    return content_type.split(";")[0].strip().lower()


class StreamModel:
    def __init__(self) -> None:
        self.lives: dict[str, list[Life]] = {}
        self.committed = 0
        """How many records the log must hold: one per change."""

    def latest(self, path: str) -> Life | None:
        """Return the life that has not been ended yet, even if it has expired."""
        lives = self.lives.get(path)
        return lives[-1] if lives and not lives[-1].over else None

    def alive(self, path: str, now_us: int) -> Life | None:
        life = self.latest(path)
        return None if life is None or (life.expires_us is not None and life.expires_us <= now_us) else life

    def slide(self, life: Life, now_us: int) -> None:
        """Restart the TTL's window, as a read or a write does."""
        life.touched_in_doubt = False
        if life.ttl_s is not None:
            life.expires_us = now_us + life.ttl_s * SECOND_US

    # Requests

    def create(
        self,
        path: str,
        now_us: int,
        content_type: str,
        data: bytes,
        closed: bool,
        ttl_s: int | None,
        expires_us: int | None,
    ) -> Outcome:
        life = self.alive(path, now_us)
        if life is not None:
            same_time = ttl_s == life.ttl_s and (ttl_s is not None or expires_us == life.expires_us)
            if media_type(content_type) != life.media_type or not same_time or closed != life.closed:
                return ("stream_exists",)
            life.touched_in_doubt = True
            return ("confirmed", life.end)
        self._end(path)
        lives = self.lives.setdefault(path, [])
        life = Life(len(lives), media_type(content_type), ttl_s, expires_us, data, closed)
        lives.append(life)
        self.slide(life, now_us)
        self.committed += 1 + bool(data) + closed
        return ("created", life.end)

    def append(
        self,
        path: str,
        now_us: int,
        content_type: str,
        data: bytes | None,
        closes: bool,
        seq: str | None,
        producer: Producer | None,
    ) -> Outcome:
        life = self.alive(path, now_us)
        if life is None:
            return ("stream_not_found",)
        if life.closed:
            return self._on_closed(life, data, producer)
        if data is not None and media_type(content_type) != life.media_type:
            return ("content_type_mismatch",)
        if producer is not None:
            refusal = self._judge(life, producer)
            if refusal == ():
                life.touched_in_doubt = True
                return ("settled", life.end, life.producers[producer[0]])
            if refusal is not None:
                return refusal
        if seq is not None:
            if life.last_seq is not None and seq.encode() <= life.last_seq:
                return ("sequence_regression",)
            life.last_seq = seq.encode()
        if data is not None:
            life.data += data
            self.committed += 1
        if closes:
            life.closed, life.closed_by = True, producer
            self.committed += 1
        if producer is not None:
            life.producers[producer[0]] = producer[1:]
        self.slide(life, now_us)
        return ("wrote" if data else "settled", life.end, producer[1:] if producer else None)

    def delete(self, path: str, now_us: int) -> Outcome:
        if self.alive(path, now_us) is None:
            return ("stream_not_found",)
        self._end(path)
        return ("deleted",)

    def expire(self, path: str, now_us: int) -> Outcome:
        if self.alive(path, now_us) is not None or self.latest(path) is None:
            return ("left",)
        self._end(path)
        return ("expired",)

    # Rules

    def _end(self, path: str) -> None:
        life = self.latest(path)
        if life is not None:
            life.over = True
            self.committed += 1

    def _on_closed(self, life: Life, data: bytes | None, producer: Producer | None) -> Outcome:
        """Accept only a retry of the request that closed the stream, or a close with neither body nor producer."""
        if producer is None and data is None:
            life.touched_in_doubt = True
            return ("settled", life.end, None)
        if producer is not None:
            name, epoch, _ = producer
            if producer == life.closed_by:
                life.touched_in_doubt = True
                return ("settled", life.end, life.producers[name])
            if name in life.producers and epoch < life.producers[name][0]:
                return ("stale_epoch", life.producers[name][0])
        return ("stream_closed", life.end)

    def _judge(self, life: Life, producer: Producer) -> Outcome | None:
        """Apply section 5.2.1: None for the next append, () for one that is stored already, otherwise the refusal."""
        name, epoch, seq = producer
        known = life.producers.get(name)
        if known is None:
            return None if seq == 0 else ("producer_gap", 0)
        known_epoch, known_seq = known
        if epoch != known_epoch:
            if epoch < known_epoch:
                return ("stale_epoch", known_epoch)
            return None if seq == 0 else ("epoch_must_start_at_zero",)
        if seq <= known_seq:
            return ()
        return None if seq == known_seq + 1 else ("producer_gap", known_seq + 1)
