"""Where Millrace is, and the folder that is its home."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
"""The package ``millrace``, with what Airflow and spark-submit are given by path."""
SOURCES = PACKAGE.parent
"""The folder that Python imports it from."""
REPO = SOURCES.parent
"""The checkout, where there is one: see ``IN_CHECKOUT``."""
IN_CHECKOUT = (REPO / "requirements.lock").is_file()
"""False where it was installed into an environment, such as that of an Airflow."""


def home_folder() -> Path:
    """Return the folder that ``MILLRACE_HOME`` names.

    By default it is ``var`` in the checkout, or ``millrace`` in the home of the Airflow that it was installed beside.
    """
    beside = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow") / "millrace"
    named = os.environ.get("MILLRACE_HOME") or (REPO / "var" if IN_CHECKOUT else beside)
    return Path(named).expanduser().resolve()
