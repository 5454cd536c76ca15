"""How well a surrogate predicts the processing ability of a level that was never measured.

Each level of a published table is left out in turn, with all its repeats, and predicted from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from millrace.optimizers.conttune.surrogate import fit as fit_flow
from millrace_rivals.conttune.surrogate import fit as fit_paper

Table = Mapping[int, Sequence[float]]
"""Repeated measurements by p, rows per second."""

Training = Mapping[str, Sequence[float]]
Predict = Callable[[Training, int], float]
"""Returns PA(p), rows per second, from columns ``parallelism`` and ``throughput``."""


def _flow(training: Training, p: int) -> float:
    return float(fit_flow(training).predict([p])[0][0])


def _gp(kind: str) -> Predict:
    return lambda training, p: float(fit_paper(training, kind).predict([[p]])[0])


SURROGATES: Mapping[str, Predict] = {"flow": _flow, "conttune_3": _gp("rbf"), "rbf_white": _gp("rbf_white")}
"""By method: flow's, the authors', and the authors' on normalised values with a noise term."""


def errors(table: Table, predict: Predict) -> list[float]:
    """Return the relative error of each level's prediction, by rising p.

    Args:
        table: At least two levels.
        predict: The surrogate.
    """
    means = {p: fmean(values) for p, values in sorted(table.items())}
    return [abs(predict(_training(means, p), p) / truth - 1) for p, truth in means.items()]


def _training(means: Mapping[int, float], without: int) -> Training:
    kept = {p: mean for p, mean in means.items() if p != without}
    return {"parallelism": [float(p) for p in kept], "throughput": list(kept.values())}
