"""Evaluate pipelines in processes that stay: a task of Airflow would import and read everything again.

The processes are forked from one that has everything imported, and keep what they read of the lake. One that hangs or
crashes takes no other evaluation with it.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess

from millrace.model.evaluation_outcome import EvaluationOutcome, State

PATIENCE_S = 5.0
"""Time after which an evaluation no longer keeps others waiting: it may hang."""
MOST_EVALUATIONS = 1000
"""Evaluations after which a process is replaced, whatever its libraries have not freed."""
_CONTEXT = multiprocessing.get_context("forkserver")


async def evaluated(pipeline: str, asked: str) -> EvaluationOutcome:
    """Evaluate a pipeline in a process of its own; if the caller is cancelled, the process is killed.

    Args:
        pipeline: Its name.
        asked: A person's request, see :func:`millrace.evaluator.evaluate.request_of`.
    """
    async with _turn():
        evaluator = _take_idle(pipeline) or await _started()
        try:
            evaluator.pipe.send((pipeline, asked))
            await _readable(evaluator.pipe)
            outcome: EvaluationOutcome = evaluator.pipe.recv()
        except (EOFError, OSError):
            evaluator.end()
            return EvaluationOutcome(State.ERROR, "The process of the evaluation ended without a result.", pipeline)
        except BaseException:
            evaluator.end()
            raise
        evaluator.pipelines.add(pipeline)
        evaluator.evaluations += 1
        if evaluator.evaluations < MOST_EVALUATIONS:
            _idle().append(evaluator)
        else:
            evaluator.end()
        return outcome


@dataclass(eq=False)
class _Evaluator:
    """A process that evaluates one pipeline at a time."""

    process: ForkServerProcess
    pipe: Connection
    pipelines: set[str] = field(default_factory=set)
    evaluations: int = 0

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _take_idle(pipeline: str) -> _Evaluator | None:
    """Return an idle process, if possible the one that evaluated the pipeline before: it remembers the most."""
    idle = _idle()
    for dead in [one for one in idle if not one.process.is_alive()]:
        idle.remove(dead)
        dead.end()
    if not idle:
        return None
    chosen = next((one for one in idle if pipeline in one.pipelines), idle[0])
    idle.remove(chosen)
    return chosen


async def _started() -> _Evaluator:
    ours, theirs = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=work, args=(theirs,), daemon=True)
    try:
        # the first start waits for the imports
        await asyncio.get_running_loop().run_in_executor(_starter(), process.start)
    finally:
        theirs.close()
    return _Evaluator(process, ours)


def work(pipe: Connection) -> None:
    """Evaluate one pipeline after the other until the other end is closed."""
    from millrace.evaluator.evaluate import evaluate
    from millrace.wiring import keep_lake

    lake = keep_lake()
    with suppress(EOFError):
        while True:
            pipeline, asked = pipe.recv()
            lake.unreadable.clear()
            pipe.send(evaluate(pipeline, asked))


async def _readable(pipe: Connection) -> None:
    """Wait until something can be received or the other end is closed."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pipe.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(pipe.fileno())


@asynccontextmanager
async def _turn() -> AsyncIterator[None]:
    """Wait until fewer evaluations run than there are processors; as many again may run if those take long."""
    turns, loop = _turns(), asyncio.get_running_loop()
    await turns.acquire()
    lent = False

    def lend() -> None:
        nonlocal lent
        lent = len(_slow()) < _at_once()
        if lent:
            _slow().append(pass_on)
            turns.release()

    pass_on = loop.call_later(PATIENCE_S, lend)
    try:
        yield
    finally:
        pass_on.cancel()
        if lent:
            _slow().remove(pass_on)
        else:
            turns.release()


@cache
def _idle() -> list[_Evaluator]:
    return []


@cache
def _turns() -> asyncio.Semaphore:
    return asyncio.Semaphore(_at_once())


@cache
def _slow() -> list[object]:
    """Return one entry per evaluation that has passed on its turn."""
    return []


def _at_once() -> int:
    return max(2, os.cpu_count() or 1)


@cache
def _starter() -> ThreadPoolExecutor:
    """Return the thread that starts processes."""
    main = sys.modules["__main__"]
    if getattr(main, "__spec__", None) is None:
        # each fork would run Airflow's script again, which fails where triggers run, as they have no database; a module
        # is not run again
        main.__spec__ = find_spec("airflow.__main__")
    _CONTEXT.set_forkserver_preload(["millrace.evaluator.preloaded"])
    return ThreadPoolExecutor(1, "millrace-evaluators")
