"""The published tuners size one running job in turn: executors come and go while its query runs, and no row is lost."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from benchmarks.algorithms import flow
from millrace.model.decision import Decision, Proposal
from tests.include.runtime.telemetry.arriving import arriving, table
from tests.jobs.adapting import IDLE, ON_CLUSTER, Adapting, SharedJob, adapting, embedded_cluster
from tests.jobs.driving import SCRIPTS, until
from tests.jobs.totals import WAIT_S, expected_totals, total

pytestmark = pytest.mark.platform

LOW, HIGH = 60.0, 65.0
"""Rows per second: one slot processes 50."""
FEW, MANY, MOST = 1, 3, 3
"""Slots: too few for either load, more than the low load needs, and the most that are allowed."""
YAML = """\
name: totals
script: {script}
args: [{folder}/in, {folder}/totals.json, {folder}/checkpoint, "{wait_s}"]
submit: {submit}
slots: {{min: 1, max: {most}, start: {few}}}
max_parallelism: 6
executor: {{cores: 1, memory_mb: 512}}
objective: {{target_utilisation: 0.75, max_lag_s: 40}}
mode: auto
period_s: 5
guards: {{cool_down_s: 0}}
quality: {{max_age_s: 1200, max_gap_s: 1200}}
verification: {{window_s: 0}}
tuner: {tuner}
ready_deadline_s: 600
"""
UP: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "conttune": ({"name": "conttune"}, "binary_lifting"),
    "strong": ({"name": "conttune", "options": {"preset": "strong"}}, "under_provisioned"),
    "ds2": ({"name": "ds2"}, "under_provisioned"),
    "dhalion": ({"name": "dhalion"}, "backpressure_starts_here"),
    "random": ({"name": "random"}, "random_trial"),
    "dragster": ({"name": "dragster"}, "saddle_point"),
}
"""Tuner and the reason of its step up."""
OVER: Mapping[str, Any] = {"core_min_thr": 0.8, "core_max_thr": 0.9}
"""A job counts as over-provisioned below this share of its slots' time. On a busy machine, tasks without rows take
long, too."""
DOWN: Mapping[str, Mapping[str, Any]] = {
    "cbo": {},
    "cei": {"acquisition": "cei", "alpha": math.inf},
    "white": {"surrogate": "rbf_white"},
    "away": {"alpha": 0},
    "newest": {"top_k": 1},
    "linear": {"small": "linear"},
}
"""Options of ContTune's Small phase."""


class Running(SharedJob):
    """The job that all tests share."""

    def under(self, tuner: Mapping[str, Any], slots: int, rows_per_s: float) -> Adapting:
        """Return the pipeline with a tuner, from these slots on and at this load."""
        return self.given(text(self.folder, tuner), rows_per_s, slots=slots)


def text(folder: Path, tuner: Mapping[str, Any]) -> str:
    """Return the pipeline's YAML."""
    given = {"script": SCRIPTS / "totals.py", "wait_s": WAIT_S, "few": FEW, "most": MOST, "submit": ON_CLUSTER}
    return YAML.format(folder=folder, tuner=flow(tuner), **given)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("tuners")
    results = folder / "totals.json"
    with pytest.MonkeyPatch.context() as monkeypatch, embedded_cluster(folder, monkeypatch):
        write = table(folder / "in")
        with adapting(folder / "totals.yaml", text(folder, UP["conttune"][0])) as pipeline:
            with arriving(write, IDLE, every_s=1.0) as arrivals:
                until(lambda: total(results) > 0, "a first batch")
                yield Running(pipeline, arrivals, folder, lambda: total(results))
            rows = arrivals.rows[-1]
            until(lambda: total(results) == rows, f"{rows} rows in the results")
    assert json.loads(results.read_text()) == expected_totals(rows)


def own_proposal(decision: Decision, name: str) -> Proposal:
    """Return the proposal of the tuner, the only one with changes."""
    (proposal,) = (p for p in decision.proposals if p.changes)
    assert proposal.optimizer == name
    return proposal


@pytest.mark.parametrize("tuner", UP)
def test_published_tuner_adds_executors_to_a_running_job(running: Running, tuner: str) -> None:
    given, reason = UP[tuner]
    pipeline = running.under(given, FEW, HIGH)
    pipeline.until(lambda: pipeline.app().slots > FEW)

    print(*(decision.sentence for decision in pipeline.decisions), sep="\n")
    proposal = own_proposal(pipeline.decisions[-1], given["name"])
    assert proposal.reason_code == reason
    assert bool(proposal.training) is (tuner == "strong")
    pipeline.await_slots()


@pytest.mark.parametrize("options", DOWN)
def test_small_phase_removes_executors_of_a_running_job(running: Running, options: str) -> None:
    given = DOWN[options]
    pipeline = running.under({"name": "conttune", "options": {**OVER, **given}}, MANY, LOW)
    pipeline.until(lambda: pipeline.app().slots != MANY)

    print(*(decision.sentence for decision in pipeline.decisions), sep="\n")
    decision = pipeline.decisions[-1]
    proposal = own_proposal(decision, "conttune")
    assert proposal.reason_code == "over_provisioned"
    known = levels(decision, given.get("top_k", 5))
    assert proposal.changes[0].value == level(proposal, known, **given)
    if given.get("small") != "linear":
        trained = dict(zip(proposal.training["parallelism"], proposal.training["throughput"], strict=True))
        assert trained == pytest.approx(known)
    pipeline.await_slots()


def test_small_change_is_not_worth_a_reconfiguration(running: Running) -> None:
    options = {**OVER, "small": "linear", "decision_thr": MANY}
    pipeline = running.under({"name": "conttune", "options": options}, MANY, LOW)
    pipeline.until(lambda: any(d.reason_code == "below_decision_threshold" for d in pipeline.decisions))
    assert not pipeline.changes and pipeline.app().slots == MANY


def levels(decision: Decision, top_k: int) -> dict[int, float]:
    """Return the throughput of each level: the mean of the newest measurements, with the one of this decision."""
    assert decision.signals is not None
    (app,) = decision.signals.apps
    found: dict[int, list[float]] = {}
    for observation in decision.signals.observations:
        found.setdefault(observation.parallelism, []).append(observation.throughput)
    if app.capacity is not None:
        of_level = found.setdefault(app.capacity.parallelism, [])
        if of_level[-1:] != [app.capacity.rows_per_s]:
            of_level.append(app.capacity.rows_per_s)
    return {p: fmean(of_level[-top_k:]) for p, of_level in found.items()}


def level(
    proposal: Proposal,
    known: Mapping[int, float],
    small: str = "cbo",
    acquisition: str = "safe",
    alpha: float = 3.0,
    **_: object,
) -> int:
    """Return the level of ContTune's Algorithm 2 for the curve that a proposal shows."""
    need = proposal.predicted["throughput_rows_per_s"] * proposal.predicted["utilisation_ratio"]
    base = min(known, key=lambda p: (abs(p - MANY), p))
    chosen = math.ceil(base * need / known[base])
    if small != "linear":
        mean, high = np.array(proposal.curve["mean"]), np.array(proposal.curve["high"])
        if acquisition == "safe":
            suggested = int(np.flatnonzero(mean >= need)[0]) + 1
        else:
            best = min(p for p in known if mean[p - 1] >= need)
            spread = np.maximum((high - mean) / float(ndtri(0.9)), 1e-12)
            gain = (best - np.arange(1, len(mean) + 1)) * ndtr((mean - need) / spread)
            suggested = int(gain.argmax()) + 1 if gain.max() > 0 else best
        if min(abs(suggested - p) for p in known) <= alpha:
            chosen = suggested
    return min(max(chosen, 1), MOST)
