"""What a driver that attaches itself has to have installed: no more than the package's own dependencies."""

from __future__ import annotations

import subprocess
import sys
import tomllib

from millrace.places import REPO, SOURCES

CODE = """
import sys
before = set(sys.modules)
import millrace.runtime.attach, millrace.runtime.lifecycle, millrace.runtime.journal_listener, millrace.run
tops = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(top for top in tops if getattr(sys.modules.get(top), "__file__", None)))
"""
OF_DEPENDENCIES = {"annotated_types", "arro3", "cloudpickle", "numpy", "py4j", "pydantic_core", "pyspark"}
"""What the dependencies and PySpark bring; pyarrow loads numpy if it is there."""
OF_DEPENDENCIES |= {"typing_extensions", "typing_inspection", "millrace"}
LATER = {"obstore"}
"""Imported only if the lake, or a Delta source, is on Azure storage or Google Cloud Storage."""


def test_driver_needs_only_the_packages_of_the_driver_extra() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    declared = {text.partition(">")[0] for text in project["dependencies"]}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env={"PYTHONPATH": str(SOURCES)}, capture_output=True, text=True, check=True
    )
    found = set(done.stdout.split()) - sys.stdlib_module_names - OF_DEPENDENCIES
    assert {name for name in found if not name.startswith("_")} == declared - LATER
