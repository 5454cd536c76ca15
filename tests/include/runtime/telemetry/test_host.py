"""Processor time of the host and of a process tree."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from millrace.runtime.telemetry.host import HostCpu

BURN_S = 0.5


def burn() -> None:
    end = time.thread_time() + BURN_S
    while time.thread_time() < end:
        pass


def test_own_ratio_when_this_process_works_then_the_time_is_its_own() -> None:
    host, begin = HostCpu(os.getpid()), time.time()
    burn()
    host.sample()
    elapsed_s = time.time() - begin
    assert host.own_ratio(begin) * elapsed_s > BURN_S * 0.9
    assert host.up_s > 0 and host.rss_bytes() > 1_000_000


def test_other_ratio_when_another_process_works_then_the_time_is_its() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as idle:
        host, begin = HostCpu(idle.pid), time.time()
        burn()  # not in the tree of the idle process
        host.sample()
        end = time.time()
        assert host.other_ratio(begin, end) * (end - begin) * psutil.cpu_count() > BURN_S * 0.9
        idle.stdin.close()


def test_time_of_this_process_counts_after_the_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    host, true_time = HostCpu(os.getpid()), time.time
    monkeypatch.setattr(time, "time", lambda: true_time() - 3600)
    host.sample()
    before, begin = host.own_s, time.time()
    burn()
    host.sample(newer_than_s=BURN_S / 10)
    assert host.own_s - before > BURN_S * 0.9
    assert host.own_ratio(begin) > 0


def test_other_ratio_between_samples_is_interpolated() -> None:
    host, begin = HostCpu(os.getpid()), time.time()
    burn()
    host.sample()
    whole = host.other_ratio(begin, time.time())
    assert whole is not None and 0 <= whole <= 1
    assert host.other_ratio(begin, begin) is None
