"""Executors by processor use: Kubernetes' HorizontalPodAutoscaler rule with executors as pods.

wanted = ceil(executors x use / target), with no change within a tolerance of 0.1. It scales down only to the highest
number wanted within the stabilisation window. Evaluations run every 15 s. The window is the rival's best setting on
streams that last minutes: the default of 300 s would never scale down.
"""

from __future__ import annotations

import math
from collections import deque
from contextlib import suppress

import psutil

LOOK_S = 15.0
TOLERANCE = 0.1
STABLE_S = 30.0


class Hpa:
    """The rule with its window.

    Args:
        target: Target processor use per executor core, > 0.
        cores: Cores of an executor.
        least: Fewest executors.
        most: Most executors.
    """

    def __init__(self, target: float, cores: int, least: int, most: int) -> None:
        self._target, self._cores, self._least, self._most = target, cores, least, most
        self._wanted: deque[tuple[float, int]] = deque()

    def executors_for(self, now_s: float, used: float, executors: int) -> int:
        """Return the next number of executors.

        Args:
            now_s: Time of the evaluation, seconds of any steady clock.
            used: Processor seconds per second of all executors.
            executors: Current executors, >= 1.
        """
        ratio = used / (executors * self._cores) / self._target
        wanted = executors if abs(ratio - 1) <= TOLERANCE else math.ceil(executors * ratio)
        wanted = min(max(wanted, self._least), self._most)
        self._wanted.append((now_s, wanted))
        while self._wanted[0][0] < now_s - STABLE_S:
            self._wanted.popleft()
        return wanted if wanted >= executors else min(executors, max(n for _, n in self._wanted))


class ProcessorUse:
    """Processor seconds per second of all processes whose command line contains a word, including their children.

    Args:
        word: The word.
    """

    def __init__(self, word: str) -> None:
        self._word = word
        self._spent: dict[psutil.Process, float] = {}

    def since_last(self, seconds: float) -> float:
        """Return the use since the last call, which was this many seconds ago; ended processes are left out."""
        spent: dict[psutil.Process, float] = {}
        for process in psutil.process_iter(["cmdline"]):
            if any(self._word in part for part in process.info["cmdline"] or ()):
                with suppress(psutil.NoSuchProcess):
                    for each in (process, *process.children(recursive=True)):
                        times = each.cpu_times()
                        spent[each] = times.user + times.system
        used = sum(value - self._spent.get(process, 0.0) for process, value in spent.items())
        self._spent = spent
        return used / seconds if seconds > 0 else 0.0
