from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from millrace.model.errors import MillraceError
from millrace.optimizers.albic.contraction import contract, numbered
from millrace.optimizers.albic.problem import Caps, Problem
from tests.examples import examples
from tests.optimizers.albic.jobs import ints, problem, problems


@given(problems())
@examples(60)
def test_contract_when_every_group_is_a_unit_then_nothing_changes(given: Problem) -> None:
    small = contract(given, np.arange(given.groups))
    np.testing.assert_allclose(small.loads(small.node), given.loads(given.node), atol=1e-9)
    np.testing.assert_allclose(small.cost, given.cost)


@given(problems(unplaced=False))
@examples(60)
def test_contract_when_units_are_whole_nodes_then_weighs_them(given: Problem) -> None:
    units = numbered(given.node)
    small = contract(given, units)
    np.testing.assert_allclose(small.loads(small.node), given.loads(given.node), atol=1e-9)
    np.testing.assert_array_equal(small.node[units], given.node)


def test_contract_when_members_sit_apart_then_says_which_group() -> None:
    apart = problem([0, 0, 1], nodes=2)
    with pytest.raises(MillraceError, match=r"units\[[02]\]"):
        contract(apart, ints([0, 1, 0]))


def test_contract_when_a_unit_moves_then_all_its_groups_do_and_pay() -> None:
    whole = problem([0, 0, 1], nodes=2, edges=[(0, 1, 2.0)])
    units = ints([0, 0, 1])
    small = contract(whole, units)
    moved = ints([1, 1])[units]
    assert small.spent(ints([1, 1])) == whole.spent(moved) == 2
    np.testing.assert_allclose(small.loads(ints([1, 1])), whole.loads(moved))


def test_contract_when_there_are_caps_then_sums_what_groups_use() -> None:
    capped = replace(problem([0, 0, 1], nodes=2), caps=Caps(np.array([[1.0, 2.0, 4.0]]), np.ones((1, 2)) * 9))
    small = contract(capped, ints([0, 0, 1]))
    assert small.caps is not None
    np.testing.assert_allclose(small.caps.load, [[3.0, 4.0]])
