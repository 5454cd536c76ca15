"""The command replay: run a tuner on recorded telemetry and compare it with the recorded decisions."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from millrace.environment.home import Home
from millrace.local.demo.labels import slots_text
from millrace.model.backtest import Backtest, EvaluationResult, ReplayedEvaluation
from millrace.model.decision import Action
from millrace.model.errors import MillraceError
from millrace.model.spec_sections import Cost
from millrace.pipelines.spec_yaml import parse

PLACE = "MLFLOW_TRACKING_URI"


@click.command()
@click.argument("pipeline")
@click.option("--tuner", help="Registry name of the tuner; default: the pipeline's own.")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="A tuner option; repeatable.")
@click.option("--since", help="Time of the first evaluation, or how long ago (2h); default: a day before the last.")
@click.option("--until", help="Time of the last evaluation, or how long ago; default: now.")
@click.option("--all", "every", is_flag=True, help="Show every evaluation, not only changes.")
@click.option("--json", "as_json", is_flag=True, help="Print every evaluation and all figures as JSON.")
@click.option(
    "--figure", type=click.Path(dir_okay=False, path_type=Path), help="Also draw it to a .png, .svg or .pdf file."
)
def replay(
    pipeline: str,
    tuner: str | None,
    options: tuple[str, ...],
    since: str | None,
    until: str | None,
    every: bool,
    as_json: bool,
    figure: Path | None,
) -> None:
    """Run a tuner on the recorded telemetry of PIPELINE and compare it with what was done.

    Changes nothing. If the stack is up, the replay is also logged to MLflow.
    """
    from millrace import wiring
    from millrace.control.timestamps import parse_timestamp
    from millrace.pipelines.catalog import find
    from millrace.reporting.replay_report import check_file, plain, write_figure

    given, now = parsed(options), datetime.now(UTC)
    begin = None if since is None else parse_timestamp(since, now, "--since")
    end = now if until is None else parse_timestamp(until, now, "--until")
    if figure is not None:
        check_file(figure)
    spec = find(pipeline)
    backtest = wiring.replay(spec, wiring.control_tables(), tuner or spec.tuner.name, given, begin, end)
    if figure is not None:
        write_figure(backtest, figure)
    run_id = _log(backtest)
    if as_json:
        click.echo(json.dumps({**plain(backtest), "mlflow_run_id": run_id}, indent=2))
    else:
        _show(backtest, every, figure, run_id, spec.cost)


def parsed(options: Sequence[str]) -> dict[str, Any]:
    """Return options given as KEY=VALUE; values are parsed as in a spec: 3, 0.5, true, or a word.

    Raises:
        MillraceError: If an option does not have this form.
    """
    values = {}
    for text in options:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise MillraceError("--option", text, "KEY=VALUE", "Write it like alpha=3.")
        try:
            values[key.strip()] = parse(value, f"--option {key}")
        except MillraceError:
            raise MillraceError(f"--option {key}", value, "a value as in a YAML file", "Quote it.") from None
    return values


def table(evaluations: Sequence[ReplayedEvaluation]) -> Table:
    """Return evaluations as a table that stays readable at 100 columns."""
    rows = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    rows.add_column("time (UTC)", no_wrap=True)
    rows.add_column("rows/s", no_wrap=True, justify="right")
    for name in ("was done", "would be"):
        rows.add_column(name, no_wrap=True, justify="right")
    rows.add_column("why it would be", overflow="fold", ratio=1)
    for evaluation in evaluations:
        arrival = evaluation.arrival_rows_per_s
        rows.add_row(
            Text(f"{evaluation.time:%m-%d %H:%M:%S}"),
            Text("" if arrival is None else f"{arrival:,.0f}"),
            Text(_slots(evaluation.recorded)),
            Text(
                _slots(evaluation.replayed) + (" ~" if evaluation.modelled else "  "),
                style="" if evaluation.agreed else "yellow",
            ),
            _why(evaluation.replayed),
        )
    return rows


def _why(result: EvaluationResult) -> Text:
    text = Text(result.sentence, style="dim" if result.action is Action.HOLD else "")
    return text.append(f"\nPlanned ahead: {result.contingencies}", style="dim") if result.contingencies else text


def changed(evaluations: Sequence[ReplayedEvaluation]) -> list[ReplayedEvaluation]:
    """Return the evaluations that changed something, would have changed something, or were vetoed by a guard."""
    return [
        evaluation
        for evaluation in evaluations
        if evaluation.recorded.decided != evaluation.recorded.slots
        or evaluation.replayed.decided != evaluation.replayed.slots
        or evaluation.replayed.action is Action.VETO
    ]


def figures(backtest: Backtest, cost: Cost | None = None) -> Table:
    """Return the totals as a table."""
    from millrace.reporting.replay_report import totals

    rows = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    rows.add_column("")
    rows.add_column("was done", justify="right")
    rows.add_column("would be", justify="right")
    for row in totals(backtest, cost):
        rows.add_row(*row)
    return rows


def _slots(result: EvaluationResult) -> str:
    return slots_text(result.slots, result.decided)


def _show(backtest: Backtest, every: bool, figure: Path | None, run_id: str | None, cost: Cost | None) -> None:
    from millrace.reporting.replay_report import summary

    console, shown = Console(), backtest.evaluations if every else changed(backtest.evaluations)
    console.print(
        f"Replay of {backtest.pipeline} with {backtest.tuner}{_options_text(backtest.options)}",
        highlight=False,
        markup=False,
    )
    if shown:
        console.print(table(shown), highlight=False)
    else:
        console.print("The slots never changed, and would not have changed.")
    if backtest.modelled:
        console.print("~ slots differ from the recording: throughput and backlog are modelled", style="dim")
    if not every and len(shown) < len(backtest.evaluations):
        console.print(
            f"{len(backtest.evaluations) - len(shown)} evaluations without a change are hidden; --all shows them."
        )
    console.print()
    console.print(figures(backtest, cost), highlight=False)
    console.print()
    console.print(summary(backtest), highlight=False, markup=False)
    if figure is not None:
        console.print(f"The figure is in {figure}.", highlight=False, markup=False, soft_wrap=True)
    if run_id is not None:
        console.print(f"Logged to MLflow as run {run_id} of experiment {backtest.pipeline}.", highlight=False)


def _options_text(options: Mapping[str, Any]) -> str:
    return f" ({', '.join(f'{key}={value}' for key, value in options.items())})" if options else ""


def _log(backtest: Backtest) -> str | None:
    """Log to the MLflow that the environment names, otherwise to the stack's if it is up."""
    from millrace.local.stack import lifecycle, secrets
    from millrace.local.stack.services import client_env
    from millrace.reporting.replay_report import log_replay

    if not os.environ.get(PLACE):
        home = Home.from_env()
        record = lifecycle.status(home)
        if record is None or not record.running:
            return None
        os.environ.update(client_env(home, secrets.load(home), record.ports))
    return log_replay(os.environ[PLACE], backtest)
