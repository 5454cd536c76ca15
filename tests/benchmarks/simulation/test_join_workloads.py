import numpy as np
import pytest

from benchmarks.simulation.join_workloads import BURST_S, DAY_S, GAP_S, RATE, WORKLOADS, arrivals
from millrace.model.errors import MillraceError


@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_load_when_drawn_then_starts_as_expected_and_follows_its_course(workload):
    course = WORKLOADS[workload]()
    found = arrivals(workload, 3)

    assert course[:60] == pytest.approx(1, rel=0.01)
    assert found.shape == (len(course), 2)
    assert found.sum() == pytest.approx(RATE * course.sum(), rel=0.02)
    assert (found == arrivals(workload, 3)).all()
    assert (found != arrivals(workload, 4)).any()


def test_ramp_when_over_then_stays_at_six_times():
    course = WORKLOADS["ramp6"]()

    assert (np.diff(course) >= 0).all()
    assert (course[900:] == 6).all()


def test_step_when_it_comes_then_is_three_times():
    assert set(WORKLOADS["step"]().tolist()) == {1.0, 3.0}


def test_bursts_when_they_repeat_then_are_short():
    course = WORKLOADS["burst"]()
    begins = np.flatnonzero(np.diff(course) > 0)

    assert (np.diff(begins) == GAP_S).all()
    assert (course > 1).sum() == len(course) // GAP_S * BURST_S


def test_days_when_they_pass_then_are_alike_and_noon_is_four_times_the_night():
    course = WORKLOADS["diurnal"]()

    assert course[:DAY_S] == pytest.approx(course[DAY_S:])
    assert course.max() / course.min() == pytest.approx(4)


def test_load_when_unknown_then_lists_the_known_ones():
    with pytest.raises(MillraceError, match="burst"):
        arrivals("storm", 0)
