"""The start of a broker."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.local.feeds.kafka_broker import KafkaBroker


def test_interrupted_start_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])

    def interrupted(broker: KafkaBroker) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(KafkaBroker, "_spawn", lambda *words: process)
    monkeypatch.setattr(KafkaBroker, "answers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        KafkaBroker(tmp_path, 1).start()
    assert process.returncode == -signal.SIGKILL
