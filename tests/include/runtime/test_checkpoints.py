"""When a running query's checkpoint is known."""

from __future__ import annotations

import pytest

from millrace.runtime.checkpoints import checkpoint_of
from tests.include.runtime.progress import IDLE, RAN, ShownQuery, progress


@pytest.mark.parametrize(
    ("shown", "planned", "partitions"),
    [
        (None, None, None),
        (progress(3, IDLE), None, None),
        (progress(3, IDLE), 3, None),  # its first batch runs, after a trigger without rows
        (progress(3, RAN, 8, 4), 3, 8),
        (progress(4, IDLE, 8, 4), 4, 8),
        (progress(3, RAN), 3, 0),
        (progress(4, IDLE), 3, 0),  # without state, and idle after a batch
    ],
)
def test_checkpoint_is_known_once_a_batch_of_the_run_has_ended(
    shown: object, planned: int | None, partitions: int | None
) -> None:
    checkpoint = checkpoint_of(ShownQuery(shown, planned))
    assert (None if checkpoint is None else checkpoint.partitions) == partitions
