from __future__ import annotations

import pytest

from optimizers.conttune.paper.options import Options
from optimizers.conttune.paper.state import State, job_state

OPTIONS = Options(backpressure_thr=0.1, core_min_thr=0.4, core_max_thr=0.7)


@pytest.mark.parametrize(
    ("backpressured", "busy", "state"),
    [
        (0.0, 0.39, State.OVER),
        (0.0, 0.4, State.NORMAL),  # coreMinThr belongs to cpuNormal
        (0.09, 0.0, State.OVER),
        (0.1, 0.0, State.NORMAL),  # backpressure without cpuStress: something else than slots is short
        (0.1, 0.7, State.NORMAL),  # coreMaxThr belongs to cpuNormal
        (0.1, 0.71, State.UNDER),
        (0.0, 1.0, State.NORMAL),  # busy, but keeps up
        (None, 0.1, State.UNKNOWN),
        (0.5, None, State.UNKNOWN),
    ],
)
def test_job_state_when_both_metrics_are_taken_then_is_the_papers(
    backpressured: float | None, busy: float | None, state: State
) -> None:
    assert job_state(backpressured, busy, OPTIONS) is state
