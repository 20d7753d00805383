"""Gives a log its identity when a server starts, before anybody can ask for it."""

import logging

from mainstem.errors import MainstemError
from mainstem.log.commit import CommitLog
from mainstem.log.identity import IDENTITY_KEY, LogIdentity, SettleIdentity, make_id, make_tag

logger = logging.getLogger(__name__)


async def settle_identity(log: CommitLog) -> None:
    """Make sure that the log has a durable identity. A store that refuses writes is served without one."""
    origin = log.store.origin
    try:
        known: LogIdentity | None = await log.store.get(IDENTITY_KEY)
        if known is None or known.origin != origin:
            new_id, tag = make_id(log.random.getrandbits(128)), make_tag(log.random.getrandbits(32))
            await log.submit(SettleIdentity(new_id, tag, origin))
    except MainstemError as error:
        logger.warning("the log gets its identity at the next start, because this one failed: %s", error.detail)
