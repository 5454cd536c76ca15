"""Applies what Deployments say about an app's executors while its queries run. It decides nothing.

This includes what Deployments plan for more arrival: :mod:`.contingencies`.

The agent sees a change within a second. New executors are prepared first (:mod:`.executor_warm_up`). Then they get
their share of the state partitions: the one in the Deployment's placement, or else an even one. Executors that leave
first lose their state partitions, so that no task waits for them, and then hand over their other blocks. The cluster
manager replaces a lost executor, and the agent picks up the replacement. No query waits for any of this: the agent runs
in its own thread and retries whatever fails.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from millrace.model.deployment import NOWHERE, AppDeployment, Deployment
from millrace.model.errors import MillraceError
from millrace.model.failure import reason
from millrace.runtime.agent.allocation import Allocation, Executor, Lifetime
from millrace.runtime.agent.departures import Departures, Wait
from millrace.runtime.agent.executor_numbers import ExecutorNumbers, staying
from millrace.runtime.agent.missing_executors import MissingExecutors
from millrace.runtime.agent.placement import Partition, StatePlacement, follow
from millrace.runtime.spark_versions import is_missing, lacks
from millrace.runtime.triggers import interval_s, ran_batch, runs_batch

LOG = logging.getLogger(__name__)
POLL_S = 0.3
REMIND_S = 10.0
"""Interval at which a request is repeated: a restarted master has forgotten how many executors the app wants."""
HOLD_S = 60.0
"""Longest time that a placement may fail to hold before its version is reported anyway."""

MEMORY_S = 60.0
"""Time between two checks of executor memory."""
GROWN = 1.1
"""Growth factor from which an executor's memory is recorded again: a few rows in its lifetime."""

Read = Callable[[], Deployment | None]
Report = Callable[[int, int], None]
"""Takes the newest Deployment's version, and the app's slots: all of them, or as many as the cluster provides."""


Note = Callable[[Lifetime, int | None], None]
"""Takes an executor that registered or ended, and its number."""

Ready = Callable[[Sequence[Executor], bool], Collection[str]]
"""Returns the ids of the executors that may have state partitions; also takes whether a query has run a batch."""


class ExecutorAgent:
    """Keeps the app's executors as the newest Deployment says.

    Attributes:
        problem: Why it has stopped, as a sentence; empty while it works.

    Args:
        app: Name of the app.
        version: Deployment version for which the driver was started.
        content: The app in that version.
        read: Reads the pipeline's newest Deployment.
        allocation: The app's executors.
        placement: Its state partitions.
        queries: Live list of the script's queries.
        report: Called with what has been carried out.
        note: Called with executors that registered or ended.
        ready: Called in each step with the registered executors.
        contingencies: Carries out plans for more arrival; called in each step.
        present_slots: Slots of a driver that was not started with those of its version; None if it was.
        missing: Says whether to wait for executors that have not registered.
    """

    def __init__(
        self,
        app: str,
        version: int,
        content: AppDeployment,
        read: Read,
        allocation: Allocation,
        placement: StatePlacement,
        queries: Sequence[Any],
        report: Report,
        note: Note,
        ready: Ready,
        contingencies: Callable[[Deployment | None], bool] = lambda newest: False,
        present_slots: int | None = None,
        missing: MissingExecutors | None = None,
    ) -> None:
        self._app, self._read = app, read
        self._allocation, self._placement, self._queries = allocation, placement, queries
        self._report, self._note, self._contingencies, self._ready = report, note, contingencies, ready
        self._noted: dict[str, Lifetime] = {}
        self._noted_s = time.monotonic()
        self._numbers = ExecutorNumbers()
        self._version, self._content = version, content
        self._launched = present_slots is None  # else the first step requests what the version wants
        self._reported = (version, content.slots) if present_slots is None else (0, present_slots)
        self._requested, self._requested_s = content.executors if self._launched else -1, time.monotonic()
        self._placed: tuple[object, ...] = ()
        self._departures = Departures(allocation, placement)
        self._naming: Wait | None = None
        self._missing = missing or MissingExecutors()
        self._said = ""
        self.problem = ""

    def start(self) -> None:
        """Start a background thread that takes over allocation and works."""
        threading.Thread(target=self._run, name="millrace-executors", daemon=True).start()

    def step(self) -> None:
        """Do what is due."""
        self._follow()
        registered, content = self._allocation.registered(), self._content
        executors = self._numbers.update(self._departures.remaining(registered), content.placement)
        wanted = _executors_for(content, executors)
        stay = staying(executors, content.placement, wanted)
        leaving = [executor for number, executor in executors.items() if number not in stay]
        waits = self._missing.update({executor.id for executor in executors.values()}, wanted, len(leaving))
        self._note_lifetimes({executor.id for executor in registered})
        self._request(wanted + len(leaving))
        queries = [query for query in list(self._queries) if query.isActive]
        batches = self._placement.batches(queries)
        ready = self._ready(registered, any(batch >= 0 for batch in batches.values()))
        stayers = {number: executor for number, executor in executors.items() if number in stay}
        # without a warm executor, a placement is better than none
        kept = {number: executor for number, executor in stayers.items() if executor.id in ready} or stayers
        if kept and self._placed != (kept, batches, content.placement):
            if self._place(kept, queries):
                self._note_naming(queries, batches)
            self._placed = (kept, batches, content.placement)
        if left := self._departures.let_go(leaving, queries, batches):
            self._requested = wanted + len(leaving) - left
        # until state is on the new slots, batches do not show what these can do
        used = len(kept) == len(stay) or not self._operators(queries)
        if used and not waits:
            self._report_slots(executors, wanted, self._holds(queries, batches))

    def _run(self) -> None:
        taken_over = False
        while True:
            try:
                if not taken_over:
                    self._allocation.take_over()
                    taken_over = True
                self.step()
                self._say("")
            except Exception as error:  # the session ends, the master is down: the query must not notice
                if is_missing(error):
                    self.problem = lacks(self._allocation.spark_version, error)
                    LOG.warning("Executors stay unchanged: %s", self.problem)
                    return
                self._say(reason(error))
            time.sleep(POLL_S)

    def _say(self, problem: str) -> None:
        if problem and problem != self._said:
            LOG.warning("Executors stay unchanged for now: %s", problem)
        self._said = problem

    def _follow(self) -> None:
        try:
            newest = self._read()
            if self._contingencies(newest):
                newest = self._read()
        except MillraceError as error:
            LOG.debug("The lake cannot be read: %s", error)
            return
        app = None if newest is None or not newest.running else newest.apps.get(self._app)
        if newest is None or app is None:
            return
        if not self._launched:  # a restart by Millrace never follows: take over what needs none
            app = replace(self._content, slots=app.slots, placement=app.placement)
        # any other content needs a new driver, which the reconciler starts
        if app.restart_content == self._content.restart_content:
            self._version, self._content = newest.version, app

    def _note_lifetimes(self, registered: set[str]) -> None:
        """Record executors that came or went since the last step and, once per ``MEMORY_S``, grown memory.

        Spark may report an end a moment later.
        """
        now = time.monotonic()
        known = registered == {id for id, lifetime in self._noted.items() if lifetime.ended is None}
        if known and now - self._noted_s < MEMORY_S:
            return
        listed = {lifetime.executor.id: lifetime for lifetime in self._allocation.lifetimes()}
        for id, lifetime in listed.items():
            if _is_news(self._noted.get(id), lifetime):
                self._note(replace(lifetime, lead_s=self._missing.leads.lead_s(id)), self._numbers.number(id))
            else:
                listed[id] = self._noted[id]
        self._noted, self._noted_s = listed, now  # Spark forgets executors that ended long ago

    def _request(self, total: int) -> None:
        """Tell the cluster manager how many executors the app wants, and repeat it every ``REMIND_S``."""
        now = time.monotonic()
        if total != self._requested or now - self._requested_s > REMIND_S:
            self._requested_s = now
            if self._allocation.request(total):
                self._requested = total

    def _place(self, executors: Mapping[int, Executor], queries: Sequence[Any]) -> bool:
        """Assign every operator's partitions to executors; return whether planned partitions were elsewhere."""
        by_id, elsewhere = {executor.id: executor for executor in executors.values()}, False
        for partitions in self._operators(queries):
            located = {p.number: self._placement.executor_of(p) for p in partitions}
            planned = self._planned(partitions[0])
            ids = {number: executors[executor].id for number, executor in planned.items() if executor in executors}
            plan = follow(ids, located, list(by_id))
            for partition in partitions:
                if located[partition.number] != plan[partition.number]:
                    self._placement.name(partition, by_id[plan[partition.number]])
                    elsewhere |= partition.number in planned
        return elsewhere

    def _note_naming(self, queries: Sequence[Any], batches: Mapping[str, int]) -> None:
        """Record the batch after which each query's partitions should be where they have just been assigned."""
        until_s = time.monotonic() + HOLD_S if self._naming is None else self._naming.until_s
        # a batch that is running may have located its partitions before
        ahead = {str(query.runId): 1 + runs_batch(query._jsq) for query in queries}
        self._naming = Wait(until_s, {run: batches.get(run, -1) + more for run, more in ahead.items()})

    def _holds(self, queries: Sequence[Any], batches: Mapping[str, int]) -> bool:
        """Return whether each query that has rows has run a batch with the last assignment."""
        naming = self._naming
        if naming is None:
            return True
        waiting = [
            query
            for query in queries
            if batches.get(str(query.runId), -1) < naming.batches.get(str(query.runId), -1) and _has_rows(query)
        ]
        late = time.monotonic() > naming.until_s
        if waiting and late:
            LOG.warning("Some state partitions are not on the executors that version %d names", self._version)
        if not waiting or late:
            self._naming = None
        return self._naming is None

    def _planned(self, partition: Partition) -> Mapping[int, int]:
        """Return the executor numbers that the Deployment assigns to an operator's partitions, by partition."""
        for name, executors in self._content.placement.items():
            query, _, operators = name.rpartition("/")
            if query == partition.query and str(partition.operator) in operators.split("+"):
                return {number: executor for number, executor in enumerate(executors) if executor != NOWHERE}
        return {}

    def _operators(self, queries: Sequence[Any]) -> list[list[Partition]]:
        operators: dict[tuple[str, int], list[Partition]] = {}
        for partition in (p for query in queries for p in self._placement.partitions(query)):
            operators.setdefault((partition.run, partition.operator), []).append(partition)
        return list(operators.values())

    def _report_slots(self, executors: Mapping[int, Executor], wanted: int, holds: bool) -> None:
        """Report a version once it is carried out, or the slots if the cluster has no room for more.

        Slots are reported at once, the version once its placement holds.
        """
        content, count = self._content, len(executors)
        slots = min(content.slots, sum(content.tasks_on(executor.cores) for executor in executors.values()))
        version = self._version if holds else self._reported[0]
        if count == 0 or count > wanted or (version, slots) == self._reported:
            return
        if count < wanted:
            LOG.warning("%d of %d executors: the cluster has not granted the rest yet", count, wanted)
        self._report(version, slots)
        self._reported = (version, slots)


def _executors_for(content: AppDeployment, executors: Mapping[int, Executor]) -> int:
    """Return how many executors give an app its slots.

    They are more than usual if some run fewer tasks than others, as those do that Spark 4.2 makes on Kubernetes after
    one has run out of memory.
    """
    missing = content.slots
    for count, executor in enumerate(executors.values()):
        if missing <= 0:
            return count
        missing -= content.tasks_on(executor.cores)
    return len(executors) + max(0, -(-missing // content.slots_per_executor))


def _is_news(noted: Lifetime | None, lifetime: Lifetime) -> bool:
    """Return whether an executor came, ended, or needs much more memory than recorded."""
    if noted is None or noted.ended != lifetime.ended or noted.reason != lifetime.reason:
        return True
    return (lifetime.peak_memory_mb or 0) > GROWN * (noted.peak_memory_mb or 0)


def _has_rows(query: Any) -> bool:
    """Return whether a query runs a batch or is about to. Waiting for rows or for a rare trigger does not count."""
    if runs_batch(query._jsq):
        return True
    status, execution = query._jsq.status(), query._jsq.streamingQuery()
    progress = execution.lastProgress()
    if progress is not None and not ran_batch(progress):
        return False
    return bool(status.isTriggerActive() or (status.isDataAvailable() and interval_s(execution) < HOLD_S))
