import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from millrace.drivers.wake import Wake
from millrace.model.errors import MillraceError
from millrace.plugins import driver_end
from millrace.plugins.driver_end import DriverEndTrigger

pytestmark = pytest.mark.airflow


def test_serialize_when_made_again_then_is_the_same_trigger() -> None:
    from airflow._shared.module_loading import import_string

    trigger = DriverEndTrigger("/run", "/lake")
    path, arguments = trigger.serialize()
    assert import_string(path)(**arguments).serialize() == trigger.serialize()


def test_trigger_fires_for_each_driver_that_is_due_and_survives_an_unreadable_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: Iterator[tuple[str, ...] | Exception] = iter(
        [(), MillraceError("lake", "l", "readable", "Restore it."), ("a",), (), ("b", "c")]
    )

    def due(wake: Wake, now: datetime) -> tuple[str, ...]:
        result = next(found)
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(driver_end, "POLL_S", 0.0)
    monkeypatch.setattr(Wake, "due", due)

    async def first_two() -> list[object]:
        events = DriverEndTrigger(str(tmp_path), str(tmp_path)).run()
        return [(await anext(events)).payload["pipelines"] for _ in range(2)]

    assert asyncio.run(first_two()) == [["a"], ["b", "c"]]
