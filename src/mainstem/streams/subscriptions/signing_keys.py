"""The keys that sign webhooks and tokens: created when the server first starts, and replaced when they are old."""

import asyncio
import logging

from mainstem import limits
from mainstem.errors import MainstemError
from mainstem.log.commit import CommitLog
from mainstem.streams.subscriptions.core.model import Subscription
from mainstem.streams.subscriptions.core.signing import KEYRING_KEY, EnsureKeys, Keyring, TokenClaims, make_token

logger = logging.getLogger(__name__)


class SigningKeys:
    """`ring` is available after `ensure`. The observer of the log sets it when another node has changed it."""

    def __init__(self, log: CommitLog) -> None:
        self.ring: Keyring
        self._log = log

    async def ensure(self, *, rotate: bool = False) -> Keyring:
        """Return the keys, creating them or replacing an old signing key if necessary. With `rotate`, always replace
        it."""
        random = self._log.random
        self.ring = await self._log.submit(
            EnsureKeys(random.randbytes(32), random.randbytes(32), limits.SIGNING_KEY_US_MAX, rotate)
        )
        return self.ring

    async def reload(self) -> None:
        ring: Keyring | None = await self._log.store.get(KEYRING_KEY)
        self.ring = ring or self.ring

    async def watch(self) -> None:
        """Replace the signing key when it is old, and stop publishing replaced keys after a while."""
        while True:
            await asyncio.sleep(limits.SIGNING_KEY_CHECK_S)
            try:
                await self.ensure()
            except MainstemError as error:
                logger.warning("the signing keys could not be checked: %s", error.detail)

    def token(self, name: str, state: Subscription) -> str:
        """Return the token with which a worker proves that it was given the current wake."""
        return make_token(self.ring, TokenClaims(name, state.nonce, state.generation))
