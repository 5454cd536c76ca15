"""Operators of a micro-batch: what each did, for how long, on how many tasks.

Two sources are joined by stage. The plan's metrics contain the rows of every node and the time of the Python workers.
The status store contains the time r of all tasks of a stage together, including waits. In a stage

- a Python operator takes its workers' time minus the inclusive time of the Python operators that feed it, as a worker
  that waits for its input is not useful (workers overlap, so the first of several chained ones gets the shared time);
- one more operator stands for all the JVM nodes of the stage and takes the rest of r.

So the useful times of a stage's operators add up to r.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from millrace.model.telemetry import OperatorBatch
from millrace.runtime.telemetry.execution import ExecutedPlan, Node, Stage
from millrace.runtime.telemetry.fragments import Fragment, fragments

WRAPPERS = frozenset({"InputAdapter", "ColumnarToRow", "RowToColumnar", "Project", "Exchange", "BroadcastExchange"})


def operators(
    plan: ExecutedPlan | None, stages: Sequence[Stage], slots: int, repeats: float = 1.0, foreach_batch: bool = False
) -> tuple[OperatorBatch, ...]:
    """Return the operators of a batch, sources first.

    Args:
        plan: The batch's plan; without it each stage of the main job becomes one operator.
        stages: Completed stages of the batch.
        slots: Tasks that the app can run at once, >= 1.
        repeats: How often the batch was computed (several actions in ``foreachBatch``), >= 1. Rows count once; useful
            time is the time actually spent.
        foreach_batch: True if the sink is the user's function. Its own stages are then an operator too.
    """
    if plan is None:
        main = _main_job(stages)
        ran = [(i, s) for i, s in enumerate(main) if s.tasks]
        return tuple(_operator(f"{i}.stage", "stage", s.tasks, slots, useful_ms=s.run_ms) for i, s in ran)
    result: list[OperatorBatch] = []
    used: set[Stage] = set()
    for fragment in fragments(plan):
        own = fragment.ran_in(stages)
        used |= set(own)
        tasks = max((s.tasks for s in own), default=fragment.end.tasks)
        run_ms = sum(s.run_ms for s in own) if own else None
        for node, rows_in, useful_ms in _split(fragment, run_ms):
            rows = (_once(rows_in, repeats), _once(_rows_out(fragment, node), repeats))
            result.append(_operator(f"{len(result)}.{_slug(node.name)}", node.name, tasks, slots, rows, useful_ms))
    if foreach_batch and used:
        first = min(s.job for s in used)
        own = [s for s in stages if s not in used and s.job >= first]
        if own:
            tasks, useful_ms = max(s.tasks for s in own), sum(s.run_ms for s in own)
            result.append(_operator("sink.foreachBatch", "foreachBatch", tasks, slots, useful_ms=useful_ms))
    return tuple(o for o in result if o.tasks != 0)  # a batch without rows only moves a watermark: it reads nothing


def _operator(
    id_: str,
    name: str,
    tasks: int | None,
    slots: int,
    rows: tuple[int | None, int | None] = (None, None),
    useful_ms: int | None = None,
) -> OperatorBatch:
    p = None if tasks is None else max(1, min(tasks, slots))
    return OperatorBatch(id_, name, tasks, p, *rows, None if useful_ms is None else useful_ms / 1000.0)


def _once(rows: int | None, repeats: float) -> int | None:
    return None if rows is None else round(rows / repeats)


def _split(fragment: Fragment, run_ms: int | None) -> Iterator[tuple[Node, int | None, int | None]]:
    """Yield a stage's operators with their rows in and useful time, sources first."""
    python = {id(n): _exclusive_ms(n) for n in fragment.nodes if n.python_ms is not None}
    main = _main(fragment)
    spent = sum(ms for ms in python.values() if ms is not None)
    for node in fragment.nodes:
        if id(node) in python:
            yield node, _sum([c.rows for c in node.children]), python[id(node)]
        elif node is main and run_ms is not None:
            yield node, _sum([n.rows for n in _entries(fragment)]), max(0, run_ms - spent)


def _exclusive_ms(node: Node) -> int | None:
    if node.python_ms is None:
        return None
    feeding = list(_python_below(node))
    if not feeding:
        return node.python_ms
    return max(0, (node.python_total_ms or 0) - sum(child.python_total_ms or 0 for child in feeding))


def _python_below(node: Node) -> Iterator[Node]:
    """Yield the nearest Python nodes that feed ``node`` inside its stage."""
    for child in node.children:
        if child.below is not None:
            continue
        if child.python_ms is not None:
            yield child
        else:
            yield from _python_below(child)


def _main(fragment: Fragment) -> Node | None:
    """Return the node that names the JVM's part of a stage: its state, else its source, else what it computes."""
    candidates = [n for n in fragment.nodes if n.python_ms is None and n.below is None]
    named = [n for n in candidates if n.name not in WRAPPERS and not n.name.startswith("WholeStageCodegen")]
    stateful = [n for n in named if n.stateful]
    leaves = [n for n in named if not n.children]
    best = stateful[-1:] or leaves[:1] or named[-1:] or candidates[-1:]
    return best[0] if best else None


def _entries(fragment: Fragment) -> list[Node]:
    """Return the nodes whose rows enter the stage: leaves of the plan, and exchanges that end an earlier stage.

    Broadcast rows are looked up and do not flow. A broadcast has its own job group, so its stage is unknown.
    """
    return [n for n in fragment.nodes if not n.children or (n.below is not None and n.below.rdd is not None)]


def _rows_out(fragment: Fragment, node: Node) -> int | None:
    return node.rows if node.python_ms is not None else fragment.nodes[-1].rows


def _main_job(stages: Sequence[Stage]) -> list[Stage]:
    by_job: dict[int, list[Stage]] = {}
    for stage in stages:
        by_job.setdefault(stage.job, []).append(stage)
    return max(by_job.values(), key=lambda job: sum(s.run_ms for s in job), default=[])


def _sum(rows: list[int | None]) -> int | None:
    return sum(r for r in rows if r is not None) if rows and None not in rows else None


def _slug(name: str) -> str:
    return re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_")
