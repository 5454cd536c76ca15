"""The command test: check style and types and run the tests, stage by stage."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from millrace.environment import spark_env
from millrace.local.stack import setup
from millrace.places import REPO
from millrace.wiring import LAKE_VARIABLE

LOCK = REPO / "tests" / "requirements.lock"
STAGES = {
    "unit": "not spark and not airflow and not e2e and not platform and not versions and not research",
    "spark": "spark and not airflow and not e2e and not platform and not versions and not research",
    "airflow": "airflow and not e2e and not platform and not versions and not research",
    "e2e": "e2e and not platform and not versions and not research",
    "platforms": "platform and not versions and not research",
    "versions": "versions and not research",
    "research": "research",
}
NOT_SLOW = " and not slow"
PROCESSES = {
    "unit": ("-n", "2", "--dist", "loadfile"),
    "research": ("-n", "2", "--dist", "loadfile"),
    "spark": ("-n", "2", "--dist", "worksteal"),
    "airflow": ("-n", "2", "--dist", "loadfile"),
}
"""Stages that run in two processes, each with its own Airflow home and Spark session. The end-to-end stage starts
whole stacks, which use all processors anyway. The Spark tests differ so much in length that distributing whole files
would leave one process idle for minutes."""
CHECKS = {
    "style": ("ruff", "check", "."),
    "types": ("mypy",),
}
WAITING, PATIENT = "e2e", "research"
"""The first stage spends most of its time waiting for services, batches and the demo. The second runs next to it, at
low priority."""
NO_TESTS = 5
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs that live for seconds; saves a third of all processor time."""


@dataclass(frozen=True)
class StageResult:
    """Result of a stage.

    Args:
        stage: Its name.
        code: Exit code; 0 is success.
        took_s: Seconds.
        counts: Number of tests that passed, failed and were skipped.
        failed: Ids of the failed tests.
    """

    stage: str
    code: int
    took_s: float
    counts: Mapping[str, int]
    failed: tuple[str, ...] = ()


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--stage",
    "stages",
    multiple=True,
    type=click.Choice([*CHECKS, *STAGES]),
    help="Run only this stage; repeatable.",
)
@click.option("--slow", is_flag=True, help="Also run the slow tests: kills on a real cluster, the demo.")
@click.option("--research", is_flag=True, help="Also run the tests of code that only benchmarks use.")
@click.option("--platforms", is_flag=True, help="Also run whole lives of pipelines on clusters: over an hour.")
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)
def test(stages: Sequence[str], slow: bool, research: bool, platforms: bool, pytest_args: Sequence[str]) -> int:
    """Check style and types and run the tests; PYTEST_ARGS such as -k NAME or a path select tests.

    Named stages and selected tests include slow tests. The first call downloads the tools pinned in
    tests/requirements.lock.
    """
    console = Console(stderr=True)
    setup.ensure_packages(LOCK)
    # selected tests run whatever their stage, without the checks
    everything = STAGES if pytest_args else [*CHECKS, *STAGES]
    extra = {"research": research, "platforms": platforms, "versions": False}  # downloads 400 MB per version
    wanted = stages or [stage for stage in everything if extra.get(stage, True) or pytest_args]
    if not CHECKS.keys() >= set(wanted):
        setup.ensure_spark()
    quick = not (slow or stages or pytest_args)
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="millrace-test-") as home, ThreadPoolExecutor(1) as beside:
        env = _environment(Path(home), few_examples=not (stages or pytest_args))
        background = [beside.submit(_check, stage) for stage in CHECKS if stage in wanted]
        if "style" in wanted:  # takes a second, types take a minute
            outcomes.append(_print_output(console, background.pop(0)))
        both = {WAITING, PATIENT} <= set(wanted)
        for stage in (s for s in STAGES if s in wanted):
            if both and stage == PATIENT:
                continue
            if both and stage == WAITING:
                background.append(beside.submit(_pytest_beside, PATIENT, STAGES[PATIENT], pytest_args, env))
            console.rule(stage)
            outcomes.append(_pytest(stage, STAGES[stage] + (NOT_SLOW if quick else ""), pytest_args, env))
            while background and background[0].done():
                outcomes.append(_print_output(console, background.pop(0)))
        outcomes += [_print_output(console, ended) for ended in background]
    order = [*CHECKS, *STAGES]
    outcomes.sort(key=lambda o: order.index(o.stage))
    _print_summary(console, outcomes)
    if pytest_args and not any(any(o.counts.values()) for o in outcomes):
        console.print("no test was selected", style="red")
        return 1
    return 1 if any(o.code for o in outcomes) else 0


def _environment(home: Path, few_examples: bool) -> dict[str, str]:
    """Return the tests' environment: a home of their own, Spark, and the number of examples per property."""
    data = REPO.parent / "shared" / "data"
    variables = {"MILLRACE_DATA": str(data), **os.environ, LAKE_VARIABLE: ""}
    # otherwise hundreds of processes, such as drivers and Spark's workers, compile all their imports
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    return {
        **variables,
        **spark_env.environment(),
        "MILLRACE_HOME": str(home / "home"),
        "AIRFLOW_HOME": str(home / "airflow"),
        "JDK_JAVA_OPTIONS": JAVA_OPTIONS,
        "MILLRACE_TEST_PROFILE": "quick" if few_examples else "whole",
    }


def _check(stage: str) -> tuple[StageResult, str]:
    """Run a check and return its output, to be printed later: tests print meanwhile."""
    started = time.monotonic()
    argv = [sys.executable, "-m", *CHECKS[stage]]
    ended = subprocess.run(argv, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return StageResult(stage, ended.returncode, time.monotonic() - started, {}), ended.stdout


def _print_output(console: Console, ended: Future[tuple[StageResult, str]]) -> StageResult:
    result, output = ended.result()
    console.rule(result.stage)
    console.print(output.rstrip(), highlight=False, markup=False, soft_wrap=True)
    return result


def _pytest(stage: str, marks: str, args: Sequence[str], env: Mapping[str, str]) -> StageResult:
    with tempfile.TemporaryDirectory() as scratch:
        report, started = Path(scratch) / "report.xml", time.monotonic()
        code = subprocess.call(_argv(stage, marks, args, report), cwd=REPO, env=dict(env))
        return _result(stage, code, started, report)


def _pytest_beside(stage: str, marks: str, args: Sequence[str], env: Mapping[str, str]) -> tuple[StageResult, str]:
    """Run a stage at low priority and also return its output."""
    with tempfile.TemporaryDirectory() as scratch:
        report, started = Path(scratch) / "report.xml", time.monotonic()
        ended = subprocess.run(
            ["nice", "-n", "19", *_argv(stage, marks, args, report)],
            cwd=REPO,
            env=dict(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return _result(stage, ended.returncode, started, report), ended.stdout


def _argv(stage: str, marks: str, args: Sequence[str], report: Path) -> list[str]:
    processes = PROCESSES.get(stage, ())
    return [sys.executable, "-m", "pytest", "-m", marks, f"--junitxml={report}", *processes, *args]


def _result(stage: str, code: int, started: float, report: Path) -> StageResult:
    counts, failed = _read(report)
    return StageResult(stage, 0 if code == NO_TESTS else code, time.monotonic() - started, counts, failed)


def _read(report: Path) -> tuple[dict[str, int], tuple[str, ...]]:
    if not report.is_file():
        return {}, ()
    # our own pytest has just written it
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))  # noqa: S314
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    failed = []
    for case in cases:
        outcome = {child.tag for child in case}
        kind = "failed" if outcome & {"failure", "error"} else "skipped" if "skipped" in outcome else "passed"
        counts[kind] += 1
        if kind == "failed":
            failed.append(f"{case.get('classname')}::{case.get('name')}")
    return counts, tuple(failed)


def _print_summary(console: Console, outcomes: Sequence[StageResult]) -> None:
    console.rule("summary")
    table = Table("stage", "result", "passed", "failed", "skipped", "seconds", box=None)
    for o in outcomes:
        ran = o.stage in CHECKS or any(o.counts.values())
        result = "[red]failed[/]" if o.code else "[green]passed[/]" if ran else "none selected"
        numbers = [str(o.counts.get(kind, "")) for kind in ("passed", "failed", "skipped")]
        table.add_row(o.stage, result, *numbers, f"{o.took_s:.0f}")
    console.print(table)
    for o in outcomes:
        for name in o.failed:
            console.print(f"  {o.stage}: {name}", style="red", highlight=False, markup=False, soft_wrap=True)
