"""The command placement: show which executor runs which state partitions, their cost, and albic's plan."""

from __future__ import annotations

from collections.abc import Iterator

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from millrace.model.deployment import NOWHERE, AppDeployment
from millrace.model.placement import PartitionLoads, PlacementPlan

MB = 1e6
MOST_MOVES = 20
"""Moves that are listed."""


@click.command()
@click.argument("pipeline")
@click.option("--app", "named", metavar="APP", help="App to show, in a pipeline of several apps.")
def placement(pipeline: str, named: str | None) -> None:
    """Show which executors run the state partitions of PIPELINE, and how much a better placement would save."""
    from millrace.control.partition_loads import partition_loads
    from millrace.model.spec import PLACEMENT_OPTIMIZER
    from millrace.optimizers.albic.optimizer import Albic
    from millrace.pipelines.catalog import find
    from millrace.wiring import control_tables, utc_now

    spec, tables = find(pipeline).app_named(named), control_tables()
    name = f"{spec.app} of {pipeline}" if spec.is_one_of_several else pipeline
    deployed = tables.deployments.latest(pipeline)
    app = deployed.apps.get(spec.app) if deployed else None
    if app is None:
        click.echo(f"{name} was never launched. Launch it: ./millrace trigger {pipeline}")
        return
    if app.executor is None:
        click.echo(f"{name} has no executors (submit.master: local); all its state is in the driver.")
        return
    groups = partition_loads(spec, tables.lake, utc_now())
    if groups is None:
        click.echo(f"{name}: no state partition was measured recently. It is idle, keeps no state, or does not run.")
        return
    Console().print(_table(groups), highlight=False)
    click.echo(_summary(groups, app, app.executor.cores))
    options = Albic.Options(**(spec.placement.options if spec.placement else {}))
    click.echo("\n".join(_moves(Albic(options).plan(groups, app, app.slots_per_executor), groups)))
    decision = tables.decisions.last(pipeline)
    judged = [p.sentence for p in decision.proposals if p.optimizer == PLACEMENT_OPTIMIZER] if decision else []
    if spec.is_one_of_several:
        click.echo("Partitions are spread evenly by number. Millrace places them by load in pipelines of one app only.")
    elif spec.placement is None:
        click.echo("Partitions are spread evenly by number. To place them by load, add `placement: {}` to the spec.")
    elif decision is not None:
        said = f"{judged[0] or 'nothing to gain'}." if judged else decision.sentence
        click.echo(f"{'albic' if judged else 'The last evaluation'}, {decision.time:%H:%M:%S} UTC: {said}")


def _table(groups: PartitionLoads) -> Table:
    rows = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("operators", "executor", "busy s", "share", "state MB"):
        rows.add_column(name, no_wrap=True, justify="left" if name == "operators" else "right")
    rows.add_column("partitions", overflow="fold", ratio=1)
    for cells in _cells(groups):
        rows.add_row(*map(Text, cells))
    return rows


def _cells(groups: PartitionLoads) -> Iterator[tuple[str, ...]]:
    for operator in dict.fromkeys(groups.operator):
        of_stage = [i for i, name in enumerate(groups.operator) if name == operator]
        whole = sum(groups.busy_s[i] for i in of_stage)
        for executor in sorted({groups.executor[i] for i in of_stage}):
            here = [i for i in of_stage if groups.executor[i] == executor]
            busy, sizes = sum(groups.busy_s[i] for i in here), [groups.state_bytes[i] for i in here]
            yield (
                operator,
                "lost" if executor == NOWHERE else str(executor),
                f"{busy:.2f}",
                f"{100 * busy / whole:.0f} %" if whole else "",
                "?" if None in sizes else f"{sum(size or 0 for size in sizes) / MB:.1f}",
                " ".join(str(groups.partition[i]) for i in here),
            )


def _moves(plan: PlacementPlan, groups: PartitionLoads) -> Iterator[str]:
    """Yield the batch time of the best placement within the budget, and its moves."""
    moved = [k for k, (a, b) in enumerate(zip(plan.before, plan.after, strict=True)) if a != b]
    bound = f"no placement makes it shorter than {plan.bound_s:.1f} s"
    if not moved:
        yield f"No move within the budget makes it shorter; {bound}."
        return
    yield (
        f"The best placement within the budget takes {plan.batch_after_s:.1f} s (gap {100 * plan.gap_ratio:.0f} %; "
        f"{bound}):"
    )
    for k in moved[:MOST_MOVES]:
        size = groups.state_bytes[k]
        loaded = "" if size is None else f", {size / MB:.1f} MB of state"
        source = "lost" if plan.before[k] < 0 else str(plan.executors[plan.before[k]])
        yield (
            f"  partition {plan.partition[k]} of {plan.operator[k]}: executor {source} -> "
            f"{plan.executors[plan.after[k]]} ({plan.busy_s[k]:.2f} s{loaded})"
        )
    if len(moved) > MOST_MOVES:
        yield f"  and {len(moved) - MOST_MOVES} more"


def _summary(groups: PartitionLoads, app: AppDeployment, cores: int) -> str:
    executors = f"{app.executors} executor{'s' * (app.executors != 1)} of {cores} core{'s' * (cores != 1)}"
    remote = "" if groups.remote_ratio is None else f"; {100 * groups.remote_ratio:.0f} % of its bytes are remote"
    batches = f"{groups.batches} sampled batch{'es' * (groups.batches != 1)}"
    seconds = groups.stateful_batch_s(app.slots_per_executor)
    return f"On {executors}, the stateful part of a batch takes {seconds:.1f} s ({batches}){remote}."
