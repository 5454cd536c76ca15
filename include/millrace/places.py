"""Where Millrace is installed, and its home folder."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
"""The package ``millrace``, including what Airflow and spark-submit get by path."""
SOURCES = PACKAGE.parent
"""The folder from which Python imports it."""
REPO = SOURCES.parent
"""The checkout, if there is one: see ``IN_CHECKOUT``."""
IN_CHECKOUT = (REPO / "requirements.lock").is_file()
"""False if it was installed into an environment, such as that of an Airflow."""


def home_folder() -> Path:
    """Return the folder that ``MILLRACE_HOME`` names.

    By default it is ``var`` in the checkout, or ``millrace`` in the home of the Airflow that it was installed into.
    """
    beside = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow") / "millrace"
    named = os.environ.get("MILLRACE_HOME") or (REPO / "var" if IN_CHECKOUT else beside)
    return Path(named).expanduser().resolve()
