"""Reports of retries: to the application's `on_retry`, or else to the log."""

import logging
from collections.abc import Callable

from mainstem import limits
from mainstem.client.core.retries import Retry

logger = logging.getLogger("mainstem.client")

OnRetry = Callable[[Retry], object]


class RetryReports:
    """Hands each retry of one client to `on_retry`, or logs a warning if there is none.

    The log leaves out a first failure that is retried at once, and holds at most one line per
    `CLIENT_RETRY_LOG_S` and client: in an outage, all calls of a program fail together.
    """

    def __init__(self, on_retry: OnRetry | None, clock_s: Callable[[], float]) -> None:
        self._on_retry = on_retry
        self._clock_s = clock_s
        self._logged_s: float | None = None

    def __call__(self, retry: Retry) -> None:
        if self._on_retry is None:
            self._log(retry)
            return
        try:
            self._on_retry(retry)
        except Exception:
            logger.exception("on_retry raised an exception; the client retries all the same")

    def _log(self, retry: Retry) -> None:
        if retry.failures == 1 and retry.wait_s < limits.CLIENT_RETRY_LOG_S:
            return
        now_s = self._clock_s()
        if self._logged_s is None or now_s - self._logged_s >= limits.CLIENT_RETRY_LOG_S:
            self._logged_s = now_s
            logger.warning("%s", retry)
