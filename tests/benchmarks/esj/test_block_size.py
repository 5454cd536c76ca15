import pytest

from benchmarks.esj import block_size
from benchmarks.esj.block_size import Case, brute_force, cases
from millrace.optimizers.esj.block_size import block_size as block_size_of
from millrace.optimizers.esj.block_size import cost, fits


@pytest.fixture(scope="module")
def found():
    block_size.QUICK_CASES, kept = 2000, block_size.QUICK_CASES
    yield {(r.method, r.figure): r.value for r in block_size.records(quick=True)}
    block_size.QUICK_CASES = kept


def test_ours_when_compared_with_brute_force_then_never_differs(found):
    assert found["brute_force", "runs"] == 2000
    assert found["ours", "mismatches"] == found["ours", "infeasible_ratio"] == 0


def test_literal_when_compared_with_brute_force_then_differs_and_sometimes_does_not_fit(found):
    assert found["literal", "mismatches"] > 1000
    assert 0 < found["literal", "infeasible_ratio"] < 0.2
    assert found["literal", "cost_above_best_ratio"] > 0.05 > 1e-12 > found["ours", "cost_above_best_ratio"]


def test_mismatches_count_sizes_that_do_not_fit_or_cost_more(found):
    def is_best(case):
        size, least = block_size_of(case.held, case.capacity, case.alpha, "literal"), brute_force(case)
        if least is None:
            return size == 1
        return fits(size, case.held, case.capacity) and cost(size, case.held, case.alpha) == pytest.approx(least, 1e-12)

    assert found["literal", "mismatches"] == sum(not is_best(case) for case in cases(2000))


def test_brute_force_when_calculated_by_hand_then_is_the_same():
    # a block of 4 is the largest that fits next to 6 of 10 tuples
    assert brute_force(Case(6.0, 10, 0.5)) == pytest.approx(min(0.5 * 6 / b + 0.5 * b / 6 for b in (1, 2, 3, 4)))
    assert brute_force(Case(9.5, 10, 0.5)) is None


def test_cases_when_drawn_then_cover_loads_that_cannot_be_served():
    drawn = list(cases(1000))

    assert drawn == list(cases(1000))
    assert {case.held > case.capacity for case in drawn} == {True, False}
    assert all(case.held >= 0 and 2 <= case.capacity <= 500 for case in drawn)
