"""Every optimizer in the registry, with default and with changed options."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from typing import ClassVar

from hypothesis import strategies as st

from millrace.model.deployment import ExecutorSize
from millrace.model.key_map import HotKey, KeyMap, KeySample
from millrace.optimizers.conformance import DagConformance, OptimizerConformance
from millrace.optimizers.conformance.builders import APP, NOON, app_signals, capacity, deployment, signals
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
    ratios = st.none() | st.floats(0, 1)
    size = draw(st.sampled_from([None, ExecutorSize(1, 512), ExecutorSize(2, 1024)]))
    plain = deployment(4)
    seen = signals(app_signals(4, 1.0, None, memory_deaths=draw(st.integers(0, 5)), gc_ratio=draw(ratios)))
    return seen, replace(plain, apps={APP: replace(plain.apps[APP], executor=size)})


class TestExecutorMemory(OptimizerConformance):
    name = "executor_memory"
    role = Role.MEMORY
    fields = frozenset({"executor_memory_mb"})
    situations = dying_executors()


@st.composite
def limited_batches(draw: st.DrawFn) -> Situation:
    """An app whose batches may be too small, with or without permission to make them larger."""
    limits = draw(st.sampled_from([{}, {"maxFilesPerTrigger": 10}, {"maxOffsetsPerTrigger": 10**6}]))
    app = app_signals(
        4,
        draw(st.floats(0, 200)),
        draw(st.sampled_from([None, capacity(4, 200.0, fixed_s=3.0)])),
        batch_rows_limit=draw(st.sampled_from([None, 1, 200, 10**6])),
        batch_limits=limits,
        trigger_s=draw(st.sampled_from([0.0, 600.0])),
    )
    plain = deployment(4)
    submit = {"tune_batches": draw(st.booleans())}
    return signals(app), replace(plain, apps={APP: replace(plain.apps[APP], submit=submit)})


class TestBatchLimits(OptimizerConformance):
    name = "batch_limits"
    role = Role.BATCHES
    fields = frozenset({"batch_limit"})
    situations = limited_batches()


@st.composite
def keys(draw: st.DrawFn) -> Situation:
    """A query that may spread skewed keys, with a map that may fit."""
    rows = draw(st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.integers(1, 9000), max_size=6))
    hot = tuple(HotKey(key, f"key {key}", n) for key, n in sorted(rows.items(), key=lambda of: -of[1]))
    total = sum(rows.values()) + draw(st.integers(0, 9000))
    seen = signals(app_signals(4, 1.0, None), until=NOON + timedelta(seconds=draw(st.integers(0, 90))))
    sample = KeySample(APP, APP, 1, NOON, "areas", ("area",), draw(st.integers(1, 8)), None, total, hot)
    maps = {"areas": KeyMap(1, draw(st.sampled_from([("area",), ("city",)])), draw(st.integers(1, 8)))}
    plain = deployment(4)
    return replace(seen, keys=draw(st.sampled_from([(), (sample,)]))), replace(
        plain, partitioning=draw(st.sampled_from([{}, maps]))
    )


class TestPartitionMaps(OptimizerConformance):
    name = "waterfill"
    role = Role.PARTITIONING
    fields = frozenset({"partition_map"})
    situations = keys()


class TestPartitionMapsAsPublished(TestPartitionMaps):
    section: ClassVar = {"method": "paper_hash"}


def test_registry_contains_only_optimizers_that_the_suite_tests() -> None:
    suites = [kind for kind in globals().values() if isinstance(kind, type) and issubclass(kind, OptimizerConformance)]
    named = {getattr(suite, "name", None) for suite in suites} - {None}
    assert named == {registration.name for registration in registered()}
