"""The control tables of one lake, created once and shared."""

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
    """Decisions, Deployments and their results.

    Args:
        lake: The lake that holds them.

    Attributes:
        lake: The lake that contains them.
        decisions: Every evaluation, including holds.
        deployments: The numbered desired states.
        memories: Each optimizer's memory between evaluations.
        observations: The training data of the Gaussian process.
        reconfigurations: Changes to the apps that actually happened.
        alerts: Alerts that people received.
        replays: Changes that other tuners would have made.
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
