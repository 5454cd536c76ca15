"""Specs of pipelines whose driver somebody else starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from millrace.model.spec import Mode, PipelineSpec
from millrace.pipelines import catalog

SPEC = {"name": "orders", "submit": {"launcher": "external"}}


def test_attached_pipeline_needs_no_script_and_never_rescales(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text("name: orders\nsubmit: {launcher: external}\nmode: auto\n")
    spec = catalog.load(path)
    assert (spec.script, spec.rescale, spec.mode) == ("", Mode.ADVISE, Mode.AUTO)
    assert spec.first_deployment().is_external
    assert not PipelineSpec.model_validate({"name": "p", "script": "s.py"}).first_deployment().is_external


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"apps": {"a": {"script": "a.py"}}}, "apps: Millrace starts its drivers"),
        ({"rescale": "auto"}, "rescale: only advise"),
        ({"submit": {"launcher": "nobody"}}, "millrace"),
        ({"submit": {"launcher": "external", "tune_batches": True}}, "submit.tune_batches: Millrace must start"),
    ],
)
def test_what_needs_a_start_is_refused(more: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        PipelineSpec.model_validate({**SPEC, **more})


def test_app_of_several_cannot_be_started_by_somebody_else() -> None:
    apps = {"clean": {"script": "a.py"}, "count": {"script": "b.py", "submit": {"launcher": "external"}}}
    with pytest.raises(ValidationError, match=r"apps\.count\.submit\.launcher: Millrace starts"):
        PipelineSpec.model_validate({"name": "p", "apps": apps})
