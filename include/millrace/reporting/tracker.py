"""Create an MLflow run for every change, linked with its Decision; an unreachable MLflow never stops a decision."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from millrace.model.codec import to_plain
from millrace.model.decision import Decision, Proposal
from millrace.model.deployment import SLOTS
from millrace.model.errors import MillraceError
from millrace.model.spec import PipelineSpec
from millrace.reporting.artifacts import log_picture
from millrace.reporting.curve_figure import curve_figure, rate_to_serve
from millrace.reporting.mlflow_client import (
    Fit,
    connect,
    experiment,
    line,
    mark_failed,
    metrics,
    model_name,
    params,
    register,
)
from millrace.reporting.plans import join_metrics, log_join, log_plans, plan_metrics, plan_params

if TYPE_CHECKING:
    from mlflow import MlflowClient

LOG = logging.getLogger(__name__)

DECISION_TAG = "millrace.decision_id"


@dataclass(frozen=True)
class MlflowTracker:
    """Logs changes to MLflow. Credentials come from MLflow's own environment variables only.

    Args:
        uri: Tracking URI; None logs nothing.
        fit: Fits the surrogate that is registered; None registers none.
        artifacts: Location of a new experiment's artifacts; the server decides by default.
        note: Receives why a report failed, or None once one arrived, for people to see.
    """

    uri: str | None
    fit: Fit | None = None
    artifacts: str | None = None
    note: Callable[[str | None], None] = lambda problem: None

    def log_change(self, spec: PipelineSpec, decision: Decision) -> tuple[str | None, Mapping[str, str]]:
        """Log a change as a run and return its id and the models used, name: version; None, {} if out of reach.

        A Decision that already has a run gets no second one.
        """
        if self.uri is None:
            return None, {}
        run_id: str | None = None
        models: dict[str, str] = {}
        problem: str | None = None
        try:
            client = connect(self.uri)
            run_id, whole = self._run(client, spec.name, decision)
            if not whole:
                self._log(client, run_id, spec, decision)
            models = self._register(client, run_id, decision)
            client.set_terminated(run_id)
        except Exception as error:
            problem = line(error)
            LOG.warning("MLflow at %s: decision %s is only partly logged: %s", self.uri, decision.decision_id, problem)
            mark_failed(self.uri, run_id)
        self._note(problem)
        return run_id, models

    def log_achieved(self, run_id: str | None, achieved: Mapping[str, float]) -> bool:
        """Add to a change's run what it achieved; return False if that could not be logged."""
        if self.uri is None or run_id is None or not achieved:
            return False
        try:
            connect(self.uri).log_batch(run_id, metrics=metrics({f"achieved_{k}": v for k, v in achieved.items()}))
        except Exception as error:
            problem = line(error)
            LOG.warning("MLflow at %s: run %s got no achieved values: %s", self.uri, run_id, problem)
            self._note(problem)
            return False
        return True

    def _note(self, problem: str | None) -> None:
        try:
            self.note(problem)
        except MillraceError as error:  # a problem of the lake is reported elsewhere
            LOG.warning("Whether MLflow got its reports was not recorded: %s", error)

    def _run(self, client: MlflowClient, pipeline: str, decision: Decision) -> tuple[str, bool]:
        """Return the id of a Decision's run, and whether all of it is logged."""
        experiment_id = experiment(client, pipeline, self.artifacts)
        runs = client.search_runs([experiment_id], f"tags.`{DECISION_TAG}` = '{decision.decision_id}'", max_results=1)
        if runs:
            return runs[0].info.run_id, runs[0].info.status == "FINISHED"
        tags = {
            DECISION_TAG: decision.decision_id,
            "millrace.action": decision.action.value,
            "mlflow.note.content": decision.sentence,
        }
        run = client.create_run(experiment_id, tags=tags, run_name=decision.decision_id)
        return run.info.run_id, False

    def _log(self, client: MlflowClient, run_id: str, spec: PipelineSpec, decision: Decision) -> None:
        parameters = params(change_params(spec, decision))
        client.log_batch(run_id, params=parameters, metrics=metrics(change_metrics(decision)))
        client.log_dict(run_id, to_plain(decision.signals), "signals.json")
        client.log_dict(run_id, to_plain(decision), "decision.json")
        for proposal in decision.proposals:
            figure = curve_figure(decision, proposal)
            if figure is not None:
                log_picture(client, run_id, figure, f"curve-{proposal.optimizer}.png")
        log_plans(client, run_id, decision.proposals)
        log_join(client, run_id, decision)

    def _register(self, client: MlflowClient, run_id: str, decision: Decision) -> dict[str, str]:
        models: dict[str, str] = {}
        for proposal in decision.proposals if self.fit else ():
            app = _modelled_app(proposal)
            if app is not None and self.fit:
                name = model_name(decision.pipeline, app)
                version = register(client, run_id, name, proposal.training, self.fit)
                if version is not None:
                    models[name] = version
        return models


def change_params(spec: PipelineSpec, decision: Decision) -> dict[str, object]:
    """Return the run's parameters."""
    parameters: dict[str, object] = {
        "pipeline": decision.pipeline,
        "decision_id": decision.decision_id,
        "action": decision.action.value,
        "reason": decision.reason_code,
        "tuner": spec.tuner.name,
        "config_hash": decision.config_hash,
        "base_version": decision.base_version,
    }
    parameters |= {f"option.{k}": v for k, v in spec.tuner.options.items()}
    for proposal in decision.proposals:
        for change in proposal.changes:
            if change.stream is not None:
                continue  # the plan shows where streams enter
            of = f".{change.operator}" if change.operator else ""
            parameters[f"{change.app}{of}.{change.field}"] = f"{change.before} -> {change.value}"
    parameters |= plan_params(decision.proposals)
    return parameters


def change_metrics(decision: Decision) -> dict[str, float | None]:
    """Return the run's metrics: measurements, and the predicted effect of the change."""
    figures: dict[str, float | None] = {f"predicted_{k}": v for k, v in decision.predicted.items()}
    signals = decision.signals
    for app in signals.apps if signals else ():
        prefix = "" if signals and len(signals.apps) == 1 else f"{app.app}."
        throughput = app.capacity.rows_per_s if app.capacity else None
        figures |= {
            f"{prefix}slots": app.slots,
            f"{prefix}arrival_rows_per_s": app.arrival_rows_per_s,
            f"{prefix}backlog_rows": app.backlog_rows,
            f"{prefix}throughput_rows_per_s": throughput,
            f"{prefix}sustainable_rows_per_s": app.sustainable(signals.objective) if signals else None,
            f"{prefix}rate_to_serve_rows_per_s": rate_to_serve(app, signals.objective) if signals else None,
        }
        if throughput and app.arrival_rows_per_s is not None:
            figures[f"{prefix}utilisation_ratio"] = app.arrival_rows_per_s / throughput
    figures |= plan_metrics(decision.proposals)
    figures |= join_metrics(decision)
    return figures


def _modelled_app(proposal: Proposal) -> str | None:
    """Return the app that a proposal's model is of: the first that it resizes."""
    return next((c.app for c in proposal.changes if c.field == SLOTS), None) if proposal.training else None
