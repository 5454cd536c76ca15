"""The command deployments: versions, and the command that starts one."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.local.cli import __main__ as cli
from millrace.pipelines.catalog import find


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeploymentStore:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MILLRACE_PIPELINES", str(tmp_path))
    (tmp_path / "orders.py").touch()
    (tmp_path / "orders.yaml").write_text("{name: orders, script: orders.py, submit: {master: local}}")
    return DeploymentStore(Lake(tmp_path / "home" / "lake"))


def test_versions_are_listed_with_their_reasons(store: DeploymentStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["deployments", "orders"]) == 0
    assert "orders was never launched" in capsys.readouterr().out
    first = store.commit(find("orders").first_deployment(), None)
    app = replace(first.apps["orders"], slots=4)
    store.commit(replace(first, apps={"orders": app}, reason="more rows arrive", author="decision"), 1)
    assert cli.main(["deployments", "orders"]) == 0
    last = capsys.readouterr().out.splitlines()[-1].split()
    assert (last[0], last[3], " ".join(last[5:])) == ("2", "4", "more rows arrive")


def test_version_is_printed_as_one_spark_submit(store: DeploymentStore, capsys: pytest.CaptureFixture[str]) -> None:
    store.commit(find("orders").first_deployment(), None)
    assert cli.main(["deployments", "orders", "--submit", "1"]) == 0
    (command,) = capsys.readouterr().out.splitlines()
    words = shlex.split(command)
    assert words[0] == "env" and any(word.endswith("/spark-submit") for word in words)
    assert words[words.index("--version") + 1] == "1" and words[words.index("--master") + 1] == "local[1]"


@pytest.mark.parametrize("arguments", [["orders", "--submit", "7"], ["ordres"]])
def test_missing_versions_and_pipelines_are_named(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["deployments", *arguments]) == cli.BAD_INPUT
    told = capsys.readouterr().err
    assert arguments[-1] in told and "orders" in told
