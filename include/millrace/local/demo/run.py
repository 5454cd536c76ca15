"""The demo, step by step: stack, pipeline, replay, live view, profile, checks, summary."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from rich.console import Console

from millrace.lake.control_tables import ControlTables
from millrace.lake.source_tables import SourceTable, is_table
from millrace.lake.store import Lake
from millrace.local.demo.checks import checks, passed
from millrace.local.demo.comparison import compare, settled
from millrace.local.demo.demo_env import DemoEnv, stop_feed
from millrace.local.demo.figures import figures
from millrace.local.demo.live_stats import LiveStats, LiveStatsReader
from millrace.local.demo.report import write_report
from millrace.local.demo.terminal import View, print_summary
from millrace.local.demo.timeline import read_timeline
from millrace.local.feeds.feed import TRANSACTION
from millrace.local.feeds.replay_clock import SCHEMA, Clock
from millrace.local.stack import lifecycle
from millrace.local.stack.airflow_api import AirflowApi, longest_run_s
from millrace.local.stack.services import addresses
from millrace.local.stack.stack_record import StackRecord
from millrace.model.errors import MillraceError
from millrace.model.spec import PipelineSpec
from millrace.pipelines.catalog import find

POLL_S = 1.0
GRACE_S = 90.0
"""Time per app after the end of the replay to process the rest and to scale down once."""
PROFILE_S, PROFILE_POLL_S = 180.0, 0.5
"""Time for the profile and the evaluation that uses it."""


class Demo:
    """One run of the demo.

    Args:
        report: Path of the report.
        env: The demo's own home for everything else; ``MILLRACE_HOME`` must name it.
        clock: The replay.
        console: Where to show it.
        keep: Leave stack and job running at the end.
    """

    def __init__(self, report: Path, env: DemoEnv, clock: Clock, console: Console, *, keep: bool = False) -> None:
        self._env = env
        self._report = report
        self._clock, self._keep, self._console = clock, keep, console
        self._tables = ControlTables(Lake(self._env.home.lake))

    def run(self) -> bool:
        """Run the demo; return whether every check passed.

        Raises:
            MillraceError: If it cannot start, or the stack or the job does not start.
        """
        env = self._env
        spec = find(env.pipeline)
        with env.locked(), ExitStack() as cleaning, View(tuple(spec.app_specs), self._console) as view:
            view.step("Removing the files of earlier demos")
            env.clear()
            cleaning.callback(self._stop, view)
            cleaning.enter_context(_interruptible())
            if env.example.topic:
                view.step("Starting a Kafka broker on 127.0.0.1")
                env.start_broker(spec.max_parallelism)
            api = self._start_stack(view)
            # created first, because the job reads it from its start
            source = SourceTable(env.source, SCHEMA, self._clock.content)
            self._launch(view, spec, api)
            reader = LiveStatsReader(spec, self._tables, env.run_dir, env.source, datetime.now(UTC))
            problem = self._watch(view, spec, source, reader, cleaning)
            ended = datetime.now(UTC)
            if problem is None and spec.profile is not None:
                problem = _profile(view, api, reader, spec)
            if not self._keep:
                view.step("Stopping every driver at a batch boundary")
                launch = f"launch_{spec.name}"
                api.wait_for_run(launch, api.trigger(launch, {"running": False}), longest_run_s(spec, "launch"))
            held = self._conclude(view, spec, problem, ended)
            if self._keep:
                cleaning.pop_all()
                self._print_next_steps(api)
            return held

    def _start_stack(self, view: View) -> AirflowApi:
        view.step("Starting Airflow, MLflow and a Spark cluster on 127.0.0.1")
        announced: set[str] = set()

        def watch(record: StackRecord) -> None:
            for name, service in record.services.items():
                if service.well and name not in announced:
                    announced.add(name)
                    view.step(f"  {name} is {service.state}")

        record = lifecycle.up(self._env.home, watch=watch)
        at = addresses(self._env.home, record.ports)
        pages = f"Airflow {at['airflow']}, MLflow {at['mlflow']} (user {at['user']})"
        view.addresses(f"{pages}\npassword in {at['password_file']}")
        view.step(pages)
        return AirflowApi.of(self._env.home)

    def _launch(self, view: View, spec: PipelineSpec, api: AirflowApi) -> None:
        launch = f"launch_{spec.name}"
        for dag_id in (launch, f"adapt_{spec.name}"):
            api.wait_for_dag(dag_id)
        if spec.profile is not None:  # a separate batch job: it would take processors from the job that the demo shows
            api.wait_for_dag(f"profile_{spec.name}")
            api.set_paused(f"profile_{spec.name}", True)
        scripts = len(spec.app_specs)
        plain = "a plain Spark script that does" if scripts == 1 else f"{scripts} plain Spark scripts that do"
        view.step(f"Triggering the DAG {launch}: it starts {plain} not import Millrace")
        if api.wait_for_run(launch, api.trigger(launch), longest_run_s(spec, "launch")) != "success":
            log = self._env.home.logs / "drivers"
            raise MillraceError(launch, "failed", "a job that starts", f"Read the driver's log under {log}.")
        view.step("Every script is running; telemetry goes to Delta")

    def _watch(
        self, view: View, spec: PipelineSpec, source: SourceTable, reader: LiveStatsReader, cleaning: ExitStack
    ) -> str | None:
        """Replay and show until everything has been processed; return why it ended early, if it did."""
        clock = self._clock
        hours, seconds = clock.days * 24, clock.days * clock.day_s
        view.step(f"Replaying {hours:g} hours from {clock.start_hour}:00 in {seconds:g} s; each has the flights of")
        view.step(f"  that hour on {clock.fold_days} days")
        feed = self._env.start_feed(clock, spec.max_parallelism)
        cleaning.callback(stop_feed, feed)
        grace_s = GRACE_S * len(spec.app_specs)
        deadline = time.monotonic() + clock.days * clock.day_s + grace_s
        most, shrank = 0, False
        while True:
            stats = reader.read()
            source.refresh()
            hour = clock.hour(source.last(TRANSACTION) + 1) if feed.poll() is None else None
            for decision in reader.new_decisions():
                view.decision(decision)
            view.stats(stats, hour)
            most = max(most, stats.slots or 0)
            shrank = shrank or (stats.slots or most) < most
            if failure := self._failure(feed, stats):
                return failure
            if feed.poll() is not None and shrank and self._settled(stats):
                return None
            if time.monotonic() > deadline:
                return f"{grace_s:g} s after the end of the replay, {_open(stats, shrank)}"
            time.sleep(POLL_S)

    def _failure(self, feed: subprocess.Popen[bytes], stats: LiveStats) -> str | None:
        if stats.circuit_open is not None:
            return f"the job no longer starts: {stats.circuit_open}"
        if feed.poll():
            return f"the replay failed: {self._env.feed_error()}"
        return None

    def _settled(self, stats: LiveStats) -> bool:
        """Return whether everything was processed and no change is in progress."""
        steady = stats.slots is not None and stats.starting is None and not stats.changing
        return steady and not stats.backlog and settled(self._env.source, self._env.results)

    def _conclude(self, view: View, spec: PipelineSpec, problem: str | None, ended: datetime) -> bool:
        """Check the run, write its report and print its summary; return whether all checks passed."""
        view.still()
        view.step("Comparing the results with a batch computation of the same input")
        source, results = self._env.source, self._env.results
        timeline = read_timeline(spec, self._tables, source, ended)
        outcomes = checks(timeline, compare(source, results) if is_table(results) else None, problem)
        totals = figures(spec, timeline)
        write_report(self._report, spec, timeline, totals, outcomes)
        print_summary(self._console, spec, totals, outcomes, self._report)
        return passed(outcomes)

    def _print_next_steps(self, api: AirflowApi) -> None:
        root = self._env.home.root
        self._console.print(
            f"\nThe stack and the job keep running. Airflow: {api.url}. Try, for example,", highlight=False
        )
        self._console.print(
            f"  MILLRACE_HOME={root} ./millrace decisions {self._env.pipeline}", highlight=False, soft_wrap=True
        )
        self._console.print("Stop everything with ./millrace demo --down", highlight=False)

    def _stop(self, view: View) -> None:
        """Stop everything, even if Ctrl-C is pressed a second time."""
        view.still()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        view.step("Stopping everything the demo started")
        self._env.stop()
        view.step("Everything is stopped")


def _open(stats: LiveStats, shrank: bool) -> str:
    if stats.backlog:
        return f"{stats.backlog:,} rows still waited"
    return "a change of slots was still in progress" if shrank else "it had never scaled down"


@contextmanager
def _interruptible() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _profile(view: View, api: AirflowApi, reader: LiveStatsReader, spec: PipelineSpec) -> str | None:
    """Profile the source, now that the processors are free, and show the evaluation that uses the profile.

    Returns:
        The problem; None if there was none.

    Raises:
        MillraceError: If Airflow does not answer.
    """
    dag_id = f"profile_{spec.name}"
    view.still()
    view.step(f"Triggering the DAG {dag_id}: a Spark batch job counts the rows of each input stream")
    view.step("The next evaluation advises at which ingest node each stream enters; it changes nothing")
    api.set_paused(dag_id, False)
    run = api.trigger(dag_id)
    advised = spec.admission is None  # without the section there is no plan
    deadline = time.monotonic() + PROFILE_S
    while not advised and time.monotonic() < deadline:
        for decision in reader.new_decisions():
            view.decision(decision)
            advised = advised or any(proposal.admission is not None for proposal in decision.proposals)
        # a scheduled run may have counted everything already
        if api.run(dag_id, run)["state"] == "failed":
            return f"{dag_id} failed; read its log in Airflow"
        time.sleep(PROFILE_POLL_S)
    return None if advised else f"no admission was advised within {PROFILE_S:g} s"
