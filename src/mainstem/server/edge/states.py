"""Which events are legal on a connection, as two state machines.

A connection carries one request cycle at a time: the server reads a request, and writes its reply. Each of the two
directions is a small state machine, given completely by the tables below. An event that the table does not list for a
state is a bug in the edge, whatever the client sent, and raises `IllegalEvent`.

How they work together:

- A request goes to its handler once, when its head is complete (`BEGIN`). The reply may begin before the body has been
  read.
- The next request is parsed only when both directions are `COMPLETE` (`NEXT`). Until then its bytes wait in a bounded
  buffer, and the server does not read the socket. So replies leave in the order of their requests, and an error in a
  later request is reported after them.
- A reply can be complete before its request is. Then the rest of the body is read and dropped (`DATA`, `END`).
- Bad input ends the reading direction (`BAD`). The error is the reply if none has begun (`ERROR`); then the connection
  closes.
- A WebSocket handshake switches both directions to another protocol (`SWITCH`), and these machines stop.
"""

from enum import IntEnum, auto
from typing import Final


class IllegalEvent(AssertionError):
    """An event that the tables do not allow: a bug in the edge."""


class Reading(IntEnum):
    """States of the direction from the client. They are numbers because these make fast dict keys."""

    HEAD = auto()
    """Waiting for the head of the next request, of which some bytes may have arrived."""
    BODY = auto()
    COMPLETE = auto()
    SWITCHED = auto()
    ENDED = auto()
    """Nothing more is read: the input was bad, or the client has closed its half of the connection."""


class Read(IntEnum):
    HEAD = auto()
    """A head that is followed by a body."""
    HEAD_ONLY = auto()
    """A head without a body: the whole request."""
    DATA = auto()
    END = auto()
    NEXT = auto()
    SWITCH = auto()
    BAD = auto()
    EOF = auto()


class Writing(IntEnum):
    """States of the direction to the client."""

    IDLE = auto()
    PENDING = auto()
    """A handler has the request, and has not begun its reply."""
    BODY = auto()
    """The head of the reply has been written."""
    COMPLETE = auto()
    SWITCHED = auto()
    ENDED = auto()


class Write(IntEnum):
    BEGIN = auto()
    HEAD = auto()
    END = auto()
    WHOLE = auto()
    """Head, body and end at once."""
    NEXT = auto()
    SWITCH = auto()
    ERROR = auto()
    """An error instead of the handler's reply."""
    CLOSE = auto()


READING: Final[dict[Reading, dict[Read, Reading]]] = {
    Reading.HEAD: {
        Read.HEAD: Reading.BODY,
        Read.HEAD_ONLY: Reading.COMPLETE,
        Read.BAD: Reading.ENDED,
        Read.EOF: Reading.ENDED,
    },
    Reading.BODY: {
        Read.DATA: Reading.BODY,
        Read.END: Reading.COMPLETE,
        Read.BAD: Reading.ENDED,
        Read.EOF: Reading.ENDED,
    },
    Reading.COMPLETE: {
        Read.NEXT: Reading.HEAD,
        Read.SWITCH: Reading.SWITCHED,
        Read.EOF: Reading.ENDED,
    },
    Reading.SWITCHED: {},
    Reading.ENDED: {Read.EOF: Reading.ENDED},
}

WRITING: Final[dict[Writing, dict[Write, Writing]]] = {
    Writing.IDLE: {
        Write.BEGIN: Writing.PENDING,
        Write.ERROR: Writing.ENDED,
        Write.CLOSE: Writing.ENDED,
    },
    Writing.PENDING: {
        Write.HEAD: Writing.BODY,
        Write.WHOLE: Writing.COMPLETE,
        Write.SWITCH: Writing.SWITCHED,
        Write.ERROR: Writing.ENDED,
        Write.CLOSE: Writing.ENDED,
    },
    Writing.BODY: {
        Write.END: Writing.COMPLETE,
        Write.CLOSE: Writing.ENDED,
    },
    Writing.COMPLETE: {
        Write.NEXT: Writing.IDLE,
        Write.CLOSE: Writing.ENDED,
    },
    Writing.SWITCHED: {},
    Writing.ENDED: {Write.CLOSE: Writing.ENDED},
}


def after_read(state: Reading, event: Read) -> Reading:
    try:
        return READING[state][event]
    except KeyError:
        raise IllegalEvent(f"{event} while reading is {state}") from None


def after_write(state: Writing, event: Write) -> Writing:
    try:
        return WRITING[state][event]
    except KeyError:
        raise IllegalEvent(f"{event} while writing is {state}") from None
