"""The JSON schema of a pipeline spec, with which editors complete keys and mark mistakes.

Run ``python -m millrace.pipelines.schema`` after a change to the models: it writes the schema and docs/spec.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from millrace.model.spec import PipelineSpec
from millrace.pipelines import spec_reference

FILE = Path(__file__).with_name("pipeline.schema.json")


def schema() -> dict[str, Any]:
    """Return the JSON schema of a pipeline spec."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **PipelineSpec.model_json_schema()}


def text() -> str:
    """Return the text of :data:`FILE`."""
    return json.dumps(schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
    spec_reference.FILE.write_text(spec_reference.text(schema()), encoding="utf-8")
