"""Suite for a tuner that sizes an app as a whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.model.objective import Bounds
from millrace.model.signals import Signals
from millrace.optimizers.api import Memory, Proposal
from millrace.optimizers.conformance.builders import app_signals, capacity, deployment, observed, signals, target
from millrace.optimizers.conformance.optimizer_suite import SHARED, OptimizerConformance
from millrace.optimizers.conformance.situations import Situation, apps


class TunerConformance(OptimizerConformance):
    """Suite for a tuner that sizes an app as a whole."""

    def check(self, proposal: Proposal, seen: Signals) -> None:
        """Assert also that each size changes once, and that a hold is explained too."""
        super().check(proposal, seen)
        assert len({(c.app, c.operator) for c in proposal.changes}) == len(proposal.changes)
        assert proposal.sentence.endswith(".")

    @given(situation=apps(), missing=st.sampled_from(["rates", "capacity", "all"]))
    @settings(SHARED, max_examples=15)
    def test_slots_are_never_taken_away_on_missing_figures(self, situation: Situation, missing: str) -> None:
        seen, current = situation
        app = seen.apps[0]
        if missing in ("rates", "all"):
            app = replace(app, arrival_rows_per_s=None, processed_rows_per_s=None)
        if missing in ("capacity", "all"):
            app, seen = replace(app, capacity=None), replace(seen, observations=())
        seen = replace(seen, apps=(app,), settling=False)
        assert all(change.value > change.before for change in self.propose((seen, current))[0].changes)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"arrival_rows_per_s": -1.0, "processed_rows_per_s": -1.0},
            {"arrival_rows_per_s": math.nan, "processed_rows_per_s": math.inf},
            {"capacity": capacity(4, -3.0)},
        ],
    )
    def test_slots_stay_on_impossible_figures(self, wrong: Mapping[str, Any]) -> None:
        """An impossible load or ability decides nothing."""
        seen, current = self.idle()
        seen = replace(seen, apps=(replace(seen.apps[0], **wrong),))
        assert self.propose((seen, current))[0].changes == ()

    def test_slots_stay_while_the_app_settles_is_stopped_or_unknown(self) -> None:
        """Figures of another state, or unmeasured ones, decide nothing."""
        seen, current = self.idle()
        stranger = replace(seen, apps=(replace(seen.apps[0], app="stranger"),))
        for situation in (
            (replace(seen, settling=True), current),
            (seen, replace(current, running=False)),
            (stranger, current),
            (replace(seen, apps=()), current),
        ):
            assert self.propose(situation)[0].changes == ()

    @pytest.mark.parametrize("step", [1, 2, 4])
    def test_slots_are_multiples_of_an_executors_cores(self, step: int) -> None:
        """The step holds even if earlier executors had other cores and 3 and 7 slots were measured."""
        bounds, nothing = Bounds(step, 4 * step, step), cast(Memory, {})
        for rate, slots, is_measured in product((10.0, 5000.0), (step, 4 * step), (True, False)):
            now, memory = slots, nothing
            for _ in range(2):
                ability = 100.0 * now
                busy, late = min(1.0, rate / ability), float(rate > ability)
                measured = capacity(now, ability) if is_measured else None
                app = app_signals(now, rate, measured, slot_busy_ratio=busy, backpressured_ratio=late)
                seen = signals(app, observed({3: 300.0, 7: 700.0}), bounds)
                proposal, memory = self.propose((seen, deployment(now)), memory)
                self.check(proposal, seen)
                now = target(proposal, now)

    def idle(self) -> Situation:
        app = app_signals(4, 1.0, capacity(4, 300.0), slot_busy_ratio=0.01)
        return signals(app, observed({1: 100.0, 4: 300.0})), deployment(4)
