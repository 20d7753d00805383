"""Waits for conditions that no event announces: the only polling loops of the tests."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

WAIT_S_MAX = 60.0  # only a condition that never becomes true takes this long
LOOK_AGAIN_S = 0.01


def eventually(
    look: Callable[..., T | None],
    what: str = "",
    *,
    within_s: float = WAIT_S_MAX,
    unless: Callable[[], object] = lambda: None,
) -> T:
    """Call `look` until its answer is true, and return that answer.

    `what` names the condition; by default it is the source line of `look`. A true answer of `unless` means that the
    condition cannot become true anymore, for example because a process has ended: the wait then fails with that answer.
    """
    deadline_s = time.monotonic() + within_s
    while not (found := look()):
        _check(look, what, found, unless(), deadline_s, within_s)
        time.sleep(LOOK_AGAIN_S)
    return found


@overload
async def eventually_async(
    look: Callable[..., Awaitable[T | None]], what: str = "", *, within_s: float = WAIT_S_MAX
) -> T: ...


@overload
async def eventually_async(look: Callable[..., T | None], what: str = "", *, within_s: float = WAIT_S_MAX) -> T: ...


async def eventually_async(look: Callable[..., Any], what: str = "", *, within_s: float = WAIT_S_MAX) -> Any:
    """The same on an event loop. `look` may be a function or a coroutine function."""
    deadline_s = time.monotonic() + within_s
    while True:
        answer = look()
        found = await answer if inspect.isawaitable(answer) else answer
        if found:
            return found
        _check(look, what, found, None, deadline_s, within_s)
        await asyncio.sleep(LOOK_AGAIN_S)


def _check(
    look: Callable[[], Any], what: str, found: object, obstacle: object, deadline_s: float, within_s: float
) -> None:
    if obstacle or time.monotonic() > deadline_s:
        reason = f"it cannot happen anymore: {obstacle}" if obstacle else f"not within {within_s:g} s"
        raise AssertionError(f"{what or _source_of(look)}: {reason}; the last answer was {found!r}")


def _source_of(look: Callable[..., Any]) -> str:
    if getattr(look, "__name__", "") != "<lambda>":
        return repr(look)
    try:
        return inspect.getsource(look).strip()
    except OSError:
        return repr(look)
