"""Reports of retries: to the application's `on_retry`, or else to the log."""

import logging
from collections.abc import Callable

from mainstem import limits
from mainstem.client.core.retries import Retry

logger = logging.getLogger("mainstem.client")

OnRetry = Callable[[Retry], object]


class RetryReports:
    """Hands each retry of one client to `on_retry`, or logs a warning if there is none.

    The log omits a first failure that is retried at once, and retries that end within CLIENT_RETRY_LOG_S: the error
    follows anyway. It has at most one line per CLIENT_RETRY_LOG_S, because all calls fail together in an outage.
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
        is_first = retry.failures == 1 and retry.wait_s < limits.CLIENT_RETRY_LOG_S
        is_last = retry.remaining_s is not None and retry.remaining_s < limits.CLIENT_RETRY_LOG_S
        if is_first or is_last:
            return
        now_s = self._clock_s()
        if self._logged_s is None or now_s - self._logged_s >= limits.CLIENT_RETRY_LOG_S:
            self._logged_s = now_s
            logger.warning("%s", retry)
