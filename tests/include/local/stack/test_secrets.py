"""Secrets: created once, readable only by their owner."""

from __future__ import annotations

import base64
import dataclasses
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from millrace.environment.home import Home
from millrace.local.stack import secrets, services


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_load_when_called_again_then_returns_the_same(tmp_path: Path) -> None:
    assert secrets.load(Home(tmp_path)) == secrets.load(Home(tmp_path))


def test_load_when_called_concurrently_then_all_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: secrets.load(Home(tmp_path)), range(8)))
    assert len(found) == 1


def test_files_when_written_then_only_their_owner_can_read_them(tmp_path: Path) -> None:
    home = Home(tmp_path)
    services.write_config(home, secrets.load(home))
    assert _mode(home.secrets) == 0o700
    assert {_mode(path) for path in home.secrets.iterdir() if path.stat().st_size} == {0o600}


def test_load_when_a_file_is_readable_by_others_then_restricts_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    secrets.load(home)
    secrets.password_file(home).chmod(0o644)
    secrets.load(home)
    assert _mode(secrets.password_file(home)) == 0o600


def test_secrets_when_generated_then_are_as_long_as_required(tmp_path: Path) -> None:
    values = secrets.load(Home(tmp_path))
    assert len(values.jwt_secret.encode()) >= 64
    assert len(base64.urlsafe_b64decode(values.fernet_key)) == 32
    assert len(set(dataclasses.astuple(values))) == len(dataclasses.fields(values))


def test_secrets_when_shown_then_hide_themselves(tmp_path: Path) -> None:
    values = secrets.load(Home(tmp_path))
    assert values.admin_password not in repr(values)
