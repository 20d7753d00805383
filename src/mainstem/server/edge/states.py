"""What may happen next on a connection.

A connection carries one request cycle at a time: a request is read, and its reply is written. Each of the two
directions is a small state machine. The tables below are all that there is: an event that the table does not list for
a state is a bug in the edge, never a matter of what a client sent, and raises `IllegalEvent`.

How they work together:

- A request is handed to its handler when its head is complete (`BEGIN`), once. The reply may begin before the body has
  been read.
- The next request is looked at only when both directions are `COMPLETE` (`NEXT`). Until then its bytes wait in a
  bounded buffer and the socket is not read. So replies leave in the order of their requests, and an error further on
  in the input is answered after them.
- A reply can be complete before its request is: then the rest of the body is read and dropped (`DATA`, `END`).
- Bad input ends the reading (`BAD`). The error is the reply if none has begun (`ERROR`); then the connection closes.
- A handshake for a WebSocket hands both directions over (`SWITCH`), and nothing here happens any more.
"""

from enum import IntEnum, auto
from typing import Final


class IllegalEvent(AssertionError):
    """The edge did something that its own rules exclude."""


class Reading(IntEnum):
    """What comes from the client. (Numbers, because tables with them are looked up quickly.)"""

    HEAD = auto()
    """The head of the next request, of which there may be some bytes already."""
    BODY = auto()
    COMPLETE = auto()
    SWITCHED = auto()
    ENDED = auto()
    """Nothing more is looked at: the input was bad, or the client has said its last."""


class Read(IntEnum):
    HEAD = auto()
    """A head whose body follows."""
    HEAD_ONLY = auto()
    """A head without a body, or with all of it: the whole request."""
    DATA = auto()
    END = auto()
    NEXT = auto()
    SWITCH = auto()
    BAD = auto()
    EOF = auto()


class Writing(IntEnum):
    """What goes to the client."""

    IDLE = auto()
    PENDING = auto()
    """A handler has the request, and has not answered yet."""
    BODY = auto()
    """The head of the reply is written."""
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
    """An error in place of a reply."""
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
