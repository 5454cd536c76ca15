import numpy as np
import pytest

from millrace.optimizers.drfm.characteristics import tabulate, unknown
from millrace.optimizers.drfm.metadata import Metadata
from millrace.optimizers.drfm.trust import (
    DECLARED,
    FORECAST,
    LEARNED,
    RateBounds,
    Source,
    believe,
    trusts_declared_cycle,
)

CYCLE = Metadata(minimum=2.0, maximum=10.0, high_duration=3, low_duration=4, phase=2, transition="jump")
ON_OFF = Metadata(minimum=2.0, maximum=10.0, high_duration=3, low_duration=4, transition="jump")
OTHER = Metadata(minimum=1.0, maximum=14.0, high_duration=5, low_duration=6, phase=1, transition="jump")
ERRS = np.array([1.0])


def source(metadata, trust=1.0, error=0.0):
    table = unknown(1) if metadata is None else tabulate([metadata], np.zeros(1))
    return Source(table, np.array([trust]), np.array([error]))


def believed(declared, learned, *, now=0.0, seen=np.nan):
    bounds = RateBounds.of(declared.table, np.array([[seen]]))
    return believe(declared, learned, ERRS, bounds, now)


@pytest.mark.parametrize(
    ("seen", "low", "high"),
    [([3.0, 9.0], 2.0, 10.0), ([np.nan, np.nan], 2.0, 10.0), ([1.0, 9.0], 1.0, 10.0), ([3.0, 12.0], 2.0, 12.0)],
    ids=["within", "unseen", "below", "above"],
)
def test_bounds_when_rates_exceeded_them_then_extend_to_those_rates(seen, low, high):
    belief = RateBounds.of(tabulate([Metadata(minimum=2.0, maximum=10.0)], np.zeros(1)), np.array(seen)[:, None])

    assert (belief.low.item(), belief.high.item()) == (low, high)


def test_bounds_when_none_is_declared_then_clip_nothing():
    belief = RateBounds.of(unknown(1), np.array([[5.0]]))

    assert belief.clip(np.array([[0.0], [1e9]])).tolist() == [[0.0], [1e9]]


def test_belief_when_a_bound_is_declared_then_clips_the_learned_cycle():
    belief = believed(source(Metadata(maximum=12.0)), source(OTHER), seen=11.0)

    assert belief.source.item() == LEARNED
    assert (belief.table.low.item(), belief.table.high.item(), belief.table.phase.item()) == (1.0, 12.0, 1.0)


def test_belief_when_a_declared_bound_was_exceeded_then_ignores_it():
    belief = believed(source(Metadata(maximum=12.0)), source(OTHER), seen=14.0)

    assert belief.table.high.item() == 14.0


@pytest.mark.parametrize(
    ("declared", "learned", "expected"),
    [
        (source(CYCLE), source(None), DECLARED),
        (source(CYCLE), source(OTHER), DECLARED),
        (source(CYCLE, trust=0.8), source(OTHER, trust=0.9), LEARNED),
        (source(CYCLE, trust=0.6), source(OTHER, trust=0.6), FORECAST),
        (source(CYCLE, error=9.0), source(None), FORECAST),
        (source(CYCLE, error=9.0), source(OTHER), LEARNED),
        (source(ON_OFF), source(None), DECLARED),
        (source(ON_OFF), source(OTHER, trust=0.8), LEARNED),
        (source(ON_OFF, trust=0.6), source(None), FORECAST),
        (source(Metadata(maximum=10.0, period=7)), source(OTHER), LEARNED),
        (source(Metadata(maximum=10.0, period=7)), source(None), FORECAST),
    ],
    ids=[
        "declared_cycle",
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
def test_belief_when_sources_compete_then_takes_the_accurate_one(declared, learned, expected):
    assert believed(declared, learned).source.item() == expected


def test_declared_cycle_when_its_error_is_small_then_is_trusted():
    good = trusts_declared_cycle(source(CYCLE, error=1.0), source(None), np.zeros(1))

    assert good.tolist() == [True]


@pytest.mark.parametrize(("now", "ends"), [(4.0, 5.0), (5.0, np.nan)])
def test_belief_when_a_stream_outlives_its_lifetime_then_does_not_end(now, ends):
    belief = believed(source(Metadata(lifetime=5.0)), source(None), now=now)

    assert belief.table.ends == pytest.approx([ends], nan_ok=True)
