"""Sizes of map outputs, from Spark's codes."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from typing import Any

from millrace.runtime.telemetry.map_output import SIZES, pairs


def test_sizes_of_map_outputs_are_within_ten_percent() -> None:
    """Spark writes the code of the next larger size."""
    assert SIZES[0] == 0 and SIZES[1] == 1 and len(SIZES) == 256
    assert all(a <= b <= a * 1.1 + 1 for a, b in pairwise(SIZES))


def output(*codes: int) -> dict[str, Any]:
    return {"loc": {"executorId_": "0"}, "compressedSizes": base64.b64encode(bytes(codes)).decode(), "_mapTaskId": 3}


def test_map_outputs_are_bytes_of_pairs_that_have_any() -> None:
    assert pairs(json.dumps([output(0, 50), output(255, 1)])) == {(0, 1): 117, (1, 0): SIZES[255], (1, 1): 1}
    assert pairs("[]") == {}


def test_map_outputs_are_unknown_if_one_was_lost() -> None:
    assert pairs(json.dumps([output(1), None])) is None
