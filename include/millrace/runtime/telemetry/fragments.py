"""Which part of a batch's plan ran in which stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from millrace.runtime.telemetry.execution import Boundary, ExecutedPlan, Node, Stage, StateOperator


@dataclass
class Fragment:
    """The nodes that ran in one stage, sources first.

    Attributes:
        end: Where the stage ends.
        nodes: Its nodes, including those at which an earlier stage ends: this stage reads there.
    """

    end: Boundary
    nodes: list[Node] = field(default_factory=list)

    def ran_in(self, stages: Sequence[Stage]) -> list[Stage]:
        """Return the stages that ran it; several if the batch was computed more than once."""
        return [s for s in stages if self.end.rdd is not None and self.end.rdd in s.rdds]


def fragments(plan: ExecutedPlan) -> list[Fragment]:
    """Return the parts of a plan by stage, sources first."""
    done: list[Fragment] = []

    def visit(node: Node, into: Fragment) -> None:
        if node.below is not None:
            earlier = Fragment(node.below)
            for child in node.children:
                visit(child, earlier)
            done.append(earlier)
        else:
            for child in node.children:
                visit(child, into)
        into.nodes.append(node)

    last = Fragment(plan.end)
    visit(plan.root, last)
    return [*done, last]


def with_end(plan: ExecutedPlan, stages: Sequence[Stage]) -> ExecutedPlan:
    """Return a plan whose last stage is known: if the plan does not say, it is the last one without a known shuffle.

    Args:
        plan: The plan; before Spark 4.0, it does not say which RDD it made.
        stages: Completed stages of its batch.
    """
    if plan.end.rdd is not None:
        return plan
    known = {fragment.end.rdd for fragment in fragments(plan)}
    last = [stage for stage in stages if stage.rdds and not stage.rdds & known]
    return replace(plan, end=Boundary(max(last[-1].rdds), None)) if last else plan


@dataclass(frozen=True)
class StatefulStage:
    """A stage whose tasks keep state; a task and its state partition have the same number.

    Attributes:
        stage: The stage.
        operators: Ids of its stateful operators, lowest first: they move together.
        writes: Id of the shuffle that it writes; None if it writes none.
        reads: Ids of the shuffles that it reads.
    """

    stage: Stage
    operators: tuple[int, ...]
    writes: int | None
    reads: frozenset[int]


def stateful_stages(plan: ExecutedPlan, stages: Sequence[Stage]) -> tuple[StatefulStage, ...]:
    """Return the stages of a batch that keep state, sources first.

    Stages that did not run are left out, and so are stages whose tasks are not the operators' partitions. If a batch
    was computed more than once, its last computation counts: the state is there now.
    """
    return tuple(_stateful(plan, stages))


def _stateful(plan: ExecutedPlan, stages: Sequence[Stage]) -> Iterator[StatefulStage]:
    for fragment in fragments(plan):
        used = {node.state for node in fragment.nodes if node.state is not None}
        ran = fragment.ran_in(stages)
        if not used or not ran or not _one_task_a_partition(used, ran[-1]):
            continue
        reads = (node.below.shuffle for node in fragment.nodes if node.below is not None)
        yield StatefulStage(
            ran[-1],
            tuple(sorted(operator.id for operator in used)),
            fragment.end.shuffle,
            frozenset(shuffle for shuffle in reads if shuffle is not None),
        )


def _one_task_a_partition(used: set[StateOperator], stage: Stage) -> bool:
    return {operator.partitions for operator in used} == {stage.tasks}
