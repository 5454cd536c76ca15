"""Reconciles in a process that kills itself with -9 before or after a named call: ``ROOT OWNER CALL WHEN``."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.include.drivers.plant_of_doubles import DoublesPlant


def arm(owner: str, call: str, when: str) -> None:
    module, _, name = owner.partition(":")
    target = importlib.import_module(module)
    target = getattr(target, name) if name else target
    original = getattr(target, call)

    def deadly(*args: Any, **options: Any) -> Any:
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*args, **options)
        os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(target, call, deadly)


if __name__ == "__main__":
    root, owner, call, when = sys.argv[1:]
    arm(owner, call, when)
    DoublesPlant(Path(root)).reconciler().reconcile()
