from __future__ import annotations

import json

import jsonschema
import pytest

from millrace.pipelines import spec_reference
from millrace.pipelines.catalog import BUILT_IN, spec_files
from millrace.pipelines.schema import FILE, schema, text
from millrace.pipelines.spec_yaml import read_file


def test_schema_file_is_rewritten_when_models_change() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "run: python -m millrace.pipelines.schema"
    page = spec_reference.FILE.read_text(encoding="utf-8")
    assert page == spec_reference.text(schema()), "run: python -m millrace.pipelines.schema"


@pytest.mark.parametrize("path", sorted(BUILT_IN.glob("*.yaml")), ids=lambda p: p.name)
def test_built_in_spec_passes_an_editors_check(path: object) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    for file in spec_files():
        jsonschema.validate(read_file(file), json.loads(FILE.read_text("utf-8")))


@pytest.mark.parametrize(
    "wrong",
    [{"slotz": 1}, {"mode": "yolo"}, {"slots": {"min": 0}}, {"script": None}, {"name": "Big Name"}, {"period_s": 0}],
    ids=str,
)
def test_schema_lets_an_editor_mark_a_wrong_spec(wrong: dict[str, object]) -> None:
    jsonschema.validate({"name": "orders", "script": "a.py"}, schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "orders", "script": "a.py", **wrong}, schema())
