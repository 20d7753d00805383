"""Background work: delete expired streams, trim streams with a retention policy, make reads of streams with a sliding
TTL durable, and erase the data of deleted streams."""

import asyncio
import logging

from mainstem import limits
from mainstem.errors import MainstemError, StoreFull
from mainstem.log.records import CommittedId, TopicId
from mainstem.streams.commands.delete import Expire, PurgeStream, Touch
from mainstem.streams.commands.trim import EndRetentionChecks, Trim
from mainstem.streams.reading.reader import Streams
from mainstem.streams.rules.lifecycle import SECOND_US
from mainstem.streams.rules.retention import find_surplus
from mainstem.streams.states import (
    GARBAGE,
    PRODUCERS,
    RETENTION_CHECKS,
    STREAMS,
    Garbage,
    StreamState,
    stream_key,
)

POSITION_MAX = 2**62
logger = logging.getLogger(__name__)


class Reaper:
    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self.log = streams.log
        self._every_s = limits.REAP_EVERY_S
        self._task: asyncio.Task[None] | None = None
        self._flushed_s = 0.0

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="mainstem-reaper")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            await self._flush_touches()
        except MainstemError as error:
            logger.warning("the latest reads of streams with a TTL could not be made durable: %s", error.detail)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self.round()
            except MainstemError as error:
                logger.warning("background work failed and will be retried: %s", error.detail)
            except Exception:
                logger.exception("background work failed and will be retried")

    async def round(self) -> None:
        """Do all work that is due, once."""
        now_s = asyncio.get_running_loop().time()
        touches = self.streams.touches
        if self.log.store.shared:
            await self._touch_live()
        every_s = self._every_s if self.log.store.shared else limits.TOUCHES_FLUSH_S
        if touches and (now_s - self._flushed_s >= every_s or len(touches) > limits.TOUCHES_MAX):
            self._flushed_s = now_s
            try:
                await self._flush_touches()
            except StoreFull as error:  # go on: the rest of the round frees space
                logger.warning("reads of streams with a TTL could not be made durable yet: %s", error.detail)
        if not self.log.store.is_leader:
            return
        await self._expire()
        await self._apply_retention()
        await self._erase_garbage()

    async def _touch_live(self) -> None:
        """Touch streams with live readers on this node, so that the leader, which may be another node, does not expire
        them."""
        paths, now_us = self.streams.live_paths(), self.log.clock_us()
        for at in range(0, len(paths), limits.SCAN_PAGE):
            some = paths[at : at + limits.SCAN_PAGE]
            states = await self.log.store.get_many([stream_key(path) for path in some])
            for path in some:
                state: StreamState | None = states[stream_key(path)]
                if state is None or state.ttl_s is None or state.expires_at_us is None:
                    continue
                if state.expires_at_us - now_us < state.ttl_s * SECOND_US // 2:
                    self.streams.touch(path, state)

    async def _flush_touches(self) -> None:
        """Make reads durable in slices, so that the commands of clients can run in between."""
        touches = list(self.streams.touches.items())
        size = min(limits.BATCH_COMMANDS_MAX, limits.COMMANDS_WAITING_MAX // 2)
        for at in range(0, len(touches), size):
            some = touches[at : at + size]
            await asyncio.gather(*(self.log.submit(Touch(path, touched_us)) for path, touched_us in some))
            for path, touched_us in some:
                if self.streams.touches.get(path) == touched_us:
                    del self.streams.touches[path]

    async def _expire(self) -> None:
        grace_us = int(limits.EXPIRY_GRACE_S * SECOND_US) if self.log.store.shared else 0
        paths = await self.log.store.due(STREAMS, self.log.clock_us() - grace_us, limits.REAP_STREAMS_MAX)
        await asyncio.gather(*(self.log.submit(Expire(path, self.streams.touched_us(path))) for path in paths))

    async def _apply_retention(self) -> None:
        """Trim the streams whose retention check is due."""
        store, now_us = self.log.store, self.log.clock_us()
        for path in await store.due(RETENTION_CHECKS, now_us, limits.RETENTION_STREAMS_MAX):
            state: StreamState | None = await store.get(stream_key(path))
            if state is None or state.retention is None:
                await self._finish_trim(path, state)
                continue
            oldest = await store.outline(state.topic, state.earliest, state.tail, limits.ERASE_RECORDS_MAX)
            gone = find_surplus(state, oldest, now_us)
            again_us = now_us if len(gone) == limits.ERASE_RECORDS_MAX else now_us + _retention_every_us()
            position, last_id = (gone[-1].end, gone[-1].committed_id) if gone else (state.earliest, CommittedId(0))
            messages = sum(record.messages for record in gone)
            await self.log.submit(Trim(path, state.topic, position, messages, again_us, last_id))
            await self._erase_trimmed(path, state.topic)

    async def _finish_trim(self, path: str, state: StreamState | None) -> None:
        """Erase what was trimmed from a stream without a retention policy, and end its checks."""
        if state is not None and state.forks and not state.soft_deleted:
            again_us = self.log.clock_us() + _retention_every_us()
            await self.log.submit(Trim(path, state.topic, state.earliest, 0, again_us))
            return
        if state is not None:
            await self._erase_trimmed(path, state.topic)
        await self.log.submit(EndRetentionChecks(path, 0 if state is None else state.earliest))

    async def _erase_trimmed(self, path: str, topic: TopicId) -> None:
        """Erase the records before the durable earliest position, unless a fork has been made since the trim was
        planned."""
        state: StreamState | None = await self.log.store.get(stream_key(path))
        if state is not None and state.topic == topic and not state.forks:
            while await self.log.store.erase(topic, state.earliest, limits.ERASE_RECORDS_MAX):
                pass

    async def _erase_garbage(self) -> None:
        store = self.log.store
        for _, garbage in await store.scan(GARBAGE, "", "", limits.GARBAGE_TOPICS_MAX):
            while await store.erase(garbage.topic, POSITION_MAX, limits.ERASE_RECORDS_MAX):
                pass
            await self._purge(garbage)

    async def _purge(self, garbage: Garbage) -> None:
        prefix = garbage.path + "\0"
        after = ""
        while True:
            found = await self.log.store.scan(PRODUCERS, prefix, after, limits.ERASE_RECORDS_MAX)
            last = len(found) < limits.ERASE_RECORDS_MAX
            ids = tuple(name.removeprefix(prefix) for name, _ in found)
            await self.log.submit(PurgeStream(garbage, ids, last))
            if last:
                return
            after = found[-1][0]


def _retention_every_us() -> int:
    return int(limits.RETENTION_EVERY_S * SECOND_US)
