import numpy as np
import pytest

from optimizers.drfm.metadata.belief import FORECAST, LEARNED, TOLD, Bounds, Source, believe, told_cycles
from optimizers.drfm.metadata.stream import Metadata
from optimizers.drfm.metadata.table import tabulate, unknown
from optimizers.drfm.metadata.trust import Trust

CYCLE = Metadata(minimum=2.0, maximum=10.0, high_duration=3, low_duration=4, phase=2, transition="jump")
ON_OFF = Metadata(minimum=2.0, maximum=10.0, high_duration=3, low_duration=4, transition="jump")
OTHER = Metadata(minimum=1.0, maximum=14.0, high_duration=5, low_duration=6, phase=1, transition="jump")
ERRS = np.array([1.0])


def source(told, trust=1.0, error=0.0):
    table = unknown(1) if told is None else tabulate([told], np.zeros(1))
    return Source(table, np.array([trust]), np.array([error]))


def believed(told, learned, *, now=0.0, seen=np.nan):
    bounds = Bounds.of(told.table, np.array([[seen]]))
    return believe(told, learned, ERRS, Trust(), bounds, now)


@pytest.mark.parametrize(
    ("seen", "low", "high"),
    [([3.0, 9.0], 2.0, 10.0), ([np.nan, np.nan], 2.0, 10.0), ([1.0, 9.0], 1.0, 10.0), ([3.0, 12.0], 2.0, 12.0)],
    ids=["within", "unseen", "below", "above"],
)
def test_bounds_when_rates_were_seen_beyond_them_then_reach_as_far(seen, low, high):
    found = Bounds.of(tabulate([Metadata(minimum=2.0, maximum=10.0)], np.zeros(1)), np.array(seen)[:, None])

    assert (found.low.item(), found.high.item()) == (low, high)


def test_bounds_when_none_is_told_then_clip_nothing():
    found = Bounds.of(unknown(1), np.array([[5.0]]))

    assert found.clip(np.array([[0.0], [1e9]])).tolist() == [[0.0], [1e9]]


def test_belief_when_a_bound_is_told_then_the_learned_cycle_stays_within():
    found = believed(source(Metadata(maximum=12.0)), source(OTHER), seen=11.0)

    assert found.source.item() == LEARNED
    assert (found.table.low.item(), found.table.high.item(), found.table.phase.item()) == (1.0, 12.0, 1.0)


def test_belief_when_a_told_bound_was_exceeded_then_the_learned_cycle_is_as_it_was():
    found = believed(source(Metadata(maximum=12.0)), source(OTHER), seen=14.0)

    assert found.table.high.item() == 14.0


@pytest.mark.parametrize(
    ("told", "learned", "expected"),
    [
        (source(CYCLE), source(None), TOLD),
        (source(CYCLE), source(OTHER), TOLD),
        (source(CYCLE, trust=0.8), source(OTHER, trust=0.9), LEARNED),
        (source(CYCLE, trust=0.6), source(OTHER, trust=0.6), FORECAST),
        (source(CYCLE, error=9.0), source(None), FORECAST),
        (source(CYCLE, error=9.0), source(OTHER), LEARNED),
        (source(ON_OFF), source(None), TOLD),
        (source(ON_OFF), source(OTHER, trust=0.8), LEARNED),
        (source(ON_OFF, trust=0.6), source(None), FORECAST),
        (source(Metadata(maximum=10.0, period=7)), source(OTHER), LEARNED),
        (source(Metadata(maximum=10.0, period=7)), source(None), FORECAST),
    ],
    ids=[
        "told_cycle",
        "both_true",
        "learned_truer",
        "neither_true",
        "forecast_errs_less",
        "forecast_errs_less_and_learned",
        "no_phase_yet",
        "no_phase_but_learned",
        "no_phase_untrue",
        "part_and_learned",
        "part_alone",
    ],
)
def test_belief_when_sources_compete_then_the_one_that_came_true_is_believed(told, learned, expected):
    assert believed(told, learned).source.item() == expected


def test_told_cycle_when_its_error_is_small_then_is_followed_though_a_forecast_errs_less():
    good = told_cycles(source(CYCLE, error=1.0), source(None), np.zeros(1), Trust())

    assert good.tolist() == [True]


@pytest.mark.parametrize(("now", "ends"), [(4.0, 5.0), (5.0, np.nan)])
def test_belief_when_a_lifetime_is_over_and_the_stream_still_there_then_does_not_end(now, ends):
    found = believed(source(Metadata(lifetime=5.0)), source(None), now=now)

    assert found.table.ends == pytest.approx([ends], nan_ok=True)
