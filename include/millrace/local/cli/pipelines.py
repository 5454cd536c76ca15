"""Pipeline commands: list, launch and change, pause and resume."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from millrace.environment.home import Home
from millrace.model.errors import MillraceError

if TYPE_CHECKING:
    from millrace.local.stack.airflow_api import AirflowApi
    from millrace.model.spec import PipelineSpec

KINDS = ("launch", "adapt", "profile")
ADAPTING = ("approve", "adapt")
"""DAGs that change a pipeline, with or without approval; while paused, they start no task."""
EVALUATION_S = 210.0
"""Seconds after which an evaluation has certainly ended: its time limit, and the time until Airflow enforces it."""


@click.command()
def pipelines() -> int:
    """List the pipelines with mode, bounds and description; exit code 1 if a spec is invalid."""
    from millrace.optimizers.registry import problems
    from millrace.pipelines.catalog import load_all

    specs, wrong = load_all()
    wrong += problems(specs.values())
    console = Console()
    table = Table("pipeline", "mode", "slots", "evaluated every", "description", box=None)
    for spec in specs.values():
        table.add_row(
            spec.name,
            spec.mode.value,
            str(spec.bounds_contract(datetime.now(UTC))),
            f"{spec.period_s:g} s",
            Text(spec.description),
        )
    console.print(table, highlight=False)
    for problem in wrong:
        console.print(Text(str(problem), "red"), soft_wrap=True)
    return 1 if wrong else 0


@click.command()
@click.argument("pipeline")
@click.argument("what", type=click.Choice(KINDS), default="launch")
@click.option("--slots", type=click.IntRange(min=1), help="Use this many slots instead of the tuner's choice.")
@click.option("--app", help="App that gets the slots, in a pipeline of several.")
@click.option("--dry-run", is_flag=True, help="adapt: decide and record, but change nothing.")
@click.option("--stop", is_flag=True, help="launch: stop the pipeline at a batch boundary.")
@click.option("--roll-back-to", type=click.IntRange(min=1), help="launch: restore this version's content.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the outcome.")
def trigger(
    pipeline: str,
    what: str,
    slots: int | None,
    app: str | None,
    dry_run: bool,
    stop: bool,
    roll_back_to: int | None,
    no_wait: bool,
) -> int:
    """Trigger a DAG of PIPELINE: launch it, evaluate it (adapt), or count its input streams (profile)."""
    from millrace.local.stack.airflow_api import longest_run_s
    from millrace.pipelines.catalog import find

    spec = find(pipeline)
    if what == "profile" and spec.profile is None:
        raise MillraceError("profile", None, "a section in the spec", f"Add `profile` to the spec of {pipeline}.")
    if slots is not None or app is not None:
        app = spec.app_named(app).app if spec.apps else app
    options = {"--slots": slots, "--app": app, "--dry-run": dry_run, "--stop": stop, "--roll-back-to": roll_back_to}
    wait_s = None if no_wait else longest_run_s(spec, what)
    code = _run(f"{what}_{pipeline}", conf_for(what, options), wait_s)
    if what == "launch" and spec.submit.is_external and not (code or no_wait):
        _print_next_step(spec)
    return code


def _print_next_step(spec: PipelineSpec) -> None:
    """Print what a person has to do for a driver that Millrace does not start."""
    from millrace.wiring import control_tables, external_reconciler

    driver = external_reconciler(spec.name, control_tables())
    step = driver.problem() or driver.restart_needed(spec)
    if step is not None:
        click.echo(step)


def conf_for(what: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a DAG run from the command-line options.

    Raises:
        MillraceError: If the DAG does not have an option.
    """
    allowed = {
        "launch": ("--slots", "--app", "--stop", "--roll-back-to"),
        "adapt": ("--slots", "--app", "--dry-run"),
        "profile": (),
    }
    for option, value in options.items():
        if value not in (None, False) and option not in allowed[what]:
            possible = ", ".join(allowed[what]) or "no option"
            raise MillraceError(option, value, f"{possible} with {what}", f"Leave {option} out.")
    sized = {"slots": options["--slots"]} | ({"app": app} if (app := options.get("--app")) is not None else {})
    if what == "adapt":
        return {**sized, "dry_run": options["--dry-run"]}
    if what == "launch":
        return {"running": not options["--stop"], **sized, "roll_back_to": options["--roll-back-to"]}
    return {}


def _run(dag_id: str, conf: dict[str, Any], wait_s: float | None) -> int:
    from millrace.local.stack.airflow_api import AirflowApi, StillRunningError
    from millrace.local.stack.lifecycle import started_otherwise

    home = Home.from_env()
    api, console = AirflowApi.of(home), Console()
    if not api.has_dag(dag_id):
        if (other := started_otherwise(home)) is not None:
            raise other
        console.print(f"Airflow has not read the spec yet; waiting up to two minutes for {dag_id}.", highlight=False)
        api.wait_for_dag(dag_id)
    run_id = api.trigger(dag_id, conf)
    page = f"{api.url}/dags/{dag_id}/runs/{run_id}"
    if wait_s is None:
        console.print(f"{dag_id} was triggered: {page}", highlight=False, soft_wrap=True)
        return 0
    try:
        with Console(stderr=True).status(f"{dag_id} is running ..."):
            state = api.wait_for_run(dag_id, run_id, wait_s)
    except StillRunningError:
        console.print(f"{dag_id} is still running: {page}", style="yellow", highlight=False, soft_wrap=True)
        return 1
    colour = "green" if state == "success" else "red"
    console.print(f"[{colour}]{dag_id}: {state}[/{colour}]  {page}", highlight=False, soft_wrap=True)
    if state == "success":
        return 0
    for failure in api.failures(dag_id, run_id):
        console.print(failure, style="red", markup=False, highlight=False, soft_wrap=True)
    return 1


@click.command()
@click.argument("pipeline")
def pause(pipeline: str) -> None:
    """Stop adapting PIPELINE at once, including pending approvals; its job keeps running unchanged."""
    from millrace.control.contingencies import withdraw_plan
    from millrace.wiring import control_tables

    airflow = _set_paused(pipeline, True)
    deployments, person = control_tables().deployments, getpass.getuser()
    before = deployments.latest(pipeline)
    withdraw_plan(deployments, pipeline, person)
    if "evaluate" in airflow.active_tasks(f"adapt_{pipeline}"):
        click.echo("An evaluation is under way; waiting until it has ended.")
        airflow.wait_for_task(f"adapt_{pipeline}", "evaluate", EVALUATION_S)
        withdraw_plan(deployments, pipeline, person)
    after = deployments.latest(pipeline)
    changed = before is not None and after is not None and before.apps != after.apps
    if changed or any("apply" in airflow.active_tasks(f"{kind}_{pipeline}") for kind in ADAPTING):
        click.echo("A change that was already decided is being carried out; ./millrace status shows when it has ended.")
    click.echo(f"Adaptation of {pipeline} is paused; its job keeps running. To resume: ./millrace resume {pipeline}")


@click.command()
@click.argument("pipeline")
def resume(pipeline: str) -> None:
    """Adapt PIPELINE again."""
    _set_paused(pipeline, False)
    click.echo(f"Adaptation of {pipeline} has resumed.")


@click.command()
@click.argument("pipeline")
def detach(pipeline: str) -> None:
    """Leave the job of PIPELINE running: Millrace no longer evaluates, restarts or stops it.

    The driver keeps running with its executors. ./millrace attach takes it back.
    """
    from millrace.control import launch
    from millrace.wiring import control_tables

    version = launch.detach(control_tables(), pipeline, getpass.getuser()).version
    click.echo(
        f"{pipeline} is detached as of version {version}: its job keeps running, but Millrace no longer evaluates, "
        f"restarts or stops it. Take it back: ./millrace attach {pipeline}"
    )


@click.command()
@click.argument("pipeline")
def attach(pipeline: str) -> None:
    """Manage the detached job of PIPELINE again, without a restart; if it has ended, start it."""
    from millrace.control import launch
    from millrace.wiring import control_tables

    version = launch.attach(control_tables(), pipeline, getpass.getuser()).version
    click.echo(f"{pipeline} is attached as of version {version}: Millrace evaluates it and restarts it if it ends.")


def _set_paused(pipeline: str, paused: bool) -> AirflowApi:
    from millrace.local.stack.airflow_api import AirflowApi
    from millrace.pipelines.catalog import find

    find(pipeline)
    airflow = AirflowApi.of(Home.from_env())
    for kind in ADAPTING:
        airflow.set_paused(f"{kind}_{pipeline}", paused)
    return airflow
