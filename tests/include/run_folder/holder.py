"""A process that takes an app's lock, reports it, optionally forks a child that outlives it, and waits."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from millrace.run_folder.lock import AppLock

lock = AppLock(Path(sys.argv[1]))
print(lock.try_acquire(), flush=True)
if "fork" in sys.argv[2:] and os.fork() == 0:
    print(os.getpid(), flush=True)
time.sleep(3600)
