from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.claims import LIVE, SIMULATED, Claim
from benchmarks.document import RECORDS, document
from benchmarks.misses import LOSSES, REASONS, Loss
from benchmarks.record import Record, read
from millrace.model.errors import MillraceError

GOOD = Record("stack", "first start", "millrace", "healthy_s", 30.0, "s", 28.0, 31.0, 3, "<=45", True)
BAD = Record("placement", "skew", "albic", "batch_time_vs_even", 0.99, "ratio", target="<=0.95", holds=False)
TIME = Record("placement", "skew", "albic", "batch_time_s", 5.9, "s", n=3)
RIVAL = replace(TIME, method="even", value=6.0)
START = Claim("Start of {n} stacks", "./millrace bench stack", "stack", "first start", "millrace", "healthy_s")
SKEW = Claim(
    "Batch time",
    "./millrace bench placement",
    *("placement", "skew", "albic", "batch_time_s"),
    rivals={"Even placement": "even"},
    judged={"ratio": "batch_time_vs_even"},
)
LOSS = Loss("Ratio", ("placement", "skew", "batch_time_vs_even"), "albic")


def test_claim_shows_value_interval_record_verdict_and_command() -> None:
    row = "| Start of 3 stacks | [30 s (28 to 31)](benchmarks/stack/first%20start.json) |  | met: target at most 45 | "
    assert row + "`./millrace bench stack` |" in document([GOOD], [START], [], [])


def test_claim_shows_rivals_and_the_figure_that_misses_its_target() -> None:
    page = document([TIME, RIVAL, BAD], [SKEW], [], [])
    assert "| Even placement: 6 s | **missed**: ratio: 0.99, target at most 0.95 |" in page


def test_claim_shows_what_a_low_figure_costs_each_method() -> None:
    behind = [Record("placement", "skew", m, "behind_s", v, "s", n=1) for m, v in (("albic", 0.0), ("even", 7.5))]
    page = document([TIME, RIVAL, BAD, *behind], [replace(SKEW, second=("behind", "behind_s"))], [], [])
    assert "[5.9 s](benchmarks/placement/skew.json), behind 0 s | Even placement: 6 s, behind 7.5 s |" in page


def test_target_must_be_met_with_every_seed() -> None:
    others = [replace(GOOD, value=44.0, seed=101), replace(GOOD, value=46.0, holds=False, seed=102)]
    page = document([*others, GOOD], [START], [], [])
    assert "[30 s (28 to 31)]" in page and "**missed**: target at most 45" in page
    assert "0 of 1 targets are met" in page


def test_live_claims_come_first() -> None:
    live, _, simulated = document([GOOD, TIME, RIVAL, BAD], [START], [SKEW], []).partition("## Simulated")
    assert "Start of" in live and "Batch time" not in live and "Batch time" in simulated


def test_live_claim_whose_scenario_was_never_measured_is_only_listed() -> None:
    page = document([TIME, RIVAL, BAD], [START, SKEW], [], [])
    assert "Not recorded yet:\n\n- Start of" in page and "| Start of" not in page


def test_error_names_the_missing_record() -> None:
    with pytest.raises(MillraceError, match="no batch_time_s of even in placement/skew"):
        document([TIME, BAD], [SKEW], [], [])
    with pytest.raises(MillraceError, match="no healthy_s of millrace in stack/first start"):
        document([TIME], [], [START], [])


def test_losses_have_value_target_and_reason_and_end_when_targets_are_met() -> None:
    row = "| Ratio | [0.99](benchmarks/placement/skew.json) | at most 0.95 | Stages wait. |"
    reasons = {LOSS.missed: "Stages wait."}
    assert row in document([BAD], [], [], [LOSS], reasons)
    assert "Ratio" not in document([replace(BAD, holds=True)], [], [], [LOSS], reasons)


def test_loss_shows_a_seed_that_misses() -> None:
    records = [replace(BAD, holds=True, value=0.9), replace(BAD, seed=101)]
    assert "| Ratio | [0.99]" in document(records, [], [], [LOSS])


def test_only_targets_missed_with_some_seed_have_a_reason() -> None:
    missed = {(r.bench, r.scenario, r.figure) for r in read(RECORDS) if r.holds is False}
    assert missed == REASONS.keys()


def test_reasons_are_short_and_losses_have_one() -> None:
    assert not [why for why in REASONS.values() if len(why.split()) > 15]
    assert {loss.missed for loss in LOSSES} <= REASONS.keys()


def test_commands_of_claims_measure_their_benchmark() -> None:
    for claim in (*LIVE, *SIMULATED):
        assert claim.command.startswith(f"./millrace bench {claim.area}")
