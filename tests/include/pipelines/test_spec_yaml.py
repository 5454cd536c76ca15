from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.model.errors import MillraceError
from millrace.pipelines.spec_yaml import parse, read_file


def refused(text: str) -> MillraceError:
    with pytest.raises(MillraceError) as told:
        parse(text, "orders.yaml")
    assert told.value.key == "orders.yaml" and told.value.remedy.endswith(".")
    return told.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, word) for word in ("on", "off", "yes", "No", "y", "1:30", "22:00", "=", "0.1.2", "a$$b")),
        *((word, word) for word in ("2026-01-01", "2026-01-01 10:00:00")),
        *(("true", True), ("False", False), ("~", None), ("null", None), ("", None)),
        *(("010", 10), ("0o17", 15), ("0x1f", 31), ("1e3", 1000.0), (".5", 0.5)),
    ],
)
def test_plain_word_is_read_as_yaml_1_2_reads_it(text: str, value: object) -> None:
    assert parse(f"a: {text}\n", "x") == {"a": value}
    assert parse(f"[{text}]" if text else "[~]", "x") == [value]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing\n", None),
        ("---\na: 1\n...\n", {"a": 1}),
        ("a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}),
        ("a: &x {p: 1}\nb: *x\n", {"a": {"p": 1}, "b": {"p": 1}}),
        ("a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  q: 3\n", {"a": {"p": 1, "q": 2}, "b": {"p": 1, "q": 3}}),
        ("1: a\n'1': b\n", {1: "a", "1": "b"}),
        ("%YAML 1.1\n---\na: yes\n", {"a": True}),
    ],
)
def test_file_of_usual_yaml_is_read(text: str, value: object) -> None:
    assert parse(text, "x") == value


@pytest.mark.parametrize(
    ("text", "value", "remedy"),
    [
        ("a: 1\nb: 2\na: 3\n", "lines 1 and 3: `a` twice", "Keep one `a`"),
        ("x:\n  a: 1\n  'a': 2\n", "lines 2 and 3: `a` twice", "Keep one `a`"),
        ("x: {a: 1, a: 1}\n", "line 1: `a` twice", "Keep one `a`"),
        ("- [{b: 1,\n    b: 2}]\n", "lines 1 and 2: `b` twice", "Keep one `b`"),
        ("x: &x {p: 1}\ny:\n  <<: *x\n  <<: *x\n", "lines 3 and 4: `<<` twice", "Keep one `<<`"),
        ("a:\n\tb: 1\n", "line 2: a tab", "spaces"),
        ("a: 1\n---\nb: 2\n", "line 2: a second document", "Remove `---`"),
        ("a: 1\nb: &b [*b]\n", "line 2: an alias of a value that contains it", "instead of the alias"),
        ("a: !!python/object:os.system x\n", "line 1: the tag !!python/object:os.system", "Remove the tag"),
        ("a: 1\nb: !env HOME\n", "line 2: the tag !env", "Remove the tag"),
        ("a: !!binary aGk=\n", "line 1: the tag !!binary", "Remove the tag"),
        ("{a: 1}: 2\n", "line 1: a key that is not text", "text with braces in quotes"),
        ("a: 1\nb: \x00\n", "line 2: the character '\\x00'", "Remove this character"),
        ("a: 1\nb: c: d\n", "line 2: mapping values are not allowed here", "quotes"),
        ("a: *unknown\n", "line 1: found undefined alias 'unknown'", "Fix line 1"),
        ("a: !!int word\n", "invalid literal for int() with base 10: 'word'", "Fix the value"),
        ("[" * 5000, "values nested too deeply", "Nest fewer"),
    ],
)
def test_meaningless_spec_is_refused_with_line_and_remedy(text: str, value: str, remedy: str) -> None:
    problem = refused(text)
    assert problem.value == value and remedy in problem.remedy


def test_aliases_that_expand_to_billions_of_values_are_refused() -> None:
    lines = ["a0: &a0 [0, 0]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "more than 100,000 values" in str(refused("\n".join(lines)).value)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"\xef\xbb\xbfname: orders\n", {"name": "orders"}),
        ("name: gr\u00fc\u00dfe\n".encode(), {"name": "gr\u00fc\u00dfe"}),
        (b"name: a\ndescription: gr\xfc\xdfe\n", "line 2: not UTF-8"),
        ("name: orders\n".encode("utf-16"), "line 1: not UTF-8"),
    ],
)
def test_file_is_utf_8_with_or_without_a_byte_order_mark(tmp_path: Path, content: bytes, found: object) -> None:
    file = tmp_path / "orders.yaml"
    file.write_bytes(content)
    if isinstance(found, dict):
        assert read_file(file) == found
        return
    with pytest.raises(MillraceError) as told:
        read_file(file)
    assert (told.value.value, told.value.remedy) == (found, "Save the file as UTF-8.")


@given(st.text(st.sampled_from("ab1 .:-&*!<>[]{},'\"#%|?=~\t\n\u00e9\x00\x85"), max_size=30))
@example("%YAML 1.1\n---\n0b: 1")
@example("a: !!bool maybe")
@example("a: !!float x")
@example("a: 0o9")
def test_any_text_is_a_value_or_a_problem(text: str) -> None:
    try:
        parse(text, "orders.yaml")
    except MillraceError as problem:
        assert problem.key == "orders.yaml"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("abcon-:$ {}#'\"", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc<", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_json_is_read_as_json(value: Any) -> None:
    assert parse(json.dumps(value), "x") == value
