"""Ways to size the app: ours live, and each rival with its best honest settings; all run the same script and executors.

A rival without the agent is deployed as an app without ``executor``: Spark keeps all its own settings, and a change of
slots restarts the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from millrace.drivers.executor_conf import CLUSTER, executor_conf, local_executor_conf
from millrace.model.deployment import Deployment
from millrace.model.master import EMBEDDED, LOCAL
from millrace.model.spec import PipelineSpec
from millrace.model.spec_sections import Slots
from millrace.model.submit_options import SubmitOptions
from millrace.pipelines.catalog import BUILT_IN, load
from millrace.places import SOURCES

SCRIPTS = BUILT_IN.with_name("scripts")
TRIGGER_S = 3.0
"""Trigger interval of ``batch_ratio``, its reference for batch times: short against the lag goal of 20 s."""
HPA_TARGET = 0.15
"""Target processor use per core of ``hpa_cpu``: rows that wait for a look-up leave most of a core idle."""
LEAST_SLOTS, MOST_SLOTS = 2, 8
MAX_FILES = 256
"""Files of a full batch. Nine arrive per second, so at the script's default of 64 a batch has to end within 7 s, or no
size can ever catch up: the limit would be measured instead of the methods."""
DYNAMIC = "spark.dynamicAllocation."
LOCALITY = "spark.locality."
SPARK_PLACES = {
    "spark.locality.wait": "3s",
    "spark.shuffle.reduceLocality.enabled": "true",
}
"""Spark's defaults for settings that ours changes."""
DRA_TUNED = {
    f"{DYNAMIC}enabled": "true",
    f"{DYNAMIC}executorIdleTimeout": "10s",
    f"{DYNAMIC}shuffleTracking.timeout": "10s",
    "spark.locality.wait": "0",
}
"""An executor goes after a few batches without work, and work spreads to new executors. With shorter timeouts executors
go in mid-batch, with shuffle output that is still needed."""


@dataclass(frozen=True)
class Method:
    """A way to size the app.

    Attributes:
        name: The method.
        policy: Arguments of its controller process; empty without a controller.
        agent: Whether our agent changes executors while the query runs.
        master: Spark master.
        conf: Its own Spark settings.
        trigger_s: Trigger interval, seconds; 0 for as soon as possible.
        slots: Initial slots; None for the fewest.
        dynamic: Whether Spark's own dynamic allocation is on, between the spec's bounds.
    """

    name: str
    policy: tuple[str, ...] = ()
    agent: bool = False
    master: str = EMBEDDED
    conf: Mapping[str, str] = field(default_factory=dict)
    trigger_s: float = 0.0
    slots: int | None = None
    dynamic: bool = False


LIVE = Method("live", ("live",), agent=True)
RIVALS = (
    Method("spark_dra_tuned", conf=DRA_TUNED, dynamic=True),
    Method("batch_ratio", ("ratio", f"{TRIGGER_S:g}"), agent=True, trigger_s=TRIGGER_S),
    Method("hpa_cpu", ("hpa", f"{HPA_TARGET:g}"), agent=True),
    Method("restart_local", ("live",), master=LOCAL),
    Method("restart_cluster", ("live",)),
)


def fixed(name: str, slots: int) -> Method:
    """Return a method that never changes its slots."""
    return Method(name, slots=slots)


def spec_for(home: str, method: Method, wait_ms: float, period_s: float) -> PipelineSpec:
    """Return the spec of the built-in pipeline for a method.

    Args:
        home: The home's folder.
        method: The method.
        wait_ms: Duration of a row's look-up.
        period_s: Seconds between two evaluations.
    """
    spec = load(BUILT_IN / "delays.yaml", {"MILLRACE_HOME": home})
    kept = (argument for argument in spec.args if not argument.startswith("--wait-ms"))
    options = (f"--wait-ms={wait_ms:g}", f"--trigger-s={method.trigger_s:g}", f"--max-files={MAX_FILES}")
    slots = Slots(min=LEAST_SLOTS, max=MOST_SLOTS, start=method.slots or LEAST_SLOTS)
    changed = {
        "args": (*kept, *options),
        "submit": spec.submit.model_copy(update={"master": method.master}),
        "slots": slots,
        "max_parallelism": MOST_SLOTS,
        "period_s": period_s,
        "profile": None,
        "placement": None,
        "admission": None,
    }
    return spec.model_copy(update=changed)


def first_deployment(spec: PipelineSpec, method: Method, options: SubmitOptions) -> Deployment:
    """Return a method's initial Deployment."""
    first = spec.first_deployment()
    return first if method.agent or method.master == LOCAL else without_agent(spec, first, method, options)


def without_agent(spec: PipelineSpec, first: Deployment, method: Method, options: SubmitOptions) -> Deployment:
    """Return a Deployment with Spark-managed executors: the same size and start as ours, and Spark's own placement."""
    app = first.apps[spec.app]
    if app.executor is None:
        return first
    local = local_executor_conf(options.conf, (SCRIPTS, SOURCES))
    same = {**CLUSTER, **executor_conf(app, app.executor), **local}
    conf = {key: value for key, value in same.items() if not key.startswith((DYNAMIC, LOCALITY))}
    conf |= SPARK_PLACES
    if method.dynamic:
        conf |= {
            "spark.cores.max": str(spec.slots.max),
            f"{DYNAMIC}minExecutors": str(app.executors),
            f"{DYNAMIC}initialExecutors": str(app.executors),
            f"{DYNAMIC}maxExecutors": str(spec.slots.max // app.slots_per_executor),
        }
    submit = {**app.submit, "conf": {**conf, **spec.submit.conf, **method.conf}}
    return replace(first, apps={spec.app: replace(app, executor=None, submit=submit)})
