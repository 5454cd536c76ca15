from __future__ import annotations

from benchmarks.record import Record
from benchmarks.targets import Target, judged

AIMED = Target("paper", "flow", "reconfigurations_per_tuning", 1.05)


def test_judged_when_a_figure_has_a_target_then_says_if_it_holds() -> None:
    good = Record("conttune", "paper", "flow", "reconfigurations_per_tuning", 1.05, "")
    bad = Record("conttune", "paper", "flow", "reconfigurations_per_tuning", 1.06, "")
    rival = Record("conttune", "paper", "ds2", "reconfigurations_per_tuning", 4.0, "")
    assert [(r.target, r.holds) for r in judged([good, bad, rival], [AIMED])] == [
        ("<=1.05", True),
        ("<=1.05", False),
        (None, None),
    ]


def test_judged_when_a_record_has_its_own_target_then_keeps_it() -> None:
    own = Record("conttune", "paper", "flow", "reconfigurations_per_tuning", 9.0, "", target="<10", holds=True)
    assert judged([own], [AIMED]) == [own]
