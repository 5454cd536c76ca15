"""The settings of Flink's autoscaler in the benchmark, and why they are fair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millrace.model.errors import MillraceError

PREFIX = "job.autoscaler."


@dataclass(frozen=True)
class FlinkSettings:
    """One configuration.

    Flink's defaults are made for evaluations every few seconds, windows of a quarter of an hour and restarts of
    minutes. The simulated plant is evaluated once per period and restarts in seconds. It would be half through its
    workload before the default window is full. So all times follow the plant, and only the two settings that trade
    cores for calm are varied.

    Attributes:
        target_utilisation: Target busy share of a change, (0, 1]; Flink's default 0.7.
        boundary: How far an operator may drift from it without a change, [0, 1]; Flink's default 0.3.
        window_looks: Evaluations in the metric window, >= 1. Flink computes rates from pairs of collections, so a
            window of n evaluations holds n + 1 collections and is full n + 1 evaluations after a restart. It averages
            the window: a longer window reduces noise, but after a step of the load its decisions rest on a half-old
            window. Default 1: of 1, 2 and 3, it mostly needs the fewest changes and makes the fewest too small ones,
            also with three times the noise and on 12 operators; if windows emit in bursts, 3 is better.
        stabilisation_s: Time after a restart in which it evaluates but does not decide, >= 0. Default 0 (Flink: 5 min):
            the simulated plant has no warm-up, and the window makes it wait two evaluations anyway.
        downtime_s: The plant's restart time, >= 0. Flink gets it as its restart time (Flink's default 5 min), it
            determines the job's start time, and Flink sizes for catching up after it.
        catch_up_s: Time in which a backlog must be processed, >= 0; 0 sizes for no backlog. Flink's default, 30 min:
            the shorter it is, the more of a restart's lag enters the next target. 60 s avoids most changes that are too
            small, for 0.2 to 0.27 more of the oracle's core-seconds: another way to add headroom, if needed.
        scale_down_interval_s: How long scale-downs are collected, >= 0. Default 0 (Flink: 1 h, which would keep a job
            over-provisioned through the whole workload if its load changes every few minutes).
        scale_down_factor: Largest share of an operator's p that one change removes, (0, 1]. Default 1 (Flink: 0.6): the
            other tuners may scale down in one step, and 20 -> 8 -> 4 -> 2 would count as three reconfigurations.
        even_load: Whether busy time is averaged over an operator's tasks (Flink's ``AVG``) instead of using the busiest
            task (``MAX``, its default). The simulated tasks are alike, for which Flink recommends the average. With
            ``MAX`` it averages gauges at both ends of the window but computes rates only from the time between them,
            which misjudges the capacity after a step of the load.
        block_ineffective: Whether a scale-up with less than a tenth of its expected gain blocks the next one
            (``scaling.effectiveness.detection.enabled``); Flink's default, False.
    """

    target_utilisation: float = 0.7
    boundary: float = 0.3
    window_looks: int = 1
    stabilisation_s: float = 0.0
    downtime_s: float = 10.0
    catch_up_s: float = 1800.0
    scale_down_interval_s: float = 0.0
    scale_down_factor: float = 1.0
    even_load: bool = True
    block_ineffective: bool = False

    def __post_init__(self) -> None:
        limits = {
            "target_utilisation": ("in (0, 1]", 0 < self.target_utilisation <= 1),
            "boundary": ("in [0, 1]", 0 <= self.boundary <= 1),
            "scale_down_factor": ("in (0, 1]", 0 < self.scale_down_factor <= 1),
            "window_looks": (">= 1", self.window_looks >= 1),
        }
        times = ("stabilisation_s", "downtime_s", "catch_up_s", "scale_down_interval_s")
        limits |= {name: (">= 0, seconds", getattr(self, name) >= 0) for name in times}
        for name, (allowed, holds) in limits.items():
            if not holds:
                raise MillraceError(f"flink.{name}", getattr(self, name), allowed, "Give a value in this range.")

    @property
    def name(self) -> str:
        """The method's name in the benchmark, for example ``flink_0.7_0.3``."""
        return f"flink_{self.target_utilisation:g}_{self.boundary:g}"

    def options(self) -> Mapping[str, str]:
        """Return the same settings as Flink's own configuration; window and bounds are passed with each evaluation."""
        options = {
            "target.utilization": f"{self.target_utilisation}",
            "target.utilization.boundary": f"{self.boundary}",
            "stabilization.interval": _duration(self.stabilisation_s),
            "restart.time": _duration(self.downtime_s),
            "catch-up.duration": _duration(self.catch_up_s),
            "scale-down.interval": _duration(self.scale_down_interval_s),
            "scale-down.max-factor": f"{self.scale_down_factor}",
            "metrics.busy-time.aggregator": "AVG" if self.even_load else "MAX",
            "scaling.effectiveness.detection.enabled": str(self.block_ineffective).lower(),
        }
        return {PREFIX + name: value for name, value in options.items()}


def _duration(seconds: float) -> str:
    return f"{round(seconds * 1000)} ms"


COMPARED = (
    FlinkSettings(),
    FlinkSettings(target_utilisation=0.9, boundary=0.2),
    FlinkSettings(target_utilisation=0.93, boundary=0.07),
    FlinkSettings(target_utilisation=1.0, boundary=0.0),
)
"""From its default to no headroom at all: its frontier of calm against cores."""
