"""The load generator, which runs in its own process: `python -m bench.load JOB` prints the figures of one job."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any

import uvloop

from bench.forks import run_forks
from bench.load_jobs import (
    AnyJob,
    Append,
    AppendBeside,
    CatchUp,
    Create,
    FanOut,
    Figures,
    Fill,
    Forks,
    Grow,
    Hash,
    Idle,
    PlainLoop,
    ReadLast,
    ReadOnce,
    Steady,
    Subscribe,
    SyncFanOut,
    SyncFill,
    SyncPage,
    SyncSubmit,
    Touch,
    decode_job,
    encode_figures,
)
from bench.local import run_hash, run_plain_loop
from bench.readers import run_catch_up, run_read_last, run_read_once
from bench.subscribers import run_append_beside, run_fan_out, run_idle
from bench.subscriptions import run_subscribe
from bench.sync_readers import run_sync_fan_out, run_sync_page
from bench.sync_writers import run_fill_partitions, run_submit
from bench.wire import UnexpectedReply
from bench.writers import run_append, run_create, run_fill, run_grow, run_steady, run_touch


def run_job(job: AnyJob) -> Figures:
    match job:
        case AppendBeside():  # before Append, which it is a kind of
            return run_loop(run_append_beside(job), job.limit_s)
        case Append():
            return run_loop(run_append(job), job.limit_s)
        case Steady():
            return run_loop(run_steady(job), job.limit_s)
        case Create():
            return run_loop(run_create(job), job.limit_s)
        case Touch():
            return run_loop(run_touch(job), job.limit_s)
        case Grow():
            return run_loop(run_grow(job), job.limit_s)
        case Fill():
            return run_loop(run_fill(job), job.limit_s)
        case FanOut():
            return run_loop(run_fan_out(job), job.limit_s)
        case Idle():
            return run_loop(run_idle(job), job.limit_s)
        case CatchUp():
            return run_catch_up(job)
        case ReadLast():
            return run_read_last(job)
        case ReadOnce():
            return run_read_once(job)
        case Forks():
            return run_forks(job)
        case Subscribe():
            return run_loop(run_subscribe(job), job.limit_s)
        case SyncSubmit():
            return run_loop(run_submit(job), job.limit_s)
        case SyncFanOut():
            return run_loop(run_sync_fan_out(job), job.limit_s)
        case SyncFill():
            return run_loop(run_fill_partitions(job), job.limit_s)
        case SyncPage():
            return run_loop(run_sync_page(job), job.limit_s)
        case PlainLoop():
            return run_plain_loop(job)
        case Hash():
            return run_hash(job)


def run_loop(work: Coroutine[Any, Any, Figures], limit_s: float) -> Figures:
    async def bounded() -> Figures:
        return await asyncio.wait_for(work, limit_s)

    return uvloop.run(bounded())


def main() -> None:
    try:
        figures = run_job(decode_job(sys.argv[1]))
    except (UnexpectedReply, OSError, TimeoutError, ValueError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    print(encode_figures(figures))


if __name__ == "__main__":
    main()
