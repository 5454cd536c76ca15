from __future__ import annotations

from dataclasses import replace

from benchmarks.document import RECORDS, anchor, document
from benchmarks.misses import REASONS
from benchmarks.record import Record, read

GOOD = Record("stack", "start", "millrace", "healthy_s", 30.0, "s", 28.0, 31.0, 3, "<=45", True, "2013-01-05 3f2a91c")
BAD = Record("placement", "skew", "albic", "batch_time_vs_wait_0", 0.99, "ratio", target="<=0.95", holds=False)
RIVAL = Record("placement", "skew", "even", "batch_time_s", 5.0, "s")


def test_page_starts_with_the_missed_targets_and_reasons() -> None:
    page = document([GOOD, BAD], {("placement", "skew", "batch_time_vs_wait_0"): "Half of a batch is elsewhere."})
    missed, _, rest = page.partition("## Targets that hold")
    assert f'<a id="{anchor(BAD)}"></a>[batch_time_vs_wait_0](#placement-skew)' in missed
    assert "| Half of a batch is elsewhere. |" in missed and "healthy_s" not in missed
    assert "| 30 s (28 to 31) | 3 | <=45 |" in rest.partition("## placement")[0]


def test_figures_of_other_seeds_are_shown_and_bold_if_the_verdict_differs() -> None:
    better = replace(BAD, value=0.9, holds=True, seed=101)
    page = document([BAD, replace(BAD, value=0.97, seed=102), better])
    assert "| 0.99 ratio | 1 | <=0.95 | **101: 0.9**, 102: 0.97 |" in page
    assert "0.9 |" not in page.partition('<a id="placement-skew"></a>')[2]


def test_target_holds_only_if_it_holds_with_every_seed() -> None:
    page = document([GOOD, replace(GOOD, value=44.0, seed=101), replace(GOOD, value=46.0, holds=False, seed=102)])
    missed, _, held = page.partition("## Targets that hold")
    assert "| 30 s (28 to 31) | 3 | <=45 | 101: 44 (28 to 31), **102: 46 (28 to 31)** |" in missed
    assert "None." in held.partition("## Verdicts")[0]
    assert "healthy_s" in document([GOOD, replace(GOOD, seed=101)]).partition("## Targets that hold")[2]


def test_page_counts_the_verdicts_of_each_other_seed_and_explains_differences() -> None:
    records = [GOOD, replace(GOOD, holds=False, seed=101), replace(GOOD, seed=102), BAD, replace(BAD, seed=101)]
    page = document(records, {("stack", "start", "healthy_s"): "Two starts at once."})
    _, _, changed = page.partition("## Verdicts that other seeds change")
    assert "| 101 | 2 | 1 | 1 | 0 |\n| 102 | 1 | 1 | 0 | 0 |" in changed
    table = changed.partition("## placement")[0]
    assert "| Two starts at once. |" in table and "#placement-skew" not in table


def test_scenario_shows_its_figure_next_to_its_rivals() -> None:
    page = document([BAD, RIVAL]).partition('<a id="placement-skew"></a>')[2]
    assert "| figure | albic | even |" in page
    assert "| batch_time_vs_wait_0, ratio | **0.99** |  |" in page and "| batch_time_s, s |  | 5 |" in page


def test_scenario_with_many_methods_has_a_row_for_each() -> None:
    many = [Record("b", "s", f"m{number}", "time_s", float(number), "s") for number in range(11)]
    page = document(many)
    assert "| method | time_s, s |" in page and "| m10 | 10 |" in page


def test_page_says_when_each_scenario_was_measured() -> None:
    page = document([GOOD, BAD])
    assert "Measured 2013-01-05 3f2a91c: start." in page
    assert "Measured at a time that nobody wrote down: skew." in page


def test_page_without_missed_targets_says_so() -> None:
    assert "None." in document([GOOD]).partition("## Targets that hold")[0]


def test_only_targets_missed_with_some_seed_have_a_reason() -> None:
    missed = {(r.bench, r.scenario, r.figure) for r in read(RECORDS) if r.holds is False}
    assert missed == REASONS.keys()
