"""Run a PySpark script unchanged, attached to a pipeline: ``python -m millrace.run PIPELINE SCRIPT ARG...``.

spark-submit takes this file in place of the script: ``spark-submit OPTIONS .../millrace/run.py PIPELINE SCRIPT
ARG...``. The lake is that of ``MILLRACE_LAKE``, or of the option ``--lake`` before the pipeline. So is ``--period-s``,
which has to be given if the spec's ``period_s`` is not 60.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

USAGE = "usage: python -m millrace.run [--lake FOLDER_OR_URI] [--period-s SECONDS] PIPELINE SCRIPT [ARG...]"


def main(words: list[str]) -> None:
    """Run the script as the main program; its first session is attached.

    Args:
        words: The command line after the program's name.
    """
    options = {"--lake": "", "--period-s": "60"}
    while words and words[0].startswith("-"):
        name, joined, value = words[0].partition("=")
        if name not in options:
            sys.exit(f"millrace: there is no option {name}. {USAGE}")
        options[name], words = (value, words[1:]) if joined else ("".join(words[1:2]), words[2:])
    if len(words) < 2:
        sys.exit(USAGE)
    try:
        period_s = float(options["--period-s"])
    except ValueError:
        sys.exit(f"millrace: --period-s: got {options['--period-s']!r}; allowed: a number of seconds. {USAGE}")
    pipeline, script, *args = words
    if not Path(script).is_file():
        sys.exit(f"millrace: there is no script {script}. {USAGE}")
    _attach_first_session(pipeline, options["--lake"] or None, period_s)
    sys.argv = [script, *args]
    sys.path.insert(0, str(Path(script).resolve().parent))
    runpy.run_path(script, run_name="__main__")


def _attach_first_session(pipeline: str, lake: str | None, period_s: float) -> None:
    import millrace

    try:
        from millrace.runtime.first_session import on_first_session
    except ImportError as error:
        sys.exit(f"millrace: {error}. PySpark is needed where the script runs.")
    on_first_session(lambda spark: millrace.attach(spark, pipeline, lake, period_s=period_s))


if __name__ == "__main__":
    here = os.fspath(Path(__file__).resolve().parent)
    if sys.path[0] == here:  # started as a file: this folder's modules must hide no others
        sys.path[0] = os.fspath(Path(here).parent)
    main(sys.argv[1:])
