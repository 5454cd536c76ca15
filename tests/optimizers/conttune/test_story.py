"""ContTune driving a simulated micro-batch app: the stories a user sees."""

from __future__ import annotations

import random
from typing import Any

import pytest

from include.contracts.signals import Bounds
from optimizers.registry import create
from tests.optimizers.plant import App, Step, changes, run


def power(exponent: float, unit: float = 100.0) -> Any:
    return lambda p: unit * p**exponent


def drive(app: App, until_s: float, **options: Any) -> list[Step]:
    return run(app, create("conttune", options), until_s)


def day(t: float) -> float:
    """A quiet start, a busy day, a calmer evening, the night."""
    return 60 if t < 100 else 420 if t < 420 else 150 if t < 700 else 0.5


def between(story: list[Step], start_s: float, end_s: float) -> list[Step]:
    return [step for step in story if start_s <= step.at_s < end_s]


def test_day_when_lived_through_then_goes_up_stays_while_draining_and_comes_down() -> None:
    story = drive(App(power(0.85), day, noise=0.02), 850)
    made = changes(story)
    first_down = next(i for i, (before, after) in enumerate(made) if after < before)
    assert all(after > before for before, after in made[:first_down])
    assert all(after < before for before, after in made[first_down:]), "up, then down: never to and fro"
    assert len(made) <= 5
    assert made[-1][1] == 1
    draining = [s for s in story if s.proposal.reason_code == "draining"]
    assert draining and all(s.target == s.slots for s in draining)


def test_day_when_busy_then_keeps_up_and_drains_what_had_piled_up() -> None:
    story = drive(App(power(0.85), day, noise=0.02), 850)
    peak = max(step.signals.apps[0].backlog_rows or 0 for step in between(story, 100, 420))
    late = between(story, 320, 420)
    assert peak > 3000
    assert all((step.signals.apps[0].backlog_rows or 0) < 420 * 6 for step in late)
    assert all(420 / power(0.85)(step.slots) <= 0.8 * 1.05 for step in late)


@pytest.mark.parametrize("exponent", [0.6, 0.75, 0.9, 1.0])
@pytest.mark.parametrize("rate", [250.0, 400.0])
def test_step_when_the_load_rises_once_then_converges_in_a_few_reconfigurations(exponent: float, rate: float) -> None:
    app = App(power(exponent), lambda t: 50 if t < 60 else rate, noise=0.02, bounds=Bounds(1, 24))
    story = drive(app, 600)
    made = changes(story)
    oracle = next(p for p in range(1, 25) if power(exponent)(p) * 0.8 * 1.05 >= rate)
    assert 1 <= len(made) <= 3
    assert oracle <= story[-1].slots <= 1.5 * oracle + 1
    assert len(changes(between(story, 300, 600))) == 0


def test_load_when_it_only_fluctuates_then_nothing_oscillates() -> None:
    draw = random.Random(7)
    wiggle = [draw.uniform(0.94, 1.06) for _ in range(400)]
    for level in (75.0, 140.0, 300.0, 420.0):
        app = App(power(0.85), lambda t, level=level: level * wiggle[int(t / 5) % 400], slots=4, noise=0.03)
        story = drive(app, 900)
        assert len(changes(between(story, 200, 900))) <= 1, (level, changes(story))


def test_rates_when_they_come_again_then_cost_hardly_more_than_one_reconfiguration_each() -> None:
    rates = [120, 450, 200, 330, 60, 390, 260, 90, 500, 160] * 2
    app = App(power(0.85), lambda t: rates[min(int(t / 200), 19)], noise=0.01)
    story = drive(app, 200 * 20)
    assert len(changes(between(story, 200 * 10, 200 * 20))) / 10 <= 1.3


def test_literal_and_corrected_when_on_the_same_day_then_corrected_is_less_behind_and_does_not_oscillate() -> None:
    def rate(t: float) -> float:
        return 60 if t < 100 else 320 if t < 500 else 20

    stories = {
        preset: drive(App(power(0.85), rate, bounds=Bounds(1, 16)), 700, preset=preset)
        for preset in ("literal", "corrected")
    }
    worst = {k: max(s.signals.apps[0].backlog_rows or 0 for s in story) for k, story in stories.items()}
    assert worst["corrected"] < worst["literal"] / 2
    assert stories["corrected"][-1].slots == 1
    assert len(changes(stories["corrected"])) <= 4 < len(changes(stories["literal"]))
    codes = {s.proposal.reason_code for s in stories["literal"]}
    assert {"binary_lifting", "over_provisioned"} <= codes


def test_plateau_when_more_slots_bring_nothing_then_stops_after_two_ineffective_steps() -> None:
    app = App(lambda p: 100.0 * min(p, 3), lambda t: 600, bounds=Bounds(1, 64), noise=0.01)
    story = drive(app, 1500)
    made = changes(story)
    assert 1 <= sum(after > 3 for _, after in made) <= 2
    assert story[-1].proposal.reason_code == "ineffective_scaling"
    assert story[-1].slots <= 64


def test_source_when_it_offers_few_splits_then_slots_stay() -> None:
    story = drive(App(power(0.9), lambda t: 900, slots=4, splits=2), 400)
    assert changes(story) == []
    assert story[-1].proposal.reason_code == "source_splits"


def test_restart_when_it_is_slow_then_its_lag_never_leads_to_another_step_up() -> None:
    app = App(power(0.85), lambda t: 60 if t < 60 else 300, downtime_s=40, noise=0.01)
    story = drive(app, 900)
    assert all(after <= 6 for _, after in changes(story))
    assert story[-1].target == story[-1].slots
