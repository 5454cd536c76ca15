"""Reconciles real drivers in a process that kills itself with -9: ``ROOT OWNER CALL WHEN``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.include.drivers.killed_reconciler import arm
from tests.include.drivers.test_reconciler_spark import Plant

if __name__ == "__main__":
    root, owner, call, when = sys.argv[1:]
    arm(owner, call, when)
    Plant(Path(root)).reconciler().reconcile()
