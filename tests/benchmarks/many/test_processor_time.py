"""Processor time by service, from what the kernel reports of processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from benchmarks.many.processor_time import Meter, ProcessTime, parse_stat, read_processes, total_by_service

STAT = "42 (a (b) c) S 7 40 39 0 -1 4194304 1 2 3 4 150 50 300 100 20 0 1 0 12345 1000 10"
BURN = "import time\nwhile time.process_time() < 0.5: pass"


def test_line_of_the_kernel_is_parsed_whatever_the_process_is_called() -> None:
    assert parse_stat(STAT, 100) == ProcessTime(42, 7, 39, 2.0, 4.0)


def test_children_and_what_they_leave_count_for_their_service() -> None:
    processes = [
        ProcessTime(1, 0, 1, 100.0, 100.0),
        ProcessTime(10, 1, 10, 1.0, 50.0),  # starts the services, and has collected one
        ProcessTime(20, 10, 20, 2.0, 3.0),
        ProcessTime(21, 20, 21, 4.0, 0.0),  # a child with a session of its own
        ProcessTime(22, 1, 20, 5.0, 0.0),  # its parent has ended
        ProcessTime(30, 10, 30, 6.0, 0.0),
    ]
    leaders = {10: "supervisor", 20: "scheduler", 30: "triggerer", 99: "gone"}
    assert total_by_service(processes, leaders, 10) == {"supervisor": 1.0, "scheduler": 14.0, "triggerer": 6.0}


def test_meter_adds_increases_and_ignores_time_that_disappears() -> None:
    samples = iter([{"a": 5.0}, {"a": 7.0, "b": 1.0}, {"a": 3.0, "b": 2.5}, {"a": 4.0}])
    meter = Meter(lambda: next(samples))
    for _ in range(4):
        meter.advance()
    assert meter.used_s == {"a": 3.0, "b": 1.5}


def test_process_that_ends_between_two_samples_is_counted() -> None:
    meter = Meter(lambda: total_by_service(read_processes(), {os.getpid(): "this"}))
    meter.advance()
    subprocess.run([sys.executable, "-c", BURN], check=True)
    meter.advance()
    assert meter.used_s["this"] >= 0.45, "the kernel counts in ticks"


def test_meter_samples_at_both_ends_of_a_block() -> None:
    began = time.process_time()
    with (meter := Meter(lambda: {"this": time.process_time()})).running():
        while time.process_time() < began + 0.05:
            pass
    assert meter.used_s["this"] == pytest.approx(time.process_time() - began, abs=0.05)
