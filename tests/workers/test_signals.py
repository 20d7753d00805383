"""SIGTERM and workers: in this process, with both event loops that applications use."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator

import pytest
import uvloop

from mainstem.client import AsyncStreams
from tests.support.waits import eventually_async
from tests.workers.running import Record, running

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=list(LOOPS))
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield runner


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    yield
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def install_in_python(handle: Callable[[], None]) -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: handle())


def install_in_the_loop(handle: Callable[[], None]) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, handle)


INSTALLS = [install_in_python, install_in_the_loop]


def test_sigterm_stops_all_workers_and_then_has_its_default_effect_again(own_server, runner):
    workers = [Record().make_worker("orders/*", subscription=name) for name in ("ann", "bob")]

    async def work() -> None:
        async with (
            AsyncStreams(own_server.url) as streams,
            running(workers[0], streams) as ann,
            running(workers[1], streams) as bob,
        ):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(asyncio.gather(ann, bob), 30)

    for _ in range(2):
        runner.run(work())
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("install", INSTALLS)
def test_a_handler_that_the_application_installs_later_stays(own_server, runner, install):
    made, received = Record().make_worker("orders/*"), []

    async def work() -> None:
        async with AsyncStreams(own_server.url) as streams:
            async with running(made, streams) as task:
                install(lambda: received.append(1))
                os.kill(os.getpid(), signal.SIGTERM)
                await eventually_async(lambda: len(received) == 1)
                assert not task.done()
            os.kill(os.getpid(), signal.SIGTERM)
            await eventually_async(lambda: len(received) == 2)

    runner.run(work())


@pytest.mark.parametrize("install", INSTALLS)
def test_a_handler_that_the_application_has_installed_before_stays(own_server, runner, install):
    made, received = Record().make_worker("orders/*"), []

    async def work() -> None:
        install(lambda: received.append(1))
        async with AsyncStreams(own_server.url) as streams, running(made, streams) as task:
            os.kill(os.getpid(), signal.SIGTERM)
            await eventually_async(lambda: received)
            assert not task.done()

    runner.run(work())
