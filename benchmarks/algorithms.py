"""The papers' algorithms and where each runs: ``python -m benchmarks.algorithms`` writes docs/algorithms.md.

The rows are in algorithms.yaml next to this file. ``tests/test_reachability.py`` checks them against the sources.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from millrace.pipelines.spec_yaml import read_file

FILE = Path(__file__).with_suffix(".yaml")
DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "algorithms.md"
BENCHMARKS = "benchmarks."

HEAD = """# The papers' algorithms

Each algorithm of the four papers that Millrace builds on, with the module that implements it, the spec key that lets it
change a running job, and the test that does so on real Spark. An algorithm without a spec key runs only in
`benchmarks/`, as a rival. `python -m benchmarks.algorithms` writes this page from `benchmarks/algorithms.yaml`, and
`tests/test_reachability.py` checks that modules, spec keys and tests exist.
"""
COLUMNS = """| algorithm | source | module | spec | live test |
|---|---|---|---|---|"""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Algorithm(_Strict):
    """One row: an algorithm of a paper, or ours in its place.

    Attributes:
        name: What it does.
        paper: Key of the paper.
        source: Section, equation or algorithm of the paper.
        module: Module that implements it; in ``benchmarks`` if no pipeline can use it.
        spec: Part of a spec that makes it act on a running job; None in benchmarks.
        base: Shipped example that the part is added to, below ``include/millrace/pipelines/examples``; None for a spec
            of only a name and a script.
        live_test: Test that lets it act on real Spark, as ``file::function``; None in benchmarks.
    """

    name: str
    paper: str
    source: str
    module: str
    spec: dict[str, Any] | None = None
    base: str | None = None
    live_test: str | None = Field(None, pattern=r"^tests/[\w/]+\.py::test_\w+$")

    @property
    def is_only_measured(self) -> bool:
        """Whether it runs only in benchmarks."""
        return self.module.startswith(BENCHMARKS)

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.is_only_measured and (self.spec or self.live_test):
            raise ValueError(f"{self.name}: runs only in benchmarks, so leave spec and live_test out")
        if not self.is_only_measured and (self.spec is None or self.live_test is None):
            raise ValueError(f"{self.name}: needs spec and live_test, or a module in benchmarks")
        return self


class Published(_Strict):
    """Functions that scripts use without the rest of Millrace.

    Attributes:
        module: Package that publishes them.
        example: Shipped script that uses them, below ``include/millrace/pipelines/examples``.
        names: Functions that the script uses.
    """

    module: str
    example: str
    names: tuple[str, ...]


class Table(_Strict):
    """The whole file.

    Attributes:
        papers: Title of each paper by its key.
        algorithms: The rows.
        published: What is published for use alone.
        unreached: Why a module is reached by no pipeline, by module.
    """

    papers: dict[str, str]
    algorithms: tuple[Algorithm, ...]
    published: tuple[Published, ...]
    unreached: dict[str, str]

    @model_validator(mode="after")
    def _papers_are_known(self) -> Self:
        unknown = {row.paper for row in self.algorithms} - self.papers.keys()
        if unknown:
            raise ValueError(f"paper: {', '.join(sorted(unknown))}; allowed: {', '.join(self.papers)}")
        return self


def table() -> Table:
    """Return what algorithms.yaml says."""
    return Table.model_validate(read_file(FILE))


def document(of: Table) -> str:
    """Return the page."""
    return "\n".join([HEAD, *_papers(of), *_published(of), *_unreached(of)])


def flow(value: Any) -> str:
    """Return a part of a spec as YAML in one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {flow(of)}" for key, of in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if value == math.inf:
        return ".inf"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _papers(of: Table) -> Iterator[str]:
    for key, title in of.papers.items():
        yield from (f"## {key}", "", f"{title}.", "", COLUMNS)
        yield from (_row(row) for row in of.algorithms if row.paper == key)
        yield ""


def _row(row: Algorithm) -> str:
    if row.is_only_measured:
        spec, test = "benchmarks only", ""
    else:
        spec = ", ".join(f"`{key}: {flow(part)}`" for key, part in (row.spec or {}).items())
        test = f"`{row.live_test}`"
    return f"| {row.name} | {row.source} | `{row.module}` | {spec} | {test} |"


def _published(of: Table) -> Iterator[str]:
    yield from ("## Published for use alone", "", "| functions | of | example |", "|---|---|---|")
    for each in of.published:
        names = ", ".join(f"`{name}`" for name in each.names)
        yield f"| {names} | `{each.module}` | `{each.example}` |"
    yield ""


def _unreached(of: Table) -> Iterator[str]:
    if of.unreached:
        yield from ("## In no pipeline yet", "", "| module | why |", "|---|---|")
        yield from (f"| `{module}` | {why} |" for module, why in of.unreached.items())
        yield ""


if __name__ == "__main__":
    DOCUMENT.write_text(document(table()), encoding="utf-8")
