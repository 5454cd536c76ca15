"""Client for the public REST interface of the stack's Airflow."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import httpx

from millrace.environment.home import Home
from millrace.local.stack import lifecycle, secrets
from millrace.local.stack.secrets import ADMIN
from millrace.local.stack.services import airflow_url
from millrace.model.errors import MillraceError
from millrace.model.failure import reason_of
from millrace.model.spec import PipelineSpec
from millrace.places import IN_CHECKOUT

ENDED = ("success", "failed")
ACTIVE = ("queued", "running", "deferred")
"""States of tasks that continue although their DAG is paused."""
POLL_S = 0.3
PROFILE_S = 3600.0
"""Time limit of a run of the DAG ``profile``."""
OTHER_TASKS_S = 360.0
"""Time that tasks may take that start and stop no driver, with retries."""
TOLD = "AirflowFailException"
"""Exception with which Millrace's tasks fail. Its text is written for users."""


class StillRunningError(MillraceError):
    """A run that has not ended in time; it continues."""


class AirflowApi:
    """A logged-in client.

    Args:
        url: Airflow's address.
        user: Its user.
        password: The user's password.
        timeout_s: Seconds to wait for one answer.
    """

    def __init__(self, url: str, user: str, password: str, timeout_s: float = 30.0) -> None:
        self.url = url
        self._login = {"username": user, "password": password}
        # the stack is on this machine: ignore proxies from the environment
        self._http = httpx.Client(base_url=url, timeout=timeout_s, trust_env=False)
        self._token: str | None = None

    @classmethod
    def of(cls, home: Home) -> AirflowApi:
        """Connect to the running stack.

        Raises:
            MillraceError: The stack is down.
        """
        record = lifecycle.status(home)
        if record is None or not record.running:
            elsewhere = "Use your own Airflow: trigger, pause or unpause the DAG there."
            raise MillraceError("stack", "down", "up", "Run ./millrace up." if IN_CHECKOUT else elsewhere)
        return cls(airflow_url(record.ports), ADMIN, secrets.load(home).admin_password)

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Read anything that the interface has.

        Args:
            path: Path of the resource.
            params: Parameters of the query.
        """
        return self._send("GET", path, params=params)

    def health(self) -> dict[str, Any]:
        """Read the health of Airflow's components."""
        return self.get("/api/v2/monitor/health")

    def dag_ids(self) -> tuple[str, ...]:
        """List the DAGs that Airflow has parsed."""
        return tuple(dag["dag_id"] for dag in self.get("/api/v2/dags", {"limit": 1000})["dags"])

    def wait_for_dag(self, dag_id: str, timeout_s: float = 120.0) -> None:
        """Wait until a DAG has been parsed.

        Raises:
            MillraceError: If it does not appear in time; the message contains Airflow's import errors.
        """
        deadline = time.monotonic() + timeout_s
        while not self.has_dag(dag_id):
            if time.monotonic() >= deadline:
                errors = self.get("/api/v2/importErrors")["import_errors"]
                problems = "; ".join(f"{e['filename']}: {reason_of(e['stack_trace'])}" for e in errors)
                known = ", ".join(self.dag_ids()) or "none"
                raise MillraceError("dag", dag_id, known, problems or "Read ./millrace logs dag-processor.")
            time.sleep(POLL_S)

    def has_dag(self, dag_id: str) -> bool:
        """Return whether Airflow has parsed a DAG."""
        return self._request("GET", f"/api/v2/dags/{dag_id}").status_code != httpx.codes.NOT_FOUND

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Start a run of a DAG.

        Returns:
            The run's id.

        Raises:
            MillraceError: There is no such DAG, it is paused, or a parameter is not allowed.
        """
        if self.get(f"/api/v2/dags/{dag_id}")["is_paused"]:  # the run would wait without any visible reason
            pipeline = dag_id.removeprefix("adapt_")
            remedy = "Unpause it in Airflow" if pipeline == dag_id else f"Run ./millrace resume {pipeline}"
            raise MillraceError(dag_id, "paused", "a DAG that is not paused", f"{remedy}, then try again.")
        run = self._send(
            "POST", f"/api/v2/dags/{dag_id}/dagRuns", json={"logical_date": None, "conf": dict(conf or {})}
        )
        return str(run["dag_run_id"])

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """Read a run."""
        return self.get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")

    def wait_for_run(self, dag_id: str, run_id: str, timeout_s: float = 300.0) -> str:
        """Wait until a run has ended.

        Returns:
            ``success`` or ``failed``.

        Raises:
            StillRunningError: It did not end in time.
        """
        deadline = time.monotonic() + timeout_s
        while (state := str(self.run(dag_id, run_id)["state"])) not in ENDED:
            if time.monotonic() >= deadline:
                remedy = "It continues. Read ./millrace logs scheduler."
                raise StillRunningError(f"{dag_id}/{run_id}", state, f"ended within {timeout_s:g} s", remedy)
            time.sleep(POLL_S)
        return state

    def active_tasks(self, dag_id: str) -> set[str]:
        """Return the names of a DAG's tasks that continue although the DAG is paused."""
        found = self.get(f"/api/v2/dags/{dag_id}/dagRuns/~/taskInstances", {"state": ACTIVE})
        return {str(task["task_id"]) for task in found["task_instances"]}

    def wait_for_task(self, dag_id: str, task_id: str, timeout_s: float) -> None:
        """Wait until no task of this name is active.

        Raises:
            StillRunningError: One is still active after this time.
        """
        deadline = time.monotonic() + timeout_s
        while task_id in self.active_tasks(dag_id):
            if time.monotonic() >= deadline:
                remedy = "It continues. Read ./millrace logs scheduler, then try again."
                raise StillRunningError(f"{dag_id}/{task_id}", "active", f"ended within {timeout_s:g} s", remedy)
            time.sleep(POLL_S)

    def failures(self, dag_id: str, run_id: str) -> tuple[str, ...]:
        """Return why each failed task of a run failed, in order of their end; empty if no log says why."""
        tasks = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        failed = [task for task in self.get(tasks)["task_instances"] if task["state"] == "failed"]
        failed.sort(key=lambda task: str(task["end_date"]))
        found = (self._failure(f"{tasks}/{task['task_id']}/logs/{task['try_number']}", task) for task in failed)
        return tuple(filter(None, found))

    def _failure(self, path: str, task: Mapping[str, Any]) -> str | None:
        log = self.get(path, {"full_content": True, "map_index": task["map_index"]})["content"]
        raised = [error for line in log if isinstance(line, dict) for error in line.get("error_detail") or ()]
        if not raised:
            return None
        kind, text = str(raised[0]["exc_type"]), str(raised[0]["exc_value"])  # the rest are its causes
        return text if kind == TOLD else reason_of(f"{kind}: {text}")

    def set_paused(self, dag_id: str, paused: bool) -> None:
        """Pause or resume a DAG's schedule."""
        self._send("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": paused})

    def _send(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        answer = self._request(method, path, **request)
        if answer.is_error:
            raise MillraceError(path, answer.status_code, "200 to 299", _detail(answer))
        content: dict[str, Any] = answer.json()
        return content

    def _request(self, method: str, path: str, **request: Any) -> httpx.Response:
        try:
            answer = self._authorised(method, path, **request)
            if answer.status_code == httpx.codes.UNAUTHORIZED:
                # a token is valid for a day; the stack may run longer
                self._token = None
                answer = self._authorised(method, path, **request)
        except httpx.TransportError as error:
            problem = f"{type(error).__name__} at {self.url}"
            raise MillraceError("airflow", problem, "a running stack", "Run ./millrace up.") from error
        return answer

    def _authorised(self, method: str, path: str, **request: Any) -> httpx.Response:
        if self._token is None:
            answer = self._http.post("/auth/token", json=self._login)
            if answer.is_error:
                raise MillraceError("airflow login", answer.status_code, "201", "The password is in var/secrets.")
            self._token = str(answer.json()["access_token"])
        return self._http.request(method, path, headers={"Authorization": f"Bearer {self._token}"}, **request)


def longest_run_s(spec: PipelineSpec, kind: str) -> float:
    """Return how long a run of a pipeline's DAG may take, with a retry of its tasks, seconds.

    Args:
        spec: The pipeline.
        kind: Kind of the DAG: launch, adapt or profile.
    """
    return PROFILE_S if kind == "profile" else 2 * spec.longest_change_s + OTHER_TASKS_S


def _detail(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:300]
