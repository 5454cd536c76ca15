from __future__ import annotations

from benchmarks.document import anchor, document
from benchmarks.record import Record

GOOD = Record("stack", "start", "millrace", "healthy_s", 30.0, "s", 28.0, 31.0, 3, "<=45", True)
BAD = Record("placement", "skew", "albic", "batch_time_vs_wait_0", 0.99, "ratio", target="<=0.95", holds=False)


def test_page_begins_with_what_was_missed_and_links_to_its_row() -> None:
    page = document([GOOD, BAD])
    missed, _, rest = page.partition("## placement")
    assert f"[placement](#{anchor(BAD)})" in missed and "healthy_s" not in missed
    assert f'<a id="{anchor(BAD)}"></a>skew' in rest and "**no**" in rest
    assert "| 30 s | 28 - 31 | 3 | <=45 | yes |" in rest


def test_page_of_targets_that_hold_says_that_none_was_missed() -> None:
    assert "None." in document([GOOD])
