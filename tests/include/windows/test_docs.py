"""The examples of the documents, run as written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.spark
@pytest.mark.parametrize("document", ["partitioning.md", pytest.param("panes.md", marks=pytest.mark.slow)])
def test_document_when_its_examples_are_run_in_order_then_all_hold(spark: Any, document: str) -> None:
    examples = re.findall(r"^```python\n(.*?)^```", (DOCS / document).read_text(encoding="utf-8"), re.M | re.S)
    assert examples
    names: dict[str, Any] = {"__name__": "__main__", "spark": spark}
    for example in examples:
        exec(compile(example, document, "exec"), names)
