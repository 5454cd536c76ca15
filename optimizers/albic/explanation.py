"""Describe plans and skew."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.model.placement import PartitionLoads, PlacementPlan, Speeds
from millrace.optimizers.albic.limits import MB

OPTIMAL = "optimal"
"""Stage of a search that found the best plan within the budget."""


def explain(plan: PlacementPlan) -> str:
    """Describe the plan."""
    moves = "1 state partition moves" if plan.moves == 1 else f"{plan.moves} state partitions move"
    steps = [moves] if plan.moves else []
    lost = "of lost executors" if steps else f"state partition{'s' * (plan.placed != 1)} of lost executors"
    again = "is placed" if plan.placed == 1 else "are placed"
    steps += [f"{plan.placed} {lost} {again} again"] if plan.placed else []
    loaded = f" ({plan.state_bytes / MB:,.0f} MB of state)" if plan.state_bytes and plan.state_bytes >= MB else ""
    stay = len({*plan.after})
    near = ""
    if plan.near_before is not None and plan.near_after is not None and plan.near_after > plan.near_before:
        near = f"; {100 * plan.near_before:.0f} -> {100 * plan.near_after:.0f} % of traffic between partitions is local"
    return (
        f"{' and '.join(steps) or 'no partition moves'}{loaded}: the stateful part of a batch takes "
        f"{plan.batch_before_s:.1f} -> {plan.batch_after_s:.1f} s on {stay} executor{'s' * (stay != 1)}; "
        f"no placement takes less than {plan.bound_s:.1f} s (gap {100 * plan.gap_ratio:.0f} %)"
        f"{_budget(plan)}{near}{_speeds(plan.speeds)}"
    )


def explain_draining(plan: PlacementPlan, leaving: Sequence[int], left: int) -> str:
    """Say how far executors that are to go have been emptied.

    Args:
        plan: The plan, which empties them further.
        leaving: Their numbers.
        left: Partitions that they still have under it.
    """
    nodes = {plan.executors.index(executor) for executor in leaving}
    theirs = sum(before in nodes for before in plan.before)
    who = f"executor {leaving[0]} is" if len(leaving) == 1 else f"executors {', '.join(map(str, leaving))} are"
    loaded = f" ({plan.state_bytes / MB:,.0f} MB of state)" if plan.state_bytes and plan.state_bytes >= MB else ""
    return (
        f"{who} to go and gradually emptied: {theirs - left} of {theirs} state partitions leave now{loaded}, "
        f"as many as the budget allows; slots are lowered once all have left"
    )


def _budget(plan: PlacementPlan) -> str:
    """Say whether a plan is the best within the budget, and what the following moves reach."""
    proven = ", and none within the budget beats this one" * (plan.budget is not None and plan.stage.endswith(OPTIMAL))
    follow = "" if plan.followed_s is None else f"; after the remaining moves, it takes {plan.followed_s:.1f} s"
    return proven + follow


def _speeds(speeds: Speeds) -> str:
    known = zip(speeds.executor, speeds.speed, strict=True)
    return "".join(f"; executor {executor} runs at {speed:.1f} times the mean speed" for executor, speed in known)


def explain_skew(groups: PartitionLoads, heaviest: int, share: float, least_s: float) -> str:
    """Describe skew that no placement fixes."""
    hot = ", ".join(f"{name} ({100 * of_all:.0f} %)" for name, of_all in groups.hot)
    streams = f"; the streams with the most rows are {hot}" if hot else ""
    return (
        f"Partition {groups.partition[heaviest]} of {groups.operator[heaviest]} takes {100 * share:.0f} % of its "
        f"stage's time, so no placement makes the stage shorter than {least_s:.1f} s: "
        f"use more partitions (max_parallelism), or split keys with millrace.windows.partitioning{streams}"
    )
