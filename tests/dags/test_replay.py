from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError

from millrace.lake.replays import ReplayStore
from millrace.lake.schemas import TABLES
from millrace.lake.store import Lake
from millrace.optimizers.registry import names
from tests.airflow_home import ROOT, write_pipeline
from tests.dags.runs import launched, overloaded, run

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_db")]


@pytest.fixture
def lake(millrace_home: Path) -> Lake:
    return Lake(millrace_home / "lake")


def test_replay_when_parsed_then_is_manual_and_knows_every_tuner(lake: Lake) -> None:
    dag = DagBag(ROOT / "dags").dags["replay_tiny"]
    assert not dag.timetable.can_be_scheduled
    tuner = dag.params.get_param("tuner")
    assert tuner.schema["enum"] == list(names()) and tuner.value in names()


def test_replay_of_a_recorded_evaluation_stores_its_result(lake: Lake, tmp_path: Path) -> None:
    write_pipeline(tmp_path / "specs", "advise")
    launched(lake)
    overloaded(lake)
    assert run("adapt_tiny")[0] == "success"
    before = {table: lake.version(table) for table in TABLES}
    assert run("replay_tiny", {"tuner": "ds2", "since": "1h"}) == ("success", {"replay": "success"})
    assert {table for table in TABLES if lake.version(table) != before[table]} == {"control/replays"}
    (kept,) = ReplayStore(lake).recent("tiny", 5)
    assert (kept.tuner, kept.options, kept.run_id) == ("ds2", {}, None)
    assert "ds2 would have chosen" in kept.sentence and kept.figures["evaluations"] == 1


@pytest.mark.parametrize("conf", [{}, {"tuner": "conttune", "options": {"alfa": 3}}, {"since": "2013-13-01"}])
def test_replay_when_nothing_can_be_replayed_then_fails_at_once(lake: Lake, conf: dict[str, Any]) -> None:
    launched(lake)
    assert run("replay_tiny", conf) == ("failed", {"replay": "failed"})


@pytest.mark.parametrize(
    "conf", [{"tuner": "contune"}, {"options": "alpha=3"}, {"since": "yesterday"}, {"since": 3}, {"until": "2h ago"}]
)
def test_replay_with_bad_params_does_not_run(lake: Lake, conf: dict[str, Any]) -> None:
    with pytest.raises(ParamValidationError, match=next(iter(conf))):
        run("replay_tiny", conf)
