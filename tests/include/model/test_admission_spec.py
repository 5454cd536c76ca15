from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from millrace.model.admission_spec import Admission
from millrace.model.spec import PipelineSpec
from millrace.optimizers.registry import Role, create

FLEET = {"script": "/x/ingest.py", "checkpoints": "/c", "streams": {"list": ["a"]}, "nodes": 2}


def fleet(**admission: Any) -> PipelineSpec:
    return PipelineSpec.model_validate({"name": "ingest", "fleet": FLEET, "admission": admission})


def test_fleet_learns_its_capacity_if_none_is_given() -> None:
    spec = fleet()
    assert spec.admission is not None
    assert (spec.admission.capacity, spec.admission.target_utilisation) == (None, 0.75)
    options = spec.admission_options
    assert options is not None and "capacity" not in options
    assert create("drfm", options, Role.ADMISSION)
    assert PipelineSpec.model_validate_json(spec.model_dump_json()) == spec


def test_capacity_in_rows_overrules_slots() -> None:
    options = fleet(capacity=100, target_utilisation=0.5).admission_options
    assert options is not None and options["capacity"] == 100
    assert create("drfm", options, Role.ADMISSION)


@pytest.mark.parametrize("wrong", [{"target_utilisation": 0}, {"target_utilisation": 1.1}, {"capacity": 0}])
def test_values_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        Admission.model_validate(wrong)
