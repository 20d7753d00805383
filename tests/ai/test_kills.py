"""Runs of several processes, while processes and the server are killed at random."""

import asyncio
import multiprocessing
import os
import time
from functools import partial
from multiprocessing.process import BaseProcess

import httpx2
import pytest

from mainstem import limits
from mainstem.ai import Runs
from mainstem.client import AsyncStreams, ClientError, Retries
from mainstem.testing.server import ServerProcess
from tests.streams_client.test_restarts import free_port
from tests.support.waits import eventually

PATIENT = Retries(attempts_max=None, delay_s=0.02, delay_s_max=0.1)
PIECES = 20
RUNS = 60
KILLS = 12
HASTE = {"RUN_HEARTBEAT_S": 0.1, "RUN_RETRY_S": 0.05, "RUN_LINGER_S": 0.01}


def run_everything(url: str, first: int) -> None:
    """Start all runs, one after the other, from another first one than other processes, and wait to be killed."""
    for name, value in HASTE.items():
        setattr(limits, name, value)
    process = os.getpid()

    async def speak(number: int):
        for piece in range(PIECES):
            yield {"run": number, "piece": piece, "process": process}
            await asyncio.sleep(0.005)

    async def main() -> None:
        async with AsyncStreams(url, retries=PATIENT) as streams, Runs(streams) as runs:
            for step in range(RUNS):
                number = (first + step) % RUNS
                try:
                    run = await runs.start(partial(speak, number), stream=f"runs/{number}")
                    if run.active and step % 7 == 3:
                        await run.stop("enough")
                except ClientError:
                    await asyncio.sleep(0.01)  # the server was killed in between; another process starts this run
            await asyncio.Event().wait()

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_run_is_written_once_and_ends_whatever_is_killed(start_server, chance) -> None:
    server: ServerProcess = start_server("--port", str(free_port()))
    context = multiprocessing.get_context("spawn")
    started = 0

    def start() -> BaseProcess:
        nonlocal started
        process = context.Process(target=run_everything, args=(server.url, started * 17 % RUNS), daemon=True)
        process.start()
        started += 1
        return process

    processes = [start() for _ in range(3)]
    try:
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.1, 0.8))
            if chance.random() < 0.25:
                server.kill()
                server.start()
            else:
                victim = chance.randrange(len(processes))
                processes[victim].kill()
                processes[victim].join()
                processes[victim] = start()
        with httpx2.Client(base_url=server.url + "/v1/stream/runs/") as http:
            eventually(lambda: all(is_closed(http, number) for number in range(RUNS)), "all runs have ended")
            endings = [check_run(http.get(str(number)).json(), number) for number in range(RUNS)]
        assert set(endings) <= {"finished", "abort", "error"}
        assert "finished" in endings
    finally:
        for process in processes:
            process.kill()
            process.join()


def is_closed(http: httpx2.Client, number: int) -> bool:
    return http.head(str(number)).headers.get("stream-closed") == "true"


def check_run(messages: list[dict], number: int) -> str:
    """Check that one process has written the pieces of a run, each of them once and in order. Return how it ended."""
    ending = "finished"
    if messages and "type" in messages[-1]:
        ending = messages.pop()["type"]
    assert [(message["run"], message["piece"]) for message in messages] == [(number, n) for n in range(len(messages))]
    assert len({message["process"] for message in messages}) <= 1
    assert (ending == "finished") <= (len(messages) == PIECES)
    return ending
