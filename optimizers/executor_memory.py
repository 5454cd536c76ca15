"""Give executors more memory, once, if they die of too little.

Not from a paper. One more restart is worth it if executors keep dying. A second would hide a problem that a person must
solve: a leak, or a partition too large for any executor.
"""

from __future__ import annotations

from millrace.optimizers.api import Change, Deployment, Memory, Options, Proposal, Signals
from millrace.optimizers.memory import mapping, whole

NAME = "executor_memory"
FIELD = "executor_memory_mb"
FEWEST_DEATHS = 2
"""A single death may be a manual kill -9."""
FACTOR = 2


class NoOptions(Options):
    """No options."""


class ExecutorMemory:
    """Double the memory of an app's executors if they die of too little, once per value in its spec.

    Args:
        options: None.
    """

    Options = NoOptions

    def __init__(self, options: NoOptions) -> None:
        self.options = options

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Propose the memory of an executor, and remember the value before it was raised."""
        raised = {app: whole(value) for app, value in mapping(memory.get("raised_from")).items()}
        for app in signals.apps:
            deployed = current.apps.get(app.app)
            size = deployed.executor if deployed is not None else None
            if size is None or app.memory_deaths < FEWEST_DEATHS:
                continue
            before = size.memory_mb
            died = f"{app.memory_deaths} executors with {before:,} MB ran out of memory"
            start = raised.get(app.app)
            if start is not None and before in (start, FACTOR * start):
                remedy = "More memory was tried once: look for a leak or a large key, or set executor in the spec."
                return Proposal(NAME, (), "memory_raised_before", f"{died}. {remedy}"), memory
            change = Change(app.app, FIELD, before, FACTOR * before)
            sentence = f"{died}; they get {FACTOR * before:,} MB, once"
            raised[app.app] = before
            return Proposal(NAME, (change,), "memory_too_small", sentence), {**memory, "raised_from": raised}
        return Proposal(NAME, (), "memory_suffices", ""), memory
