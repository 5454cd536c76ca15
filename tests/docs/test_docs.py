"""The commands and links in the documentation."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import click
import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from benchmarks.document import DOCUMENT, RECORDS, document
from benchmarks.record import read
from millrace.local.cli.__main__ import ENTRIES, millrace
from millrace.local.cli.docs import docs
from millrace.model.spec import PipelineSpec
from millrace.pipelines.spec_yaml import parse, read_file

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    (ROOT / "docs").glob("*.md")
)
COMMAND = re.compile(r"(?:\./|[`$] ?)millrace ([a-z][^`|\n]*)`?")
MODULE = re.compile(r"-m ((?:millrace|benchmarks)(?:\.\w+)+)")
SERVICE = re.compile(r"docker compose (?:exec|restart|up(?: -d)?|build) ([a-z][a-z-]*)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
YAML = re.compile(r"^ *```yaml\n(.*?)^ *```", re.M | re.S)
MISSING = {"missing"}
"""Errors of a spec of which only a part is shown."""


def commands(page: Path) -> Iterator[str]:
    for words in COMMAND.findall(page.read_text(encoding="utf-8")):
        yield words.split(" #")[0].rstrip(" .,;:)")


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of a page's headings, and the page's explicit anchors."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    of_headings = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return of_headings | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist_with_their_options(page: Path) -> None:
    context = click.Context(millrace)
    for line in commands(page):
        name, *words = shlex.split(line, comments=False) if line.count("'") % 2 == 0 else line.split()
        assert name in ENTRIES, line
        command = millrace.get_command(context, name)
        assert command is not None
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        unknown = [word for word in words if word.startswith("--") and word.split("=")[0] not in known]
        assert not unknown or command.context_settings.get("ignore_unknown_options"), line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_and_services_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not [name for name in MODULE.findall(text) if importlib.util.find_spec(name) is None]
    services = read_file(ROOT / "docker-compose.yaml")["services"]
    assert services.keys() >= set(SERVICE.findall(text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_specs_are_valid_as_far_as_they_are_shown(page: Path) -> None:
    for text in YAML.findall(page.read_text(encoding="utf-8")):
        shown = parse(text, page.name)
        whole = {"name": "shown", "script": "/srv/shown.py", **shown}
        try:
            PipelineSpec.model_validate(whole)
        except ValidationError as error:
            wrong = [problem for problem in error.errors() if problem["type"] not in MISSING]
            # checks across several keys run only on whole specs
            assert not wrong, f"{wrong}\n{text}"


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"^ +- .*: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


def test_benchmarks_page_matches_the_records() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(read(RECORDS)), "run python -m benchmarks.document"


@pytest.mark.slow
def test_site_builds_without_a_warning() -> None:
    built = CliRunner().invoke(docs, catch_exceptions=False)
    assert "index.html" in built.output
