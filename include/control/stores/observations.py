"""The GP's training data: measured points of processing ability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from include.contracts.signals import Observation
from include.lake.records import observation_from_row, observation_row
from include.lake.store import Lake, literal

TABLE = "control/observations"
KEEP_PER_LEVEL = 20
"""Most recent points of each (operator, p) that a look carries; Top-K (ContTune, Section 7) keeps fewer of them."""


@dataclass(frozen=True)
class ObservationStore:
    """Observations of all pipelines in ``control/observations``."""

    lake: Lake

    def add(self, pipeline: str, observations: Sequence[Observation], look: str, number: int) -> None:
        """Store a look's observations once.

        Args:
            pipeline: Name of the pipeline.
            observations: What was measured.
            look: Name of the sequence that ``number`` counts, so that a retried look adds nothing twice.
            number: Version of ``telemetry/batches`` that the look read up to.
        """
        if observations:
            rows = [observation_row(pipeline, o) for o in observations]
            self.lake.append(TABLE, rows, {f"observations/{pipeline}/{look}": number})

    def recent(self, pipeline: str, per_level: int = KEEP_PER_LEVEL) -> tuple[Observation, ...]:
        """Return the most recent points of every (operator, p), oldest first."""
        sql = f"""
            select operator, parallelism, processing_ability, noise, batches, time from (
                select *, row_number() over (partition by operator, parallelism order by time desc) as age
                from observations where pipeline = {literal(pipeline)}
            ) where age <= {int(per_level)} order by time
        """  # noqa: S608 - values pass through literal()
        return tuple(observation_from_row(row) for row in self.lake.rows(sql, TABLE))
