"""How the client interprets Airflow's answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from millrace.local.stack.airflow_api import AirflowApi, StillRunningError

RUN = "/api/v2/dags/launch_p/dagRuns/r1/taskInstances"


def _task(name: str, state: str, ended: str) -> dict[str, Any]:
    return {"task_id": name, "state": state, "end_date": ended, "try_number": 2, "map_index": -1}


def _log(kind: str, text: str) -> dict[str, Any]:
    cause = {"exc_type": "MillraceError", "exc_value": "the cause"}
    error = {"event": "Task failed with exception", "error_detail": [{"exc_type": kind, "exc_value": text}, cause]}
    return {"content": [{"event": "::group::Log"}, error, {"event": "Task finished"}]}


ANSWERS = {
    "/api/v2/dags/launch_p": {"is_paused": False},
    "/api/v2/dags/launch_p/dagRuns/r1": {"state": "running"},
    RUN: {
        "task_instances": [
            _task("reconcile", "failed", "2026-01-01T00:00:02Z"),
            _task("deploy", "failed", "2026-01-01T00:00:01Z"),
            _task("other", "success", "2026-01-01T00:00:00Z"),
            _task("lost", "failed", "2026-01-01T00:00:03Z"),
        ]
    },
    "/api/v2/dags/~/dagRuns/~/taskInstances": {"task_instances": []},
    "/api/v2/dags/adapt_p/dagRuns/~/taskInstances": {"task_instances": [_task("evaluate", "deferred", "")]},
    f"{RUN}/deploy/logs/2": _log("AirflowFailException", "slots: got 9; allowed: 1 to 4. Choose within the bounds."),
    f"{RUN}/reconcile/logs/2": _log("ValueError", "first. Second"),
    f"{RUN}/lost/logs/2": {"content": ["no structure"]},
}


@pytest.fixture
def api() -> Iterator[AirflowApi]:
    class Airflow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(ANSWERS.get(self.path.partition("?")[0]))

        def do_POST(self) -> None:
            self._answer({"access_token": "t"})

        def _answer(self, body: object) -> None:
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(body or {"detail": "not found"}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Airflow) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield AirflowApi(f"http://127.0.0.1:{listening.server_port}", "u", "p")
        listening.shutdown()


def test_failures_are_the_exceptions_of_failed_tasks_in_order(api: AirflowApi) -> None:
    told = ("slots: got 9; allowed: 1 to 4. Choose within the bounds.", "ValueError: first")
    assert api.failures("launch_p", "r1") == told


def test_run_that_takes_longer_than_the_limit_still_runs(api: AirflowApi) -> None:
    with pytest.raises(StillRunningError, match=r"launch_p/r1: got 'running'; allowed: ended within 0 s"):
        api.wait_for_run("launch_p", "r1", 0.0)


def test_has_dag_only_if_airflow_has_parsed_it(api: AirflowApi) -> None:
    assert api.has_dag("launch_p") and not api.has_dag("launch_new")


def test_any_resource_can_be_read(api: AirflowApi) -> None:
    path = "/api/v2/dags/~/dagRuns/~/taskInstances"
    assert api.get(path) == api.get(path, {"state": "failed", "limit": 1}) == ANSWERS[path]


def test_task_of_a_paused_dag_is_awaited_while_it_is_active(api: AirflowApi) -> None:
    api.wait_for_task("adapt_p", "apply", 0.0)
    with pytest.raises(StillRunningError, match=r"adapt_p/evaluate: got 'active'; allowed: ended within 0 s"):
        api.wait_for_task("adapt_p", "evaluate", 0.0)
