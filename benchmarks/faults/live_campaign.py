"""A pipeline with live executors under faults, without Airflow.

Drivers and executors are real and run on the embedded cluster; they are healed once per second, as by the runner. A
seed determines moments, victims, and whether slots change at that moment.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.background import in_background
from benchmarks.delays_app import Feed, flight_rows
from benchmarks.elastic.cluster import embedded_cluster
from benchmarks.elastic.methods import LIVE
from benchmarks.elastic.pipeline import Pipeline, wait_until
from benchmarks.elastic.runs import make_pipeline, results_of, source_of
from benchmarks.faults.campaign import BENCH, TICK_S, Campaign
from benchmarks.faults.live_injection import FAULTS, WITHOUT_FEED
from millrace.local.demo.comparison import compare
from millrace.local.stack.progress import say, step
from millrace.model.errors import Conflict, MillraceError, NotReady
from millrace.run_folder.discovery import find

RATE_ROWS_PER_S, WAIT_MS, PERIOD_S = 12.0, 30.0, 6.0
SLOTS = (2, 4, 6)
HEAL_EVERY_S = 1.0
HANG_DEADLINE_S = 40.0
CALM_S = (1.0, 6.0)
"""Seconds from one fault's end to the next fault."""
RESIZED = 0.5
"""Share of faults that coincide with a change of slots."""


def live_faults(root: Path, names: Sequence[str], chance: random.Random, found: Campaign) -> None:
    """Inject faults into a running pipeline, one after the other.

    Args:
        root: An empty folder.
        names: The faults.
        chance: Draws moments and victims.
        found: Receives the results.
    """
    with embedded_cluster(root) as cluster:
        pipeline = make_pipeline(cluster, BENCH, LIVE, WAIT_MS, PERIOD_S)
        limits = {"hang_deadline_s": HANG_DEADLINE_S, "ready_deadline_s": 60.0}
        pipeline = replace(pipeline, spec=pipeline.spec.model_copy(update=limits))
        source, results = source_of(pipeline.home), results_of(pipeline.home)
        feed = Feed(source, flight_rows(5))
        feed.commit(int(RATE_ROWS_PER_S))
        with pipeline.running(), _healed(pipeline, found):
            for number, name in enumerate(names, 1):
                with step(f"{number}: {name}"):
                    _do(pipeline, feed, name, chance, found)
            feed.finish()
            found.await_end(source, results, pipeline.record, lambda: _state(pipeline))
        found.add(compare(source, results))


def _do(pipeline: Pipeline, feed: Feed, name: str, chance: random.Random, found: Campaign) -> None:
    version = None
    with ExitStack() as flow:
        flow.enter_context(feed.at(lambda _: RATE_ROWS_PER_S, TICK_S))
        _await_commit(pipeline, time.time())
        time.sleep(chance.uniform(*CALM_S))
        if chance.random() < RESIZED:
            version = pipeline.resize(chance.choice(SLOTS)).version
            time.sleep(chance.uniform(0.0, 3.0))
        if name in WITHOUT_FEED:
            flow.close()
        FAULTS[name](pipeline, chance)
        done = time.time()
    with feed.at(lambda _: RATE_ROWS_PER_S, TICK_S):
        try:
            _await_commit(pipeline, done)
            if version is not None:
                pipeline.await_version(version)
        except RuntimeError as error:
            say(f"    {name}: {error}")
            found.failures.append(name)
        else:
            found.recovered_s.setdefault(name, []).append(round(time.time() - done, 1))
    found.doubled = max(found.doubled, len(find(pipeline.home.run / "drivers", pipeline.spec.name)) - 1)


def _state(pipeline: Pipeline) -> str:
    """Return what is not running, what its driver did last, and the end of its log."""
    return f"{pipeline.reconciler().problem()}; {pipeline.record()}; {pipeline.log()}"


def _await_commit(pipeline: Pipeline, after: float) -> None:
    """Wait for a batch that was committed after a time (Unix seconds)."""

    def committed() -> bool:
        record = pipeline.record()
        last = None if record is None else record.last_commit_at
        return last is not None and last.timestamp() > after

    wait_until(committed, "a batch is committed")


@contextmanager
def _healed(pipeline: Pipeline, found: Campaign) -> Iterator[None]:
    """Heal the pipeline once per second while the context lasts."""

    def heal(ended: threading.Event) -> None:
        while not ended.wait(HEAL_EVERY_S):
            try:
                pipeline.reconciler().reconcile(wait_s=0)
            except (NotReady, Conflict, MillraceError):
                continue
            except Exception as error:
                found.errors.append(f"{type(error).__name__}: {error}")

    with in_background(heal, "healer"):
        yield
