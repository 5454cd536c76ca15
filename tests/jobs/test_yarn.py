"""A plain script on YARN: its executors are added and removed with the load, as on any cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from millrace.environment import spark_env
from tests.jobs.totals import follow_load
from tests.yarn.cluster import yarn_cluster

pytestmark = pytest.mark.platform


def submit(folder: Path, conf_dir: Path) -> Mapping[str, object]:
    """Return a spec's ``submit``: Spark's jars are on each node, and ports listen only on this machine."""
    conf = {
        "spark.yarn.jars": f"local:{spark_env.spark_home()}/jars/*",
        "spark.yarn.stagingDir": f"file:{folder / 'staging'}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    return {"master": "yarn", "env": {"HADOOP_CONF_DIR": str(conf_dir)}, "conf": conf}


def test_pipeline_on_yarn_grows_and_shrinks_with_its_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    with yarn_cluster(tmp_path / "yarn") as conf_dir:
        pipeline = follow_load(tmp_path, submit(tmp_path, conf_dir))
    pipeline.assert_live()
