"""The controller's job states and conditions for tuning ([ContTune], Section 7).

backPressurePer -> ``backpressured_ratio``, System.CPU.Usage -> ``slot_busy_ratio``.

Deviation: CPU is the app's occupied task-slot time, waits included. An operator that waits for another system leaves
the processor idle, and would never count as under-provisioned by its CPU usage.
"""

from __future__ import annotations

from enum import StrEnum

from optimizers.conttune.paper.options import Options


class State(StrEnum):
    """What a job is, as far as tuning goes."""

    UNDER = "under-provisioned"
    NORMAL = "well-provisioned"
    OVER = "over-provisioned"
    UNKNOWN = "unknown"


class Cpu(StrEnum):
    """The paper's cpuLow, cpuNormal, cpuStress."""

    LOW = "cpuLow"
    NORMAL = "cpuNormal"
    STRESS = "cpuStress"


def cpu_state(slot_busy_ratio: float, options: Options) -> Cpu:
    """Return the state of a slot-busy ratio, 0..1; both thresholds belong to cpuNormal."""
    if slot_busy_ratio < options.core_min_thr:
        return Cpu.LOW
    return Cpu.STRESS if slot_busy_ratio > options.core_max_thr else Cpu.NORMAL


def backpressured(backpressured_ratio: float, options: Options) -> bool:
    """Say whether a job is in the backpressure state: backPressurePer >= backpressureThr."""
    return backpressured_ratio >= options.backpressure_thr


def job_state(backpressured_ratio: float | None, slot_busy_ratio: float | None, options: Options) -> State:
    """Return the state of a job: both metrics must agree that it is over- or under-provisioned.

    Args:
        backpressured_ratio: 0..1; None if unknown.
        slot_busy_ratio: 0..1; None if unknown.
        options: The thresholds.
    """
    if backpressured_ratio is None or slot_busy_ratio is None:
        return State.UNKNOWN
    pressed, cpu = backpressured(backpressured_ratio, options), cpu_state(slot_busy_ratio, options)
    if pressed and cpu is Cpu.STRESS:
        return State.UNDER
    if not pressed and cpu is Cpu.LOW:
        return State.OVER
    return State.NORMAL
