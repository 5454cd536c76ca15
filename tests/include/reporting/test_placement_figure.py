from __future__ import annotations

import numpy as np

from include.reporting.plan_figures import placement_figure
from tests.include.control.test_placement_advice import plan


def test_figure_shows_each_key_group_before_and_after() -> None:
    figure = placement_figure(plan())
    above, below = figure.axes[:2]
    before, after = (np.ma.filled(np.ma.masked_invalid(axes.images[0].get_array()), 0.0) for axes in (above, below))
    assert before.sum(axis=1).tolist() == [70.0, 0.0]
    assert after.sum(axis=1).tolist() == [40.0, 60.0]
    assert (np.count_nonzero(after, axis=0) == 1).all()
    assert "load distance 25.0" in above.get_title(loc="left")
    assert "load distance 5.0 (proven minimum 4.5), 75 %" in below.get_title(loc="left")
    assert [label.get_text() for label in below.get_yticklabels()] == ["worker-1  40", "worker-2  60"]
    assert above.images[0].norm.vmax == below.images[0].norm.vmax == 40.0


def test_figure_when_no_group_has_a_load_then_is_drawn_all_the_same() -> None:
    placement_figure(plan(load=(0.0, 0.0, 0.0))).canvas.draw()
