"""Started by spark-submit for every app: runs a user's script unchanged, with Millrace around it."""

from __future__ import annotations

import sys
from pathlib import Path

# this folder's modules must hide no others, and a user's modules win over ours of the same name
sys.path[:] = [*sys.path[1:], str(Path(__file__).resolve().parents[1] / "include")]

try:
    from millrace.model.errors import MillraceError
    from millrace.run_folder.arguments import parse
    from millrace.runtime.lifecycle import Driver
except ImportError as missing:  # submit.python names an environment without them
    sys.exit(f"{missing}. Run: {sys.executable} -m pip install 'millrace[driver]'")

if __name__ == "__main__":
    try:
        Driver(parse(sys.argv[1:])).run()
    except MillraceError as error:
        sys.exit(str(error))
