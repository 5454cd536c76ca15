from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.model.admission import AdmissionPlan, LoadUnit
from millrace.reporting.plan_figures import admission_figure
from tests.optimizers.drfm.stream_counts import advised, counts


def plan() -> AdmissionPlan:
    found = advised(counts({name: [1000, 1500, 1200, 2000] for name in "abcd"}))[0].admission
    assert found is not None
    return found


def test_figure_shows_nodes_capacity_and_forecast() -> None:
    told = plan()
    past, ahead = admission_figure(told).axes
    arrived, forecast = (patch.get_data().values for patch in past.patches)
    assert arrived == pytest.approx(told.total_came) and forecast == pytest.approx(told.total_forecast)
    nodes, (capacity,) = ahead.patches, ahead.lines
    assert len(nodes) == told.split and set(capacity.get_ydata()) == {told.capacity}
    for line, node in zip(nodes, told.used, strict=True):
        assert line.get_data().values == pytest.approx(told.loads[node])
    assert past.patches[0].get_data().edges[-1] == nodes[0].get_data().edges[0]
    labels = [text.get_text() for text in ahead.get_legend().get_texts()]
    assert labels[0].startswith("ingest-1  (") and labels[-1] == "capacity 1"
    assert f"at most {100 * told.highest_load:.0f} % of a node" in ahead.get_title(loc="left")
    assert past.get_ylabel() == ahead.get_ylabel() == "rows/s of event time"


def test_figure_of_many_nodes_draws_the_fullest() -> None:
    rates = [0.1 + i / 20 for i in range(14)]
    many = replace(
        plan(),
        nodes=tuple(f"ingest-{i + 1}" for i in range(14)),
        stream=tuple("abcdefghijklmn"),
        before=tuple(range(14)),
        after=tuple(range(14)),
        loads=tuple((rate,) * 4 for rate in rates),
    )
    ahead = admission_figure(many).axes[1]
    assert [line.get_data().values[0] for line in ahead.patches[:-1]] == pytest.approx(rates[4:])
    assert "4 others" in [text.get_text() for text in ahead.get_legend().get_texts()]


def test_figure_is_drawn_without_forecast_or_streams() -> None:
    first = advised(counts({"a": [5]}))[0].admission
    assert first is not None and first.total_error is None
    admission_figure(first).canvas.draw()
    gone = replace(first, stream=(), before=(), after=(), loads=((0.0, 0.0),), forecast=(), came=())
    admission_figure(gone).canvas.draw()


def test_figure_of_a_fleet_is_in_slots() -> None:
    past, ahead = admission_figure(replace(plan(), unit=LoadUnit.SLOTS)).axes
    assert past.get_ylabel() == ahead.get_ylabel() == "slots"
    assert [text.get_text() for text in past.get_legend().get_texts()] == ["used", "forecast"]
