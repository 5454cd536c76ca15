"""Where a server that a test has started listens, as its log says."""

from __future__ import annotations

import re
import subprocess
from typing import TextIO

from tests.jobs.driving import until


def address_in(log: TextIO, process: subprocess.Popen[bytes], pattern: re.Pattern[str]) -> str:
    """Wait until a server listens, and return its address; fail with its log if it ends before that.

    Args:
        log: The file that it writes to.
        process: The server.
        pattern: Its first group is the address.
    """

    def found() -> re.Match[str] | None:
        log.seek(0)
        return pattern.search(log.read())

    until(lambda: found() or process.poll() is not None, "the server listens, or has ended")
    address = found()
    log.seek(0)
    assert address, log.read()
    return address[1]
