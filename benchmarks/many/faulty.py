"""Pipelines that become bad: one whose evaluations fail, one whose evaluations hang, one with a broken spec."""

from __future__ import annotations

import os
from dataclasses import replace

from benchmarks.many.evaluations import BATCHES
from benchmarks.many.world import World
from millrace.lake.deployments import DeploymentStore

FAILS, HANGS, BROKEN = "zz_fails", "zz_hangs", "zz_broken"
FAULTY = (FAILS, HANGS, BROKEN)


def spoil(world: World) -> None:
    """Make the three pipelines bad, while their drivers continue."""
    _fail(world)
    _hang(world)
    (world.specs / f"{BROKEN}.yaml").write_text(f"name: {BROKEN}\nno_such_key: 1\n", encoding="utf-8")


def _fail(world: World) -> None:
    """Commit a Deployment with an app that the spec does not have: evaluations that read it raise an error."""
    store = DeploymentStore(world.lake)
    latest = store.latest(FAILS)
    assert latest is not None
    store.commit(replace(latest, apps={"unknown": latest.apps[FAILS]}, decision_id=None), latest.version)


def _hang(world: World) -> None:
    """Replace the newest file of the telemetry by a pipe without a writer: a reader waits when it opens it."""
    folder = world.home.lake / BATCHES / f"pipeline={HANGS}"
    newest = max(folder.rglob("*.parquet"), key=lambda path: path.stat().st_mtime)
    newest.unlink()
    os.mkfifo(newest)
