"""A placement and the proof of how good it is."""

from __future__ import annotations

from dataclasses import dataclass

from optimizers.albic.problem import Floats, Ints, Problem


@dataclass(frozen=True)
class Plan:
    """Where every key group is to sit.

    Attributes:
        node: Node of each group, shape (K,); every group has one.
        bound: No plan within the same constraints has a smaller load distance than this, points, >= 0.
        stage: How far the search came, for example ``balanced``, ``polished``, ``optimal``.
        seed: Seed that gives the same plan again.
    """

    node: Ints
    bound: float
    stage: str
    seed: int


@dataclass(frozen=True)
class Effect:
    """What a plan changes, before and after.

    Attributes:
        moves: Groups that move.
        spent: What they cost together.
        distance: Load distance before and after, points.
        loads: Load of each node before and after, points, shape (N,) each.
        collocation: Share of rows that stay within a node, before and after, 0..1.
        gap: Load distance over the proven minimum, points, >= 0.
    """

    moves: Ints
    spent: float
    distance: tuple[float, float]
    loads: tuple[Floats, Floats]
    collocation: tuple[float, float]
    gap: float


def effect(problem: Problem, plan: Plan) -> Effect:
    """Return what a plan changes."""
    after = problem.distance(plan.node)
    return Effect(
        moves=problem.moved(plan.node),
        spent=problem.spent(plan.node),
        distance=(problem.distance(problem.node), after),
        loads=(problem.loads(problem.node), problem.loads(plan.node)),
        collocation=(problem.collocation(problem.node), problem.collocation(plan.node)),
        gap=max(0.0, after - plan.bound),
    )
