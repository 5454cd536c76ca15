"""Data Docs of the gate: kept on every new kind of refusal and every few hours, not at every evaluation."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from millrace.control.quality.expectations import suite as suite_of
from millrace.control.quality.measures import Part, without_bars

LOG = logging.getLogger(__name__)

EVERY_S = 6 * 3600.0
"""Least time between two builds without news: a build takes twenty times as long as judging."""

KEEP_RUNS = 40
"""Results to keep per suite; the index is built from all of them."""


@dataclass(frozen=True)
class DataDocs:
    """One pipeline's Great Expectations file context and its Data Docs.

    Args:
        folder: The pipeline's own folder; results and pages are in its ``gx/uncommitted``.
    """

    folder: Path

    @property
    def index(self) -> Path:
        """The page to open."""
        return self.folder / "gx" / "uncommitted" / "data_docs" / "local_site" / "index.html"

    def keep(self, parts: Sequence[Part], problems: Sequence[str], now: datetime) -> None:
        """Store the result and build the pages if there is news.

        Pages that cannot be written never stop an evaluation: the old ones stay.

        Args:
            parts: What was judged.
            problems: What each failed expectation is about, without values.
            now: The present (UTC).
        """
        try:
            if self._due(problems, now):
                self._build(parts)
                self._prune()
                self._marker.write_text(json.dumps({"time": now.timestamp(), "problems": list(problems)}), "utf-8")
        except Exception:
            LOG.warning("the Data Docs in %s could not be written", self.folder, exc_info=True)

    @property
    def _marker(self) -> Path:
        return self.folder / "last_build.json"

    def _due(self, problems: Sequence[str], now: datetime) -> bool:
        if not self._marker.exists() or not self.index.exists():
            return True
        last = json.loads(self._marker.read_text("utf-8"))
        if problems and list(problems) != last["problems"]:
            return True
        return bool(now.timestamp() - last["time"] >= EVERY_S)

    def _build(self, parts: Sequence[Part]) -> None:
        import great_expectations as gx
        from great_expectations.checkpoint import UpdateDataDocsAction

        context = self._context()
        source = context.data_sources.add_or_update_pandas("lake")
        for part in parts:
            name = part.name.replace("/", "_")
            asset = source.add_dataframe_asset(name)
            rows = asset.add_batch_definition_whole_dataframe("since the last evaluation")
            suite = context.suites.add_or_update(suite_of(name, part.suite))
            definition = gx.ValidationDefinition(name=name, data=rows, suite=suite)
            checkpoint = gx.Checkpoint(
                name=name,
                validation_definitions=[context.validation_definitions.add_or_update(definition)],
                actions=[UpdateDataDocsAction(name="pages")],
                result_format={"result_format": "SUMMARY", "unexpected_index_column_names": list(part.key)},
            )
            context.checkpoints.add_or_update(checkpoint).run(batch_parameters={"dataframe": part.frame})

    def _context(self) -> Any:
        import great_expectations as gx

        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # the pages show values
        return without_bars(gx.get_context(mode="file", project_root_dir=str(self.folder)))

    def _prune(self) -> None:
        uncommitted = self.folder / "gx" / "uncommitted"
        for results in (uncommitted / "validations", self.index.parent / "validations"):
            for suite in results.glob("*/*"):
                runs = sorted((run for run in suite.iterdir() if run.is_dir()), key=lambda run: run.name)
                for old in runs[:-KEEP_RUNS]:
                    shutil.rmtree(old, ignore_errors=True)
