"""The control tables of one lake, made once and handed to whoever needs one of them."""

from __future__ import annotations

from millrace.lake.alerts import AlertStore
from millrace.lake.decisions import DecisionStore
from millrace.lake.deployments import DeploymentStore
from millrace.lake.memories import MemoryStore
from millrace.lake.observations import ObservationStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.replays import ReplayStore
from millrace.lake.report_problems import ReportProblemStore
from millrace.lake.store import Lake


class ControlTables:
    """Decisions, Deployments and what came of them.

    Args:
        lake: The lake that holds them.

    Attributes:
        lake: The same.
        decisions: Every evaluation, holds included.
        deployments: The numbered desired states.
        memories: What each optimizer keeps between evaluations.
        observations: The GP's training data.
        reconfigurations: What actually happened to the apps.
        alerts: What people were told.
        replays: What other tuners would have done.
        report_problems: Why changes do not reach MLflow.
    """

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.decisions = DecisionStore(lake)
        self.deployments = DeploymentStore(lake)
        self.memories = MemoryStore(lake)
        self.observations = ObservationStore(lake)
        self.reconfigurations = ReconfigurationStore(lake)
        self.alerts = AlertStore(lake)
        self.replays = ReplayStore(lake)
        self.report_problems = ReportProblemStore(lake)
