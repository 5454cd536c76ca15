"""Evaluate each pipeline in a process of its own, forked from one that has everything imported.

A fork takes milliseconds where a task of Airflow takes a second of a processor. A process that hangs or crashes takes
no other evaluation with it.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import cache
from multiprocessing.connection import Connection

from millrace.evaluator.outcome import EvaluationOutcome, State

PATIENCE_S = 5.0
"""Time after which an evaluation no longer keeps others waiting: it may hang."""
_CONTEXT = multiprocessing.get_context("forkserver")


async def evaluated(pipeline: str, asked: str) -> EvaluationOutcome:
    """Evaluate a pipeline in a process of its own; if the caller is cancelled, the process is killed.

    Args:
        pipeline: Its name.
        asked: A person's request, see :func:`millrace.evaluator.evaluate.request_of`.
    """
    async with _turn():
        loop = asyncio.get_running_loop()
        answer, theirs = _CONTEXT.Pipe(duplex=False)
        process = _CONTEXT.Process(target=_answer, args=(theirs, pipeline, asked), daemon=True)
        try:
            await loop.run_in_executor(_starter(), process.start)  # the first start waits for the imports
            theirs.close()
            await _readable(answer)
            return _received(answer, pipeline)
        finally:
            theirs.close()
            answer.close()
            if process.pid is not None:
                process.kill()
                await loop.run_in_executor(_starter(), process.join)


def _received(answer: Connection, pipeline: str) -> EvaluationOutcome:
    try:
        outcome: EvaluationOutcome = answer.recv()
        return outcome
    except EOFError:
        return EvaluationOutcome(State.ERROR, "The process of the evaluation ended without a result.", pipeline)


def _answer(answer: Connection, pipeline: str, asked: str) -> None:
    from millrace.evaluator.evaluate import evaluate

    answer.send(evaluate(pipeline, asked))


async def _readable(answer: Connection) -> None:
    """Wait until something can be received or the other end is closed."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(answer.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(answer.fileno())


@asynccontextmanager
async def _turn() -> AsyncIterator[None]:
    """Wait until fewer evaluations run than there are processors; those that take long do not count."""
    turns = _turns()
    await turns.acquire()
    given = asyncio.get_running_loop().call_later(PATIENCE_S, turns.release)
    try:
        yield
    finally:
        if not given.cancelled() and given.when() > asyncio.get_running_loop().time():
            given.cancel()
            turns.release()


@cache
def _turns() -> asyncio.Semaphore:
    return asyncio.Semaphore(max(2, os.cpu_count() or 1))


@cache
def _starter() -> ThreadPoolExecutor:
    """Return the thread that starts processes; the first start takes seconds."""
    # each fork runs the main script again, unless that was started as a module; then Airflow must be imported already
    script = getattr(sys.modules["__main__"], "__spec__", None) is None
    _CONTEXT.set_forkserver_preload([*(["airflow.__main__"] if script else []), "millrace.evaluator.preloaded"])
    return ThreadPoolExecutor(1, "millrace-evaluations")
