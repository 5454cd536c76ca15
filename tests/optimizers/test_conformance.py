"""Every optimizer in the registry, with default and with changed options."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

from hypothesis import strategies as st

from millrace.model.deployment import ExecutorSize
from millrace.optimizers.conformance import DagConformance, OptimizerConformance
from millrace.optimizers.conformance.builders import APP, app_signals, deployment, signals
from millrace.optimizers.conformance.situations import Situation, joins, partition_loads, streams
from millrace.optimizers.drfm.options import HorizonMethodOptions, PaperMethodOptions
from millrace.optimizers.esj.options import EsjOptions
from millrace.optimizers.registry import Role, registered

JOIN_FIELDS = frozenset({"slots", "join_workers", "block_size", "shed_ratio"})


# ---- tuners


class TestFlow(DagConformance):
    name = "flow"


class TestFlowOtherwise(DagConformance):
    name = "flow"
    section: ClassVar = {
        **dict.fromkeys(("catch_up", "drift", "fluctuation", "whole_windows", "source_splits"), False),
        **{"risk": 0.5, "slack": 0.0, "reshave": 0.0, "tolerance": 0.0, "reach": 1, "top_k": 1},
        **{"proactive": True, "ineffective_thr": 0},
    }


class TestContTuneLiteral(DagConformance):
    name = "conttune"


class TestContTuneStrong(DagConformance):
    name = "conttune"
    section: ClassVar = {"preset": "strong"}


class TestContTuneLinear(DagConformance):
    name = "conttune"
    section: ClassVar = {"small": "linear"}


class TestContTuneCei(DagConformance):
    """A combination of options outside every preset."""

    name = "conttune"
    section: ClassVar = {
        **{"acquisition": "cei", "alpha": math.inf, "surrogate": "rbf_white"},
        **{"big": False, "headroom": 0.2},
    }


class TestDs2(DagConformance):
    name = "ds2"


class TestDs2AsPublished(DagConformance):
    name = "ds2"
    section: ClassVar = {"rates": "producer", "known_arrival_rate": False, "factor": 0.1, "decision_thr": 0.1}


class TestDs2WithStopRule(DagConformance):
    name = "ds2"
    section: ClassVar = {"stop_rule": True}


class TestDhalion(DagConformance):
    name = "dhalion"


class TestRandomSearch(DagConformance):
    name = "random"


class TestRandomSearchWithoutArrivalRate(DagConformance):
    name = "random"
    section: ClassVar = {"known_arrival_rate": False, "p_max": 4}


class TestDragster(DagConformance):
    name = "dragster"


class TestDragsterWithOneModel(DagConformance):
    name = "dragster"
    section: ClassVar = {"per_rate": False}


class TestAlbic(OptimizerConformance):
    name = "albic"
    role = Role.PLACEMENT
    fields = frozenset({"placement"})
    situations = partition_loads()


class TestDrfm(OptimizerConformance):
    name = "drfm"
    role = Role.ADMISSION
    section: ClassVar = {"capacity": 1.0}
    fields = frozenset()
    option_names = tuple(HorizonMethodOptions.model_fields)
    situations = streams()


class TestDrfmThatRedirects(OptimizerConformance):
    name = "drfm"
    role = Role.ADMISSION
    section: ClassVar = {"capacity": 1.0, "ingest": ("north", "south"), "options": {"method": "drfm"}}
    fields = frozenset({"ingest"})
    option_names = tuple(PaperMethodOptions.model_fields)
    situations = streams()


class TestEsj(OptimizerConformance):
    name = "esj"
    role = Role.JOIN
    section: ClassVar = {"capacity": 1000, "window_s": 60.0}
    fields = JOIN_FIELDS
    option_names = tuple(EsjOptions.model_fields)
    situations = joins()


class TestEsjLiteral(TestEsj):
    section: ClassVar = {
        "capacity": 1000,
        "window_s": 60.0,
        "options": {"trigger": "window", "block_size": "literal", "shedding": "quadratic", "lasts_s": 0, "cool_s": 0},
    }


@st.composite
def dying_executors(draw: st.DrawFn) -> Situation:
    """An app whose executors may have died of memory."""
    size = draw(st.sampled_from([None, ExecutorSize(1, 512), ExecutorSize(2, 1024)]))
    plain = deployment(4)
    seen = signals(app_signals(4, 1.0, None, memory_deaths=draw(st.integers(0, 5))))
    return seen, replace(plain, apps={APP: replace(plain.apps[APP], executor=size)})


class TestExecutorMemory(OptimizerConformance):
    name = "executor_memory"
    role = Role.MEMORY
    fields = frozenset({"executor_memory_mb"})
    situations = dying_executors()


def test_registry_contains_only_optimizers_that_the_suite_tests() -> None:
    suites = [kind for kind in globals().values() if isinstance(kind, type) and issubclass(kind, OptimizerConformance)]
    named = {getattr(suite, "name", None) for suite in suites} - {None}
    assert named == {registration.name for registration in registered()}
