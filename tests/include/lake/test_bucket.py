"""A lake in a bucket: the same answers as a lake in a folder."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millrace.lake.commit_follower import CommitFollower
from millrace.lake.fenced_table import Fenced, FencedTable
from millrace.lake.location import OPTIONS_VARIABLE, Location, options_of
from millrace.lake.maintenance import compact, last_upkeep, maintain
from millrace.lake.newest_rows import RowQuery, read_recent
from millrace.lake.object_stores import S3
from millrace.lake.rows_since import read_since
from millrace.lake.storage import table_storage
from millrace.lake.store import Lake
from millrace.model.errors import MillraceError
from tests.http_server import answering
from tests.object_stores.place import Place
from tests.s3.server import Bucket

TABLE = "telemetry/apps"
EXPIRED = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
NOW = datetime(2026, 3, 3, 12, tzinfo=UTC)


@pytest.fixture
def in_bucket(s3: Bucket) -> Lake:
    return Lake(s3.lake)


@pytest.fixture
def in_any(place: Place) -> Lake:
    return Lake(place.lake)


def row(number: int, pipeline: str = "a") -> dict[str, object]:
    time = NOW + timedelta(seconds=number)
    return {"pipeline": pipeline, "time": time, "app": pipeline, "generation": number}


def numbers(lake: Lake, **bounds: object) -> list[int]:
    found = read_recent(lake, RowQuery(TABLE, "a", 1000, **bounds)).rows  # type: ignore[arg-type]
    return found["generation"].to_pylist() if len(found) else []


def test_rows_are_the_same_as_in_a_folder(in_any: Lake, tmp_path: Path) -> None:
    def told(lake: Lake) -> list[object]:
        seen: list[object] = [lake.exists(TABLE), lake.version(TABLE), numbers(lake)]
        for number in range(14):
            lake.append(TABLE, [row(number), row(number, "b")], {"a/x": number})
        seen += [lake.append(TABLE, [row(99)], {"a/x": 13}), lake.committed(TABLE, "a/x"), lake.version(TABLE)]
        seen += [numbers(lake), numbers(lake, after=9), numbers(lake, through=5)]
        seen += [numbers(lake, not_before=NOW + timedelta(seconds=7))]
        new = read_since(lake, TABLE, "a", 10)
        seen += [new.version, new.rows["generation"].to_pylist(), new.whole, new.types]
        seen += [lake.rows("select count(*) as n, max(generation) as last from apps", TABLE)]
        seen += [compact(lake, TABLE, NOW.date() + timedelta(days=1)), numbers(Lake(lake.location))]
        lake.append(TABLE, [row(41)])
        done = maintain(lake, TABLE, NOW.date() + timedelta(days=1), keep_days=30)
        noted = last_upkeep(lake, TABLE)
        assert noted is not None and noted[1] == done
        held = table_storage(lake, TABLE)
        seen += [done.expired, done.files_after, held.rows, held.files, held.oldest, held.disk_bytes > held.bytes]
        seen += [numbers(Lake(lake.location)), lake.log(TABLE).table_id() is not None]
        return seen

    assert told(in_any) == told(Lake(tmp_path))


def test_concurrent_writers_lose_nothing(in_any: Lake) -> None:
    def write(writer: int) -> None:
        own = Lake(in_any.location)
        for number in range(5):
            own.append(TABLE, [row(10 * writer + number)])

    in_any.create(TABLE)
    with ThreadPoolExecutor(4) as writers:
        list(writers.map(write, range(4)))
    assert sorted(numbers(in_any)) == [10 * writer + number for writer in range(4) for number in range(5)]


def test_predecessor_is_refused(in_any: Lake) -> None:
    old, new = (FencedTable(Lake(in_any.location), TABLE, "a/generation", generation) for generation in (1, 2))
    old.committed(["a/x"])
    old.append([row(1)], {"a/x": 1})
    assert new.committed(["a/x"]) == {"a/x": 1}
    new.append([row(2)], {"a/x": 2})
    with pytest.raises(Fenced):
        old.committed(["a/x"])


def test_commits_are_followed(in_bucket: Lake) -> None:
    followed = CommitFollower(in_bucket.log(TABLE), "a")
    assert not followed.advance()
    in_bucket.append(TABLE, [row(1, "b")], {"b/x": 1})
    in_bucket.append(TABLE, [row(1)], {"a/x": 1})
    assert followed.advance()
    in_bucket.append(TABLE, [row(2, "b")], {"b/x": 2})
    assert not followed.advance()
    in_bucket.append(TABLE, [row(2)], {"a/x": 2})
    assert (followed.advance(), followed.version) == (True, in_bucket.version(TABLE))


def test_entry_of_another_table_at_the_same_version_is_noticed(in_any: Lake) -> None:
    for number in range(2):
        in_any.append(TABLE, [row(number)])
    log = in_any.log(TABLE)
    newest, before = in_any.position(TABLE), log.commit(2)
    assert newest == in_any.position(TABLE) == (0, 2)
    log.location.files.write(f"{2:020d}.json", log.text(2) + b"\n")
    assert in_any.position(TABLE) == (1, 2)
    assert log.commit(2) == before and log.commit(2) is not before


def test_refusal_is_reported_in_a_sentence_and_ends(s3: Bucket, in_bucket: Lake) -> None:
    in_bucket.append(TABLE, [row(1)])
    s3.deny()
    try:
        for refused in (
            lambda: in_bucket.append(TABLE, [row(2)]),
            lambda: Lake(in_bucket.location).append(TABLE, [row(2)]),
            lambda: Lake(in_bucket.location).exists(TABLE),
            lambda: Lake(in_bucket.location).version(TABLE),
            lambda: numbers(in_bucket),
            lambda: Lake(in_bucket.location).rows("select * from apps", TABLE),
        ):
            with pytest.raises(MillraceError, match=r"Check the bucket.*(InvalidAccessKeyId|ACCESS_DENIED)") as told:
                refused()
            assert "secret" not in str(told.value) and "<" not in str(told.value)
    finally:
        s3.allow()
    in_bucket.append(TABLE, [row(3)])
    assert numbers(in_bucket) == [1, 3]


def test_bucket_that_only_refuses_writes_is_still_read(s3: Bucket, in_bucket: Lake) -> None:
    in_bucket.append(TABLE, [row(1)])
    reading = Lake(Location(s3.lake, {**s3.environment, **s3.keys_of_a_reader()}))
    s3.deny()
    try:
        assert numbers(reading) == [1]
        with pytest.raises(MillraceError, match=r"Check the bucket.*AccessDenied"):
            reading.append(TABLE, [row(2)])
    finally:
        s3.allow()
    assert numbers(in_bucket) == [1]


def test_expired_key_is_reported() -> None:
    with answering(400, EXPIRED) as endpoint:
        keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}
        lake = Lake(Location("s3://bucket/lake", {**keys, "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": endpoint}))
        for refused in (lambda: lake.append(TABLE, [row(1)]), lambda: lake.exists(TABLE), lambda: numbers(lake)):
            with pytest.raises(MillraceError, match=r"Check the bucket.*(ExpiredToken|keys have expired)"):
                refused()


def test_missing_bucket_is_named(place: Place) -> None:
    lake, told_so = Lake(place.missing), r"Check the bucket.*(NoSuchBucket|ContainerNotFound|no bucket named)"
    for refused in (lambda: lake.append(TABLE, [row(1)]), lambda: lake.create(TABLE)):
        with pytest.raises(MillraceError, match=told_so) as told:
            refused()
        assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("uri", "environment", "sentence"),
    [
        ("az://lake/a", {}, "AZURE_STORAGE_ACCOUNT_NAME.*name the account in the URI"),
        ("abfss://lake/a", {}, r"abfss://CONTAINER@ACCOUNT\.dfs\.core\.windows\.net/PREFIX.*Use this form"),
        ("abfss://lake@account/a", {}, "Use this form"),
        ("gs:///lake", {}, "gs://BUCKET/PREFIX.*Use this form"),
        ("ftp://lake", {}, "gs://BUCKET/PREFIX"),
    ],
)
def test_wrong_uri_is_refused_with_its_form(
    uri: str, environment: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(MillraceError, match=sentence):
        Lake(uri)


def test_missing_keys_are_reported_in_a_sentence(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in place.environment:
        if "KEY" in key:
            monkeypatch.delenv(key)
    with answering(500, b"") as nobody:  # the service that knows the role of a machine
        monkeypatch.setenv("GCE_METADATA_HOST", nobody.removeprefix("http://"))
        with pytest.raises(MillraceError, match="Check the bucket, its keys and their permissions") as told:
            Lake(place.lake).append(TABLE, [row(1)])
    assert "\n" not in str(told.value)


def test_options_of_a_file_override_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "options.json"
    file.write_text(json.dumps({"AWS_REGION": "eu-north-1"}))
    file.chmod(0o600)
    environment = {"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "key"}
    assert options_of(environment, S3) == environment
    assert options_of({**environment, OPTIONS_VARIABLE: str(file)}, S3) == {"AWS_REGION": "eu-north-1"}


@pytest.mark.parametrize(
    ("text", "mode"),
    [("{", 0o600), ("[]", 0o600), ('{"REGION": "x"}', 0o600), ('{"AWS_REGION": 1}', 0o600), ("{}", 0o644)],
)
def test_options_that_are_wrong_or_readable_by_others_are_refused(tmp_path: Path, text: str, mode: int) -> None:
    file = tmp_path / "options.json"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(MillraceError, match=OPTIONS_VARIABLE):
        options_of({OPTIONS_VARIABLE: str(file)}, S3)
    for named in (str(tmp_path / "none"), "options.json"):
        with pytest.raises(MillraceError, match=OPTIONS_VARIABLE):
            options_of({OPTIONS_VARIABLE: named}, S3)


def test_keys_never_appear_in_the_text_of_a_location() -> None:
    location = Location("s3://bucket/lake", {"AWS_SECRET_ACCESS_KEY": "planted"})
    assert "planted" not in f"{location} {location!r}"
