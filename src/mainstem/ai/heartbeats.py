"""The heartbeats of a process: that it is alive, and which runs it has."""

import asyncio
import logging

from mainstem import limits
from mainstem.ai.registry import Heartbeat, Running, divide
from mainstem.ai.shared_registry import SharedRegistry
from mainstem.client.core.errors import BodyTooLarge, ClientError

logger = logging.getLogger(__name__)


class Heartbeats:
    def __init__(self, shared: SharedRegistry) -> None:
        self._shared = shared
        self._bytes_max = limits.RUN_HEARTBEAT_BYTES_MAX

    async def send(self) -> None:
        """Send a heartbeat and then the runs. What gets no reply is given up: the next one uses another connection."""
        worker = self._shared.registry.worker
        try:
            async with asyncio.timeout(limits.RUN_HEARTBEAT_WAIT_S):
                await self._shared.note(Heartbeat(worker))
                runs = [run for run in self._shared.registry.active.values() if run.worker == worker]
                parts = divide(runs, self._bytes_max)
                for number, part in enumerate(parts, 1):
                    await self._shared.note(Running(worker, part, last=number == len(parts)))
        except TimeoutError:
            logger.warning(
                "the heartbeat of the runs of this process got no reply for %g s", limits.RUN_HEARTBEAT_WAIT_S
            )
        except BodyTooLarge as error:
            self._bytes_max //= 2
            logger.warning("the log refused a list of runs, which will be sent in smaller parts: %s", error)
        except ClientError as error:
            logger.warning("the heartbeat of the runs of this process failed: %s", error)
        except Exception:
            logger.exception("the heartbeat of the runs of this process failed")
