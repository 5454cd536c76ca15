"""Streams are found in folders, topics, lists and files; what is none is named in a sentence."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from millrace.fleet import topics
from millrace.fleet.discovery import Found, discover, may_return
from millrace.model.errors import MillraceError


def test_folders_with_tables_or_files_are_streams(tmp_path: Path) -> None:
    for path in ("delta/_delta_log/0.json", "files/a.csv", "parts/day=1/b.csv", "Ä b/c", ".hidden/d", "no/_SUCCESS"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    (tmp_path / "begun" / "_delta_log").mkdir(parents=True)
    (tmp_path / "README").touch()
    found = discover({"folders": f"{tmp_path}/*"}, Path("/"))
    assert found.streams == ("delta", "files", "parts", "Ä b")
    assert [problem.split(" ")[0] for problem in found.problems] == [f"{tmp_path}/begun", f"{tmp_path}/no"]
    assert discover({"folders": "f*"}, tmp_path).streams == ("files",)
    assert discover({"folders": "*/day=*"}, tmp_path).streams == ("parts/day=1",)
    assert discover({"folders": "x*"}, tmp_path).problems == ("No folder matches x*.",)


def test_name_that_is_not_utf_8_is_a_problem_and_no_stream(tmp_path: Path) -> None:
    """Python reads such a byte as a lone surrogate, which JSON cannot hold."""
    for name in (b"caf\xe9", b"empty\xe9", b"good"):
        (tmp_path / os.fsdecode(name)).mkdir()
        if name != b"empty\xe9":
            (tmp_path / os.fsdecode(name) / "part.json").touch()
    found = discover({"folders": f"{tmp_path}/*"}, Path("/"))
    assert found.streams == ("good",)
    assert any("caf\\udce9 is left out because its name is not UTF-8" in problem for problem in found.problems)
    assert len(found.problems) == 2 and all(problem.encode() for problem in found.problems)


def test_folder_that_may_not_be_looked_at_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("good", "locked"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part.json").touch()
    is_dir = Path.is_dir

    def refused(path: Path) -> bool:
        if path.name == "locked":
            raise PermissionError(13, "Permission denied")
        return is_dir(path)

    monkeypatch.setattr(Path, "is_dir", refused)
    found = discover({"folders": f"{tmp_path}/*"}, Path("/"))
    assert found == Found(("good",), (f"{tmp_path}/locked cannot be read: Permission denied.",))


@pytest.mark.parametrize("content", ["5", "true", "a: b"])
def test_file_without_a_list_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "streams.yaml").write_text(content)
    with pytest.raises(MillraceError, match="a list of names as text"):
        discover({"file": "streams.yaml"}, tmp_path)


def test_list_and_file_name_streams(tmp_path: Path) -> None:
    (tmp_path / "streams.yaml").write_text("[b, a, 'no', b]")
    expected = Found(("a", "b", "no"), ("Stream b is listed more than once.",))
    assert (
        discover({"file": "streams.yaml"}, tmp_path) == discover({"list": ["b", "a", "no", "b"]}, tmp_path) == expected
    )
    assert discover({"list": []}, tmp_path) == Found(())


def test_topics_match_the_whole_name() -> None:
    source = {"topics": r"cdc\..*"}
    assert discover(source, Path(), lambda: ["cdc.b", "x.cdc.c", "cdc.a"]).streams == ("cdc.a", "cdc.b")
    assert discover(source, Path(), lambda: ["x"]).problems == (r"No topic matches cdc\..*.",)
    with pytest.raises(MillraceError, match="topics of known Kafka brokers"):
        discover(source, Path())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({}, "exactly one of"),
        ({"list": [], "file": "a"}, "exactly one of"),
        ({"tables": "a"}, "exactly one of"),
        ({"list": ["a", 1]}, "names as text"),
        ({"list": "a"}, "names as text"),
        ({"list": [""]}, "names as text"),
        ({"list": None}, "names as text"),
        ({"list": ["a", None]}, "names as text"),
        ({"folders": ""}, "allowed: text"),
        ({"folders": "s3://b/*"}, "folders on this machine"),
        ({"topics": "("}, "a regular expression"),
        ({"file": "missing.yaml"}, "Create the file"),
    ],
)
def test_wrong_description_is_refused(source: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(MillraceError, match=message):
        discover(source, tmp_path)


def test_brokers_that_do_not_answer_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as deaf, pytest.raises(MillraceError, match=r"fleet\.streams\.brokers"):
        topics.list_topics(f"127.0.0.1:{deaf.getsockname()[1]}")
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(MillraceError, match="pip install confluent-kafka"):
        topics.list_topics("127.0.0.1:1")


@pytest.mark.parametrize(
    ("kind", "value", "returns", "stays_away"),
    [
        ("folders", "/landing/eu_*", ["eu_1"], ["us_1", "eu_1/x"]),
        ("folders", "/landing/*/orders", ["eu/orders"], ["orders", "eu/users"]),
        ("folders", "/landing/**", ["eu/orders", "a"], []),
        ("folders", "/landing/orders", ["orders"], ["users"]),
        ("topics", r"cdc\..*", ["cdc.a"], ["a.cdc.b"]),
        ("list", ["a"], [], ["b"]),
        ("file", "streams.yaml", [], ["b"]),
    ],
)
def test_stream_that_is_gone_may_return_if_it_is_described(
    kind: str, value: object, returns: list[str], stays_away: list[str]
) -> None:
    names = [*returns, *stays_away]
    assert [name for name in names if may_return({kind: value}, name)] == returns
