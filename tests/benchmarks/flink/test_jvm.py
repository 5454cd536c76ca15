"""The conversation with the harness, using a stand-in with fixed answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.flink.jvm import Jvm
from millrace.model.errors import MillraceError

STAND_IN = """
import json, sys, time
for line in sys.stdin:
    question = json.loads(line)
    if question["op"] == "die":
        print("out of memory", file=sys.stderr)
        sys.exit(3)
    if question["op"] == "sleep":
        time.sleep(3600)
    answer = json.dumps(question["answer"]) + "\\n"
    # in two writes, as a pipe may cut it
    sys.stdout.write(answer[:3]); sys.stdout.flush()
    sys.stdout.write(answer[3:]); sys.stdout.flush()
"""


@pytest.fixture
def jvm(tmp_path: Path) -> Iterator[Jvm]:
    started = Jvm([sys.executable, "-c", STAND_IN], tmp_path / "logs" / "flink.log", answer_s=600.0)
    yield started
    started.close()


def test_ask_when_answered_then_each_question_gets_its_own_answer(jvm: Jvm) -> None:
    big = {"text": "x" * 300_000}
    assert jvm.ask({"op": "say", "answer": {"n": 1}}) == {"n": 1}
    assert jvm.ask({"op": "say", "answer": big}) == big
    assert jvm.ask({"op": "say", "answer": {"n": 2}}) == {"n": 2}


def test_ask_when_the_autoscaler_failed_then_says_so_and_continues(jvm: Jvm) -> None:
    with pytest.raises(MillraceError, match="no session 7"):
        jvm.ask({"op": "say", "answer": {"error": "no session 7"}})
    assert jvm.ask({"op": "say", "answer": {}}) == {}


def test_ask_when_it_died_then_names_exit_code_and_log(jvm: Jvm) -> None:
    with pytest.raises(MillraceError, match=f"exit code 3.*{jvm.log}"):
        jvm.ask({"op": "die"})
    assert "out of memory" in jvm.log.read_text()
    assert not jvm.usable()
    with pytest.raises(MillraceError, match="exit code 3"):
        jvm.ask({"op": "say", "answer": {}})


def test_ask_when_no_answer_comes_then_gives_up_and_ends_it(
    jvm: Jvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.flink.jvm.CLOSE_S", 0.2)
    monkeypatch.setattr(jvm, "_answer_s", 0.3)
    with pytest.raises(MillraceError, match=r"no answer within 0\.3 s"):
        jvm.ask({"op": "sleep"})
    assert not jvm.usable()


def test_close_when_forked_then_leaves_the_parents_process_alone(jvm: Jvm, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = os.getpid()
    monkeypatch.setattr("benchmarks.flink.jvm.os.getpid", lambda: mine + 1)
    jvm.close()
    assert not jvm.usable()
    monkeypatch.undo()
    assert jvm.ask({"op": "say", "answer": {"still": "there"}}) == {"still": "there"}
