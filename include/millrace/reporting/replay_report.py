"""Show a replay to a person, a spreadsheet and a program: sentences, tables, the picture, and its run in MLflow."""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millrace.model.backtest import Backtest, BacktestSummary, ReplayedEvaluation
from millrace.model.codec import to_plain
from millrace.model.errors import MillraceError
from millrace.model.spec_sections import Cost
from millrace.reporting.artifacts import log_picture
from millrace.reporting.mlflow_client import connect, experiment, line, mark_failed, metrics, params

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOG = logging.getLogger(__name__)

KIND_TAG, KIND = "kind", "replay"
RECORDED, REPLAYED, ARRIVAL, QUIET = "tab:gray", "tab:blue", "tab:red", "0.93"
FORMATS = ("png", "svg", "pdf")
RESULTS = ("recorded", "replayed")
RESULT_COLUMNS = ("slots", "decided", "throughput_rows_per_s", "backlog_rows", "action", "reason_code", "sentence")
EVALUATION_COLUMNS = ("time", "span_s", "arrival_rows_per_s", "agreed", "modelled")


def summary(backtest: Backtest) -> str:
    """Return the result of a replay, in at most two sentences."""
    evaluations, was, would = backtest.evaluations, backtest.recorded, backtest.replayed
    begin, end = evaluations[0].time, evaluations[-1].time
    saved = would.core_s / was.core_s - 1 if was.core_s else 0.0
    parts = [
        f"{would.reconfigurations} reconfiguration{_s(would.reconfigurations)} instead of {was.reconfigurations}",
        f"{would.core_s:,.0f} core-seconds instead of {was.core_s:,.0f} ({saved:+.0%})",
        f"{would.under_provisioned} evaluation{_s(would.under_provisioned)} with too few slots "
        f"instead of {was.under_provisioned}",
        f"at most {would.peak_slots} slot{_s(would.peak_slots)} instead of {was.peak_slots}",
    ]
    text = (
        f"On {len(evaluations)} evaluation{_s(len(evaluations))} of {backtest.pipeline} from {begin:%Y-%m-%d %H:%M} to "
        f"{end:%Y-%m-%d %H:%M} UTC, {backtest.tuner} would have chosen the same slots in {backtest.agreed}, with "
        f"{', '.join(parts)}."
    )
    if not backtest.modelled:
        return f"{text} Every evaluation is as recorded."
    few = backtest.modelled == 1
    return (
        f"{text} {backtest.modelled} evaluation{' is' if few else 's are'} modelled, because slots differ from the "
        "recording."
    )


def summarise(backtest: Backtest, time: datetime, run_id: str | None) -> BacktestSummary:
    """Return what is kept of a replay in addition to its MLflow run."""
    figures = backtest.figures
    return BacktestSummary(
        backtest.pipeline, time, backtest.tuner, backtest.options, summary(backtest), figures, run_id
    )


def plain(backtest: Backtest) -> Mapping[str, Any]:
    """Return a replay as JSON-able types: its figures, its summary and every evaluation."""
    evaluations = [
        {
            **_columns(evaluation, EVALUATION_COLUMNS),
            **{name: _columns(getattr(evaluation, name), RESULT_COLUMNS) for name in RESULTS},
        }
        for evaluation in backtest.evaluations
    ]
    return {
        "pipeline": backtest.pipeline,
        "tuner": backtest.tuner,
        "options": to_plain(backtest.options),
        "summary": summary(backtest),
        "figures": dict(backtest.figures),
        "downtime_s": backtest.downtime_s,
        "evaluations": evaluations,
    }


def as_csv(backtest: Backtest) -> str:
    """Return a replay as a table, one row per evaluation."""
    out = io.StringIO()
    names = [*EVALUATION_COLUMNS, *(f"{result}_{name}" for result in RESULTS for name in RESULT_COLUMNS)]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for evaluation in backtest.evaluations:
        cells = list(_columns(evaluation, EVALUATION_COLUMNS).values())
        for result in (evaluation.recorded, evaluation.replayed):
            cells += [_inert(value) for value in _columns(result, RESULT_COLUMNS).values()]
        writer.writerow(cells)
    return out.getvalue()


def totals(backtest: Backtest, cost: Cost | None = None) -> Iterator[tuple[str, str, str]]:
    """Yield the figures, with the price if it is known, as rows: name, what was done, what would have been done."""
    was, would = backtest.recorded, backtest.replayed
    yield "reconfigurations", f"{was.reconfigurations}", f"{would.reconfigurations}"
    yield "core-seconds", f"{was.core_s:,.0f}", f"{would.core_s:,.0f}"
    if cost is not None:
        yield "cost", cost.of(was.core_s / 3600), cost.of(would.core_s / 3600)
    yield "evaluations with too few slots", f"{was.under_provisioned}", f"{would.under_provisioned}"
    yield "most slots", f"{was.peak_slots}", f"{would.peak_slots}"


def _columns(of: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: to_plain(getattr(of, name)) for name in names}


def _inert(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula, however an error's text starts."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def replay_figure(backtest: Backtest) -> Figure:
    """Return a replay as three pictures over one time axis."""
    from matplotlib import dates
    from matplotlib.figure import Figure  # no pyplot: no display, no global state

    evaluations = backtest.evaluations
    figure = Figure(figsize=(10, 7.5), layout="constrained")
    rates, slots, waiting = figure.subplots(3, 1, sharex=True, height_ratios=(3, 2, 2))
    times = [evaluation.time for evaluation in evaluations]
    load = [_number(k.arrival_rows_per_s) for k in evaluations]
    rates.plot(times, load, color=ARRIVAL, label="arriving rows", zorder=3)
    rates.set_ylabel("rows/s")
    slots.set(ylabel="slots", ylim=(0, max(backtest.recorded.peak_slots, backtest.replayed.peak_slots) + 0.5))
    waiting.set_ylabel("rows waiting")
    for name, colour, style in (("recorded", RECORDED, "--"), ("replayed", REPLAYED, "-")):
        results = [getattr(evaluation, name) for evaluation in evaluations]
        line: dict[str, Any] = {"color": colour, "linestyle": style, "label": name}
        able = [_number(r.throughput_rows_per_s) for r in results]
        rates.plot(times, able, drawstyle="steps-pre", **(line | {"label": f"sustainable with {name} slots"}))
        slots.plot(times, [r.decided for r in results], drawstyle="steps-post", **line)
        waiting.plot(times, [_number(r.backlog_rows) for r in results], **line)
    for axes in (rates, waiting):
        axes.set_ylim(0, None)
    for axes in (rates, slots, waiting):
        _shade(axes, evaluations)
        axes.grid(alpha=0.3)
    rates.legend(fontsize="small", ncols=2)
    slots.legend(fontsize="small")
    locator = dates.AutoDateLocator()  # type: ignore[no-untyped-call]
    waiting.xaxis.set_major_locator(locator)
    waiting.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    waiting.set_xlabel("time (UTC)")
    shaded = "; shaded: modelled, because slots differ from the recording" if backtest.modelled else ""
    rates.set_title(f"{backtest.pipeline}: {backtest.tuner} compared with the recording{shaded}", fontsize="medium")
    return figure


def check_file(path: Path) -> None:
    """Refuse a file that no figure can be written to, before any work is done.

    Raises:
        MillraceError: If its folder does not exist, or its ending is no known format.
    """
    if not path.parent.is_dir():
        raise MillraceError("--figure", str(path), "a file in a folder that exists", "Make the folder first.")
    if path.suffix.removeprefix(".").lower() not in FORMATS:
        allowed = ", ".join(f"a name that ends in .{ending}" for ending in FORMATS)
        raise MillraceError("--figure", path.name, allowed, "Give it one of these endings.")


def write_figure(backtest: Backtest, path: Path) -> None:
    """Write the picture of a replay to a file that :func:`check_file` accepts."""
    try:
        replay_figure(backtest).savefig(path, dpi=150)
    except OSError as error:
        raise MillraceError("--figure", str(path), "a file that can be written", str(error)) from error


def _shade(axes: Any, evaluations: Sequence[ReplayedEvaluation]) -> None:
    """Mark the spans that are modelled, each from the evaluation before it."""
    begin = None
    for before, evaluation in zip((evaluations[0], *evaluations), evaluations, strict=False):
        if evaluation.modelled and begin is None:
            begin = before.time
        if begin is not None and (not evaluation.modelled or evaluation is evaluations[-1]):
            axes.axvspan(begin, before.time if not evaluation.modelled else evaluation.time, color=QUIET, zorder=0)
            begin = None


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def log_replay(uri: str | None, backtest: Backtest, artifacts: str | None = None) -> str | None:
    """Log a replay as a run of its pipeline's experiment and return its id.

    Args:
        uri: Tracking URI; None logs nothing.
        backtest: The replay.
        artifacts: Location of a new experiment's artifacts; the server decides by default.

    Returns:
        The run's id; None if there is no MLflow, or it cannot be reached. The replay is shown anyway.
    """
    if uri is None:
        return None
    run_id: str | None = None
    try:
        client = connect(uri)
        tags = {KIND_TAG: KIND, "mlflow.note.content": summary(backtest)}
        begin = f"{backtest.evaluations[0].time:%Y%m%dT%H%M%S}"
        name = f"{KIND}-{backtest.tuner}-{begin}"
        experiment_id = experiment(client, backtest.pipeline, artifacts)
        run_id = str(client.create_run(experiment_id, tags=tags, run_name=name).info.run_id)
        values = params(
            {
                "pipeline": backtest.pipeline,
                "tuner": backtest.tuner,
                "since": backtest.evaluations[0].time.isoformat(),
                "until": backtest.evaluations[-1].time.isoformat(),
                "downtime_s": backtest.downtime_s,
                **{f"option.{key}": value for key, value in backtest.options.items()},
            }
        )
        client.log_batch(run_id, params=values, metrics=metrics(backtest.figures))
        client.log_text(run_id, json.dumps(plain(backtest), indent=1), "replay.json")
        client.log_text(run_id, as_csv(backtest), "replay.csv")
        log_picture(client, run_id, replay_figure(backtest), "replay.png")
        client.set_terminated(run_id)
    except Exception as error:
        LOG.warning("MLflow at %s: the replay is only partly logged: %s", uri, line(error))
        mark_failed(uri, run_id)
        return None
    return run_id
