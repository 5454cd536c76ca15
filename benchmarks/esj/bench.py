"""Measure how well a stream join adapts and passes messages: ``./millrace bench esj``."""

from __future__ import annotations

from collections.abc import Collection

from benchmarks import parts
from benchmarks.esj import (
    block_size,
    forwarding,
    message_costs,
    policy,
    protocol_targets,
    random_batches,
    spark_join,
)
from benchmarks.esj.targets import TARGETS
from benchmarks.parts import Part, undrawn
from benchmarks.record import Record
from benchmarks.targets import judged

PARTS = {
    "block_size": Part("block_size", block_size.records),
    "policy": Part("ramp6", policy.records),
    "random_batches": Part("random_batches", random_batches.records),
    "messages": Part("messages_block_16", undrawn(message_costs.records)),
    "forwarding": Part("forwarding_2", undrawn(forwarding.records)),
    "spark_join": Part("spark_join", undrawn(spark_join.records)),
}
SCENARIOS = parts.scenarios(PARTS)


def run(quick: bool, scenarios: Collection[str] = tuple(SCENARIOS), seed: int = 0) -> list[Record]:
    """Run scenarios.

    Args:
        quick: Fewer cases and seeds.
        scenarios: Names of the scenarios to run.
        seed: Another seed gives other runs.
    """
    return judged(parts.measure(PARTS, scenarios, quick, seed), (*TARGETS, *protocol_targets.TARGETS))
