"""The whole stack under faults: Airflow decides and heals, a built-in pipeline runs, and its load goes up and down."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.delays_app import Feed, flight_rows
from benchmarks.elastic.pipeline import READ_S, wait_until
from benchmarks.faults.campaign import TICK_S, Campaign
from benchmarks.faults.stack import PIPELINE, Stack
from benchmarks.faults.stack_injection import FAULTS
from millrace.environment.home import Home
from millrace.lake.control_tables import ControlTables
from millrace.lake.store import Lake
from millrace.local.demo.comparison import compare
from millrace.local.demo.demo_env import DemoEnv
from millrace.local.stack import lifecycle
from millrace.local.stack.airflow_api import AirflowApi
from millrace.local.stack.progress import say, step
from millrace.pipelines.catalog import BUILT_IN, load
from millrace.places import REPO
from millrace.run_folder import discovery

LOW_ROWS_PER_S, HIGH_ROWS_PER_S, TURN_S = 10.0, 32.0, 90.0
"""The two loads and how long each lasts: slots change now and then, and so during some of the faults."""
CALM_S = (1.0, 15.0)
DISK = "2g"
"""Size of the home's disk. It is in memory, which makes it easy to fill."""
SENTENCES = ("MillraceError", "NotReady", "Conflict", "Settled")
AIRFLOW = "Airflow"
"""Prefix of Airflow's own exceptions, as when a task reads another task's result while the server is down."""


def stack_faults(root: Path, names: Sequence[str], chance: random.Random, found: Campaign) -> None:
    """Inject faults into a stack and its pipeline, one after the other.

    Args:
        root: A folder, which is created.
        names: The faults, of :data:`benchmarks.faults.stack_injection.FAULTS`.
        chance: Draws moments and victims.
        found: Receives the results.
    """
    with _disk(root / "disk") as disk, running_stack(disk, root / "flights") as (stack, feed):
        with feed.at(up_and_down, TICK_S):
            for number, name in enumerate(names, 1):
                with step(f"{number}: {name}"):
                    if _is_well(stack):  # a stack that is still broken counts as a failure of the previous fault only
                        time.sleep(chance.uniform(*CALM_S))
                        FAULTS[name](stack, chance)
                        done = time.time()
                        if _is_well(stack):
                            found.recovered_s.setdefault(name, []).append(round(time.time() - done, 1))
                        else:
                            found.failures.append(name)
                drivers = discovery.find(stack.env.run_dir, PIPELINE)
                found.doubled = max(found.doubled, len(drivers) - 1)
        feed.finish()
        found.await_end(stack.env.source, stack.env.results, stack.record, stack.record)
        found.add(compare(stack.env.source, stack.env.results))
        found.repeated += _repeated(stack)
        found.errors += bare_errors(stack.home.logs / "airflow")


def bare_errors(logs: Path) -> list[str]:
    """Return unexpected exceptions of our own code that ended a task, from Airflow's task logs.

    Args:
        logs: Airflow's log folder.
    """
    found = set()
    for file in logs.rglob("attempt=*.log"):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if "error_detail" not in line:
                continue
            try:
                errors = json.loads(line).get("error_detail") or []
            except ValueError:
                continue
            last = errors[0] if errors else {}
            ours = any(str(frame.get("filename", "")).startswith(str(REPO)) for frame in last.get("frames") or [])
            kind = str(last.get("exc_type"))
            if ours and kind not in SENTENCES and not kind.startswith(AIRFLOW):
                found.add(f"{kind}: {last.get('exc_value')}")
    return sorted(found)


def _is_well(stack: Stack) -> bool:
    """Wait until batches and decisions continue; return False on timeout."""
    begin = time.time()
    try:
        wait_until(lambda: stack.well_since(begin), "decisions and batches go on", every_s=READ_S)
    except RuntimeError as error:
        say(f"    {error}")
        return False
    return True


@contextmanager
def running_stack(disk: Path, source: Path) -> Iterator[tuple[Stack, Feed]]:
    """Start a stack with a running pipeline, and stop all of it at the end.

    Args:
        disk: A folder for the home.
        source: A folder for the source table, which is created.
    """
    env = DemoEnv.inside(Home(disk))
    env.home.ensure()
    spec = load(BUILT_IN / f"{PIPELINE}.yaml", {"MILLRACE_HOME": str(env.home.root)})
    stack = Stack(env, spec, ControlTables(Lake(env.home.lake)))
    # in reality others own the source, so it is on another disk
    env.source.parent.mkdir(parents=True)
    source.mkdir()
    env.source.symlink_to(source)
    feed = Feed(source, flight_rows(5))
    feed.commit(int(LOW_ROWS_PER_S))
    try:
        with step("stack and pipeline"):
            lifecycle.up(env.home)
            api = AirflowApi.of(env.home)
            for dag_id in (f"launch_{PIPELINE}", f"adapt_{PIPELINE}", f"profile_{PIPELINE}"):
                api.wait_for_dag(dag_id)
            api.set_paused(f"profile_{PIPELINE}", True)
            launch = f"launch_{PIPELINE}"
            if api.wait_for_run(launch, api.trigger(launch)) != "success":
                raise RuntimeError("the pipeline does not start")
        yield stack, feed
    finally:
        env.stop()


@contextmanager
def _disk(folder: Path) -> Iterator[Path]:
    """Yield a folder, on its own disk if this user may mount one."""
    folder.mkdir(parents=True)
    options = ("mount", "-t", "tmpfs", "-o", f"size={DISK}", "millrace-bench", str(folder))
    mounted = subprocess.run(options, capture_output=True, check=False).returncode == 0
    try:
        yield folder
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def up_and_down(seconds: float) -> float:
    """Return a load that alternates between low and high, rows per second."""
    return HIGH_ROWS_PER_S if seconds // TURN_S % 2 else LOW_ROWS_PER_S


def _repeated(stack: Stack) -> list[str]:
    decisions = stack.tables.decisions.recent(PIPELINE, limit=100_000)
    ids = Counter(decision.decision_id for decision in decisions)
    return [f"decision {decision_id} was recorded {n} times" for decision_id, n in ids.items() if n > 1]
