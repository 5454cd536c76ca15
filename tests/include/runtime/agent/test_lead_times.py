"""Lead times of executors: from their request until they register, over withdrawals, losses and drivers."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from millrace.model.errors import MillraceError
from millrace.runtime.agent.lead_times import MARGIN, MOST_S, SHORT_S, LeadTimes


def test_lead_time_is_the_time_from_a_request_until_an_executor_registers() -> None:
    leads = LeadTimes()
    leads.update({"0"}, 1, 0.0)
    leads.update({"0"}, 3, 10.0)
    leads.update({"0", "1"}, 3, 50.0)
    leads.update({"0", "1", "2"}, 3, 190.0)
    assert [leads.lead_s(id) for id in ("0", "1", "2")] == [None, 40.0, 180.0]
    assert leads.patience_s() == MARGIN * 180.0


def test_withdrawn_request_is_the_newest_one_and_a_loss_is_a_request() -> None:
    leads = LeadTimes()
    leads.update({"0"}, 2, 0.0)
    leads.update({"0"}, 3, 30.0)
    leads.update({"0"}, 2, 40.0)  # the request of 30.0 is withdrawn
    leads.update({"0", "1"}, 2, 60.0)
    leads.update({"1"}, 2, 100.0)  # 0 is lost
    leads.update({"1", "2"}, 2, 107.0)
    assert (leads.lead_s("1"), leads.lead_s("2")) == (60.0, 7.0)


def test_patience_is_that_of_earlier_drivers_too_and_they_are_asked_once() -> None:
    asked = []

    def former() -> Iterable[float]:
        asked.append(1)
        return [12.0, 200.0, MOST_S + 1.0]

    leads = LeadTimes(former)
    assert [leads.patience_s(), leads.patience_s()] == [MARGIN * 200.0] * 2
    assert len(asked) == 1


def test_patience_of_quick_executors_is_the_usual_one_even_if_the_lake_is_away() -> None:
    def former() -> Iterable[float]:
        raise MillraceError("lake", "gone", "a folder", "Mount it.")

    assert LeadTimes(former).patience_s() == pytest.approx(SHORT_S)
    assert LeadTimes(lambda: [4.0]).patience_s() == pytest.approx(SHORT_S)
