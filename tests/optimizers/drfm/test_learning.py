import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.optimizers.drfm.characteristics import Characteristics, cycle
from millrace.optimizers.drfm.learning import learn, periods
from millrace.optimizers.drfm.trust import LEAST, update_trust
from tests.examples import examples


def cyclic(up, down, phase, ramp=0.0, low=400.0, high=1600.0):
    columns = [np.atleast_1d(np.array(v, dtype=float)) for v in (low, high, np.nan, up, down, phase, ramp, np.nan)]
    return Characteristics(*np.broadcast_arrays(*columns))


def observed(table, count, seed=0):
    return np.random.default_rng(seed).poisson(cycle(table, -1, count) * 10) / 10


@examples(40)
@given(
    up=st.integers(6, 24),
    down=st.integers(6, 24),
    share=st.floats(0, 0.99),
    ramp=st.integers(0, 6),
    seed=st.integers(0, 9),
)
def test_learn_after_two_cycles_and_a_bit_predicts_the_next(up, down, share, ramp, seed):
    truth = cyclic(up, down, np.floor(share * (up + down)), 0.0 if ramp < 3 else ramp)
    count = int(2.2 * (up + down)) + 4

    learned = learn(observed(truth, count, seed), count - 1)

    assert learned.cyclic.all()
    off = abs(cycle(learned, count - 1, up + down) - cycle(truth, count - 1, up + down)).mean()
    assert off <= 0.03 * 1200
    assert (learned.ramp[0] == 0) == (ramp < 3)


@pytest.mark.parametrize("ramp", [0.0, 5.0])
def test_learn_when_four_cycles_were_seen_then_is_exact(ramp):
    truth = cyclic([9, 14, 11], [12, 9, 11], [3, 0, 20], ramp)

    learned = learn(observed(truth, 96), 95)

    for name in ("up", "down", "phase", "ramp"):
        assert getattr(learned, name).tolist() == getattr(truth, name).tolist()
    assert learned.low == pytest.approx(truth.low, rel=0.02)
    assert learned.high == pytest.approx(truth.high, rel=0.01)


def test_learn_when_streams_are_on_and_off_at_random_then_finds_no_phase():
    rng, on = np.random.default_rng(3), np.zeros((400, 6), dtype=bool)
    for t in range(1, 400):
        on[t] = on[t - 1] ^ (rng.random(6) < np.where(on[t - 1], 1 / 12, 1 / 6))

    learned = learn(500.0 * on, 399)

    assert learned.two_level.all()
    assert not learned.cyclic.any()
    assert learned.high == pytest.approx(np.full(6, 500.0))
    assert learned.up.mean() == pytest.approx(12, rel=0.35)
    assert learned.down.mean() == pytest.approx(6, rel=0.35)


@pytest.mark.parametrize(
    "history",
    [
        np.full((40, 2), 7.0),
        np.zeros((40, 2)),
        np.ones((3, 2)),
        np.zeros((40, 0)),
        np.random.default_rng(0).normal(100, 1, (100, 2)),
        np.cumsum(np.random.default_rng(1).normal(0, 5, (100, 2)), axis=0) + 1000,
        np.full((40, 2), np.nan),
    ],
    ids=["constant", "silent", "short", "none", "noise", "wandering", "unseen"],
)
def test_learn_when_a_history_has_no_pattern_then_learns_nothing(history):
    learned = learn(history, len(history) - 1)

    assert learned.low.shape == (history.shape[1],)
    assert not learned.cyclic.any()


def test_learn_of_mixed_streams_matches_learning_each_alone():
    truth = cyclic([8, 10, 12], [9, 7, 12], [0, 5, 20])
    history = np.column_stack([observed(truth, 80), np.full(80, 3.0)])

    together = learn(history, 79)

    assert together.cyclic.tolist() == [True, True, True, False]
    for s in range(3):
        assert learn(history[:, [s]], 79).phase[0] == together.phase[s]


def test_periods_when_cycles_are_known_then_are_learned():
    truth = cyclic([8, 10, 12], [9, 7, 12], [0, 5, 20])

    assert periods(observed(truth, 120)).tolist() == [17, 17, 24]


def trusted(table, rates):
    trust = np.ones(rates.shape[1])
    for t, rate in enumerate(rates):
        trust = update_trust(trust, table, cycle(table, t - 1, 1)[0], rate)
    return trust


@pytest.mark.parametrize(
    ("declared", "believed"),
    [
        (cyclic(12, 12, 3), True),
        (cyclic(12, 12, 4), True),
        (cyclic(12, 12, 3, high=1600 * 1.3), False),
        (cyclic(12, 12, 12), False),
        (cyclic(12, 12, 3, ramp=12), False),
        (cyclic(9, 9, 3), False),
    ],
    ids=["true", "a_period_late", "peak_off", "phase_off", "jump_called_trend", "period_off"],
)
def test_trust_follows_how_often_metadata_were_right(declared, believed):
    rates = observed(cyclic(12, 12, 3), 70)
    lowest = min(float(trusted(declared, rates[:t])[0]) for t in range(40, 70))

    assert (lowest >= LEAST) is believed


def test_trust_when_a_rate_was_missed_then_stays():
    table = cyclic(12, 12, 3)

    assert update_trust(np.array([0.5]), table, np.array([400.0]), np.array([np.nan])).tolist() == [0.5]
