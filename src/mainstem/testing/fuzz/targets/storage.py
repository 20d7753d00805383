"""What is read from disk: the configuration file, and the journal, whose last batch may be incomplete or damaged."""

import os
from functools import cache
from pathlib import Path
from typing import Final

from mainstem.log.records import CommittedId, Kind, Record, TopicId
from mainstem.log.store.sqlite.direct import whole_blocks
from mainstem.log.store.sqlite.journal import (
    HEADER,
    Content,
    Position,
    choose_unfolded,
    encode_content,
    make_header,
    read_file,
)
from mainstem.server.settings import load_settings
from mainstem.testing.fuzz.target import Target

STORE: Final = b"journal!"
FIRST: Final = 7


def read_damaged_journal(data: bytes) -> None:
    """Every three bytes of the input change a byte of a journal: they are its position and its new value.

    The batches before the first change are found, and no batch is found that was not written. If just one bit has
    changed, all batches are found.
    """
    written = b"".join(_batches())
    changed = bytearray(written)
    changes = [
        ((high << 8 | low) % len(written), value)
        for high, low, value in zip(data[::3], data[1::3], data[2::3], strict=False)
    ]
    for at, value in changes:
        changed[at] = value
    if len(data) % 3 == 1:  # the rest of the file is missing
        del changed[data[-1] * len(changed) // 256 :]
    intact = min([len(changed), *(at for at, _ in changes if changed[at : at + 1] != written[at : at + 1])])
    found = choose_unfolded(list(read_file(make_file(changed))), Position(STORE, FIRST - 1, 0))
    assert [batch.number for batch in found] == list(range(FIRST, FIRST + len(found)))
    assert len(found) >= intact // len(_batches()[0])
    if len(changed) == len(written) and _count_different_bits(written, changed) == 1:
        assert len(found) == len(_batches())
    for batch, raw in zip(found, _batches(), strict=False):
        assert encode_content(batch.content) == _content(raw)


def _count_different_bits(first: bytes, second: bytes | bytearray) -> int:
    return (int.from_bytes(first, "big") ^ int.from_bytes(second, "big")).bit_count()


@cache
def _batches() -> list[bytes]:
    """Return three batches of one block each."""
    batches: list[bytes] = []
    for number in range(FIRST, FIRST + 3):
        record = Record(CommittedId(number), 1, Kind.APPEND, TopicId(1), 0, 5, 1, b"hello" * number)
        content = encode_content(Content([(1, "a", None, None)], [record]))
        raw = make_header(STORE, number, content) + content
        batches.append(raw.ljust(whole_blocks(len(raw)), b"\0"))
    return batches


def _content(raw: bytes) -> bytes:
    return raw[HEADER.size : HEADER.size + HEADER.unpack_from(raw)[2]]


def read_configuration(data: bytes) -> None:
    load_settings({}, {}, str(make_file(data)))


def make_file(data: bytes | bytearray) -> Path:
    """Return a file in memory with this content. Each call replaces the file of the last one."""
    file = _open_file()
    os.ftruncate(file, 0)
    os.pwrite(file, data, 0)
    return Path(f"/proc/self/fd/{file}")


@cache
def _open_file() -> int:
    return os.memfd_create("mainstem-fuzz")


TARGETS: Final = (
    Target(
        "journal",
        read_damaged_journal,
        # Two of them change one bit: of the number of a batch, and of its content.
        (
            b"",
            b"\x00\x08\x09",
            b"\x10\x08\x09",
            b"\x20\x2fi",
            b"\x10\x10\xff\x20\x00\x00",
            b"\x20\x09\x01\x80",
            b"\xa0",
        ),
        (b"\x10\x08\x00", b"\x20\x14\xff", b"\x20\x18\xff", b"\x00\x11\x10", b"\x10"),
    ),
    Target(
        "configuration",
        read_configuration,
        (
            b'port = 4437\ndata = "./log"\n',
            b"page_bytes = 4096\ninsecure = true",
            b'"insecure" = true\n[table]\na = 1',
            b"log_level = 'info'\nport.a = 1",
        ),
        (b"\nport = ", b"[[a]]", b'"""', b"= 1979-05-27T07:32:00Z", b"= {a = 1}", b"= [1]", b"inf", b"data.x = 1"),
    ),
)
