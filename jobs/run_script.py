"""Started by spark-submit for every app: runs a user's script unchanged, with Millrace around it."""

from __future__ import annotations

import sys
from pathlib import Path

# this folder's modules must hide no others, and a user's modules win over ours of the same name
sys.path[:] = [*sys.path[1:], str(Path(__file__).resolve().parents[1] / "include")]

from millrace.model.errors import MillraceError  # noqa: E402
from millrace.run_folder.arguments import parse  # noqa: E402
from millrace.runtime.lifecycle import Driver  # noqa: E402

if __name__ == "__main__":
    try:
        Driver(parse(sys.argv[1:])).run()
    except MillraceError as error:
        sys.exit(str(error))
