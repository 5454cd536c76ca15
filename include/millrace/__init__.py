"""Millrace. Its optimizers, plugins, DAGs and jobs lie at the top of the repository and are linked into this folder."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)
_DRIVER = "/path/to/a/clone/of/millrace[driver]"


def attach(spark: SparkSession, pipeline: str, lake: str | None = None, *, period_s: float = 60.0) -> None:
    """Let Millrace measure and adapt the streaming queries of this application; returns at once and never raises.

    Call it once, before or after the queries start. The spec of the pipeline needs ``submit: {launcher: external}``.
    See docs/attach.md.

    Args:
        spark: The application's session.
        pipeline: Name of the pipeline.
        lake: The lake's folder or URI, as in ``MILLRACE_LAKE``, which is the default.
        period_s: The spec's ``period_s``, seconds; telemetry is written three times per period.
    """
    _show_messages()
    lake = lake or os.environ.get("MILLRACE_LAKE")
    try:
        if not lake:
            _LOG.warning(
                "%s: this driver is not attached: no lake. Pass lake=, or set MILLRACE_LAKE. The job continues.",
                pipeline,
            )
            return
        from millrace.runtime.attach import start

        start(spark, pipeline, lake, period_s)
    except ImportError as error:
        remedy = f"{sys.executable} -m pip install '{_DRIVER}'"
        _LOG.warning(
            "%s: this driver is not attached: %s. Run: %s. The job continues.", pipeline, str(error).rstrip("."), remedy
        )
    except Exception as error:  # whatever is wrong with Millrace must not end the job
        _LOG.warning("%s: this driver is not attached: %s. The job continues.", pipeline, error)


def _show_messages() -> None:
    """Print Millrace's messages if the script has not set up logging."""
    logger = logging.getLogger("millrace")
    if not logger.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s millrace: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
