"""The demo, step by step: stack, pipeline, replay, live view, checks, summary."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from rich.console import Console

from include.lake.source import SourceTable, is_table
from include.lake.store import Lake
from include.local.demo.checks import Check, checks, passed
from include.local.demo.comparison import Comparison, compare, settled
from include.local.demo.figures import figures
from include.local.demo.profiling import profiled
from include.local.demo.pulse import Pulse, PulseReader
from include.local.demo.report import write_report
from include.local.demo.stage import Stage, stop_feed
from include.local.demo.summary import print_summary
from include.local.demo.timeline import Timeline, read_timeline
from include.local.demo.view import View
from include.local.feeds.flights import TRANSACTION
from include.local.feeds.replay import SCHEMA, Clock
from include.local.stack import lifecycle
from include.local.stack.airflow_api import AirflowApi
from include.local.stack.home import Home
from include.local.stack.record import StackRecord
from include.local.stack.services import addresses
from include.model.errors import MillraceError
from include.model.spec import PipelineSpec
from include.pipelines.catalog import find

PIPELINE = "delays"
LOOK_EVERY_S = 1.0
GRACE_S = 90.0
"""Time after the end of the replay to process what is left and to come down again."""


@dataclass(frozen=True)
class Options:
    """What a person may choose.

    Attributes:
        clock: The replay.
        keep: Leave stack and job running at the end.
    """

    clock: Clock
    keep: bool = False


class Demo:
    """One run of the demo.

    Args:
        home: The user's home: the report goes there, all else into a home of the demo's own inside it, which
            ``MILLRACE_HOME`` must name.
        options: What the person chose.
        console: Where to show it.
    """

    def __init__(self, home: Home, options: Options, console: Console) -> None:
        self._stage = Stage.inside(home, PIPELINE)
        self._report = home.reports / "demo.html"
        self._options, self._console = options, console
        self._lake = Lake(self._stage.home.lake)

    def run(self) -> bool:
        """Run it; say whether everything that it has to show was shown.

        Raises:
            MillraceError: If it cannot begin, or the stack or the job does not start.
        """
        stage = self._stage
        with stage.locked(), ExitStack() as cleaning, View(PIPELINE, self._console) as view:
            view.step("Clearing what an earlier demo left")
            stage.clear()
            spec = find(PIPELINE)
            cleaning.callback(self._stop, view)
            cleaning.enter_context(_interruptible())
            api = self._start_stack(view)
            # there from the start, because the job reads it from its own
            source = SourceTable(stage.source, SCHEMA, self._options.clock.content)
            self._launch(view, spec, api)
            reader = PulseReader(spec, self._lake, stage.run_dir, stage.source, datetime.now(UTC))
            problem = self._watch(view, spec, source, reader, cleaning)
            ended = datetime.now(UTC)
            if problem is None and spec.profile is not None:
                problem = profiled(view, api, reader, spec)
            if not self._options.keep:
                view.step("Stopping the job at a batch boundary")
                api.wait_for_run(f"launch_{PIPELINE}", api.trigger(f"launch_{PIPELINE}", {"running": False}))
            held = self._tell(view, spec, problem, ended)
            if self._options.keep:
                cleaning.pop_all()
                self._tell_how_to_go_on(api)
            return held

    def _start_stack(self, view: View) -> AirflowApi:
        view.step("Starting Airflow and MLflow on 127.0.0.1")
        told: set[str] = set()

        def watch(record: StackRecord) -> None:
            for name, service in record.services.items():
                if service.state in ("healthy", "done") and name not in told:
                    told.add(name)
                    view.step(f"  {name} is {service.state}")

        record = lifecycle.up(self._stage.home, watch=watch)
        found = addresses(self._stage.home, record.ports)
        pages = f"Airflow {found['airflow']}, MLflow {found['mlflow']} (user {found['user']})"
        view.addresses(f"{pages}\npassword in {found['password_file']}")
        view.step(pages)
        return AirflowApi.of(self._stage.home)

    def _launch(self, view: View, spec: PipelineSpec, api: AirflowApi) -> None:
        launch = f"launch_{PIPELINE}"
        for dag_id in (launch, f"adapt_{PIPELINE}"):
            api.wait_for_dag(dag_id)
        if spec.profile is not None:  # a batch job of its own: it would take the processors from what is shown here
            api.wait_for_dag(f"profile_{PIPELINE}")
            api.set_paused(f"profile_{PIPELINE}", True)
        view.step(f"Triggering the DAG {launch}: it starts a plain Spark script that knows nothing of Millrace")
        if api.wait_for_run(launch, api.trigger(launch)) != "success":
            log = self._stage.home.logs / "drivers"
            raise MillraceError(launch, "failed", "a job that starts", f"Read the driver's log under {log}.")
        view.step("The job runs, its telemetry goes to Delta")

    def _watch(
        self, view: View, spec: PipelineSpec, source: SourceTable, reader: PulseReader, cleaning: ExitStack
    ) -> str | None:
        """Replay and show until everything has been processed; return why it ended early, if it did."""
        clock = self._options.clock
        view.step(f"Replaying {clock.fold_days} days of flights as {clock.days:g} of {clock.day_s:g} s")
        feed = self._stage.start_feed(clock, spec.max_parallelism)
        cleaning.callback(stop_feed, feed)
        deadline = time.monotonic() + clock.days * clock.day_s + GRACE_S
        most = 0
        while True:
            pulse = reader.read()
            source.refresh()
            hour = clock.hour(source.last(TRANSACTION) + 1) if feed.poll() is None else None
            for decision in reader.new_decisions():
                view.decision(decision)
            view.pulse(pulse, hour)
            most = max(most, pulse.slots or 0)
            if (end := self._ended(feed, pulse, most)) is not None:
                return end or None
            if time.monotonic() > deadline:
                waiting = f"{pulse.backlog:,} rows still waited" if pulse.backlog else "it never came down again"
                return f"{GRACE_S:g} s after the end of the replay {waiting}"
            time.sleep(LOOK_EVERY_S)

    def _ended(self, feed: subprocess.Popen[bytes], pulse: Pulse, most: int) -> str | None:
        """Return None to go on, "" at the good end, and otherwise what went wrong."""
        if pulse.circuit_open is not None:
            return f"the job does not start any more: {pulse.circuit_open}"
        if feed.poll() is None:
            return None
        if feed.returncode != 0:
            return f"the replay failed: {self._stage.feed_error()}"
        smaller = pulse.slots is not None and pulse.slots < most and pulse.starting is None and not pulse.changing
        done = smaller and not pulse.backlog and settled(self._stage.source, self._stage.results)
        return "" if done else None

    def _tell(self, view: View, spec: PipelineSpec, problem: str | None, ended: datetime) -> bool:
        view.still()
        view.step("Comparing the results with a batch computation of the same input")
        line = read_timeline(spec, self._lake, self._stage.source, ended)
        made = checks(line, _comparison(self._stage.source, self._stage.results), problem)
        self._write(spec, line, made)
        return passed(made)

    def _write(self, spec: PipelineSpec, line: Timeline, made: tuple[Check, ...]) -> None:
        found = figures(spec, line)
        write_report(self._report, spec, line, found, made)
        print_summary(self._console, spec, found, made, self._report)

    def _tell_how_to_go_on(self, api: AirflowApi) -> None:
        root = self._stage.home.root
        self._console.print(
            f"\nStack and job stay up: Airflow {api.url}. Look around with, for example,", highlight=False
        )
        self._console.print(f"  MILLRACE_HOME={root} ./millrace decisions {PIPELINE}", highlight=False, soft_wrap=True)
        self._console.print("and stop all of it with ./millrace demo --down", highlight=False)

    def _stop(self, view: View) -> None:
        """Stop everything; a second Ctrl-C does not leave half of it running."""
        view.still()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        view.step("Stopping everything that was started")
        self._stage.stop()
        view.step("All stopped")


def _comparison(source: Path, results: Path) -> Comparison | None:
    return compare(source, results) if is_table(results) else None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Turn SIGTERM, and the loss of the terminal, into the same orderly end as Ctrl-C."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
