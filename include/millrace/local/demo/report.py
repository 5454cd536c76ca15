"""The run as one self-contained page, without network or server."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from millrace.atomic_file import write_atomically
from millrace.local.demo.chart import chart
from millrace.local.demo.checks import Check, passed
from millrace.local.demo.figures import Figures, cards, restarts_saved
from millrace.local.demo.labels import clock, sizes_text
from millrace.local.demo.timeline import Timeline
from millrace.model.decision import SUCCEEDED
from millrace.model.deployment import NOWHERE
from millrace.model.spec import PipelineSpec
from millrace.reporting.app_graph import app_graph
from millrace.reporting.app_views import views
from millrace.reporting.heat_map import HeatMap, heat_maps

TEMPLATES = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined)
TEMPLATES.filters["clock"] = clock
TEMPLATES.globals["sizes_text"] = sizes_text
TEMPLATES.globals["good_outcomes"] = SUCCEEDED


def write_report(
    path: Path, spec: PipelineSpec, timeline: Timeline, figures: Figures, checks: tuple[Check, ...]
) -> None:
    """Write the page to an HTML file; create its folder.

    Raises:
        MillraceError: If it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page(spec, timeline, figures, checks))


def page(spec: PipelineSpec, timeline: Timeline, figures: Figures, checks: tuple[Check, ...]) -> str:
    """Return the page as HTML."""
    picture = chart(timeline, spec.objective.max_lag_s).to_html(
        full_html=False, include_plotlyjs=True, config={"displaylogo": False, "responsive": True}
    )
    return TEMPLATES.get_template("report.html").render(
        spec=spec,
        timeline=timeline,
        figures=figures,
        checks=checks,
        verdict="all checks passed" if passed(checks) else "some checks failed",
        begun=timeline.begun.astimezone(UTC),
        cards=cards(spec, figures),
        saved=restarts_saved(figures),
        picture=picture,
        graphs=_graphs(timeline),
        changing=[evaluation for evaluation in timeline.evaluations if evaluation.changes],
        staying=[evaluation for evaluation in timeline.evaluations if not evaluation.changes],
        advice=[evaluation for evaluation in timeline.evaluations if evaluation.planned],
        partitions=_partitions(timeline),
    )


def _graphs(timeline: Timeline) -> list[tuple[float, Markup]]:
    """Return time and drawing of several apps: of the last evaluation at the most slots, and of the last of all."""
    seen = [
        (evaluation.time_s, {app: before or after or 0 for app, (before, after) in evaluation.sizes.items()}, signals)
        for evaluation in timeline.evaluations
        if (signals := evaluation.decision.signals) and signals.edges
    ]
    if len(timeline.apps) < 2 or not seen:
        return []
    most = max(sum(slots.values()) for _, slots, _ in seen)
    largest = [moment for moment in seen if sum(moment[1].values()) == most][-1]
    shown = [largest, seen[-1]] if seen[-1] != largest else [largest]
    return [(time_s, app_graph(views(slots, signals))) for time_s, slots, signals in shown]


def _partitions(timeline: Timeline) -> list[tuple[float, int, list[HeatMap]]]:
    """Return time, executors and maps of the first measurement, and of the last one with the most executors."""
    measured = [
        (evaluation.time_s, len({*groups.executor} - {NOWHERE}), heat_maps(groups))
        for evaluation in timeline.evaluations
        if evaluation.decision.signals and (groups := evaluation.decision.signals.partition_loads)
    ]
    most = max((executors for _, executors, _ in measured), default=0)
    last = [moment for moment in measured if moment[1] == most][-1:]
    return [*measured[:1], *(moment for moment in last if moment[1] != measured[0][1])]
