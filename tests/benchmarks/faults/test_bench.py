from __future__ import annotations

from benchmarks.faults.bench import Campaign, campaign_records


def test_slowest_recoveries_and_what_never_came_back_are_judged() -> None:
    found = Campaign({"driver_killed": [20.0, 30.0], "source_away": [200.0]}, ["master_killed"], doubled=1)
    records = {(r.scenario, r.figure): r for r in campaign_records(found)}
    assert records["driver_killed", "recovered_s"].value == 25.0
    assert (records["all", "recovered_p95_s"].n, records["all", "recovered_p95_s"].holds) == (3, False)
    assert (records["all", "not_recovered"].value, records["all", "not_recovered"].holds) == (1, False)
    assert not records["all", "doubled_drivers"].holds
    assert records["all", "tracebacks"].holds


def test_campaign_in_which_all_was_well_holds() -> None:
    assert all(r.holds for r in campaign_records(Campaign({"driver_killed": [20.0]})) if r.target)
