from __future__ import annotations

import numpy as np

from millrace.reporting.plan_figures import placement_figure
from tests.include.control.test_placement import plan


def test_figure_shows_each_partition_before_and_after() -> None:
    figure = placement_figure(plan())
    above, below = figure.axes[:2]
    before, after = (np.ma.filled(np.ma.masked_invalid(axes.images[0].get_array()), 0.0) for axes in (above, below))
    assert before.sum(axis=1).tolist() == [7.0, 0.0]
    assert after.sum(axis=1).tolist() == [4.0, 6.0]
    assert (np.count_nonzero(after, axis=0) == 1).all()
    assert "takes 7.0 s" in above.get_title(loc="left")
    assert "takes 6.0 s (at best 5.0 s)" in below.get_title(loc="left")
    assert [label.get_text() for label in below.get_yticklabels()] == ["executor 0  4.0 s", "executor 1  6.0 s"]
    assert above.images[0].norm.vmax == below.images[0].norm.vmax == 4.0


def test_figure_without_any_time_is_still_drawn() -> None:
    placement_figure(plan(busy_s=(0.0, 0.0, 0.0))).canvas.draw()
