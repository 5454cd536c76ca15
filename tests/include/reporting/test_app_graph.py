from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

from millrace.model.signals import Edge
from millrace.optimizers.conformance.builders import app_signals, capacity, signals
from millrace.reporting.app_graph import app_graph
from millrace.reporting.app_views import AppView, views

SLOTS = {"report": 2, "clean": 4, "audit": 2, "enrich": 6}
EDGES = (Edge("clean", "enrich", 118.0), Edge("clean", "audit", None), Edge("enrich", "report", 40.0))


def seen() -> list[AppView]:
    each = tuple(app_signals(n, 60.0, capacity(n, 100.0), app=name) for name, n in SLOTS.items())
    return list(views(SLOTS, replace(signals(each[0]), apps=each, edges=EDGES)))


def test_apps_are_ordered_by_the_longest_path_to_them() -> None:
    assert [(view.name, view.depth) for view in seen()] == [("clean", 0), ("enrich", 1), ("audit", 1), ("report", 2)]


def test_each_app_is_a_box_and_each_edge_an_arrow_with_its_rate() -> None:
    drawing = ET.fromstring(app_graph(seen()))
    assert len(drawing.findall("rect")) == 4
    texts = [text.text for text in drawing.findall("text")]
    assert {"clean: 4 slots", "enrich: 6 slots", "118 rows/s", "40 rows/s"} <= set(texts)
    assert len(drawing.findall("path")) == len(drawing.findall("polygon")) == len(EDGES)


def test_boxes_of_one_column_do_not_overlap_and_all_fit_in() -> None:
    drawing = ET.fromstring(app_graph(seen()))
    width, height = (float(n) for n in drawing.attrib["viewBox"].split()[2:])
    boxes = [[float(r.attrib[k]) for k in ("x", "y", "width", "height")] for r in drawing.findall("rect")]
    assert all(x >= 0 and x + w <= width and y >= 0 and y + h <= height for x, y, w, h in boxes)
    for one, other in ((a, b) for a in boxes for b in boxes if a is not b and a[0] == b[0]):
        assert abs(one[1] - other[1]) >= one[3]


def test_names_are_escaped() -> None:
    text = app_graph([AppView("<a&b>", 2), AppView("c", 2)])
    assert "<a&b>" not in text and "&lt;a&amp;b&gt;" in text
    ET.fromstring(text)


def test_nothing_is_drawn_without_apps() -> None:
    assert app_graph([]) == ""


def test_unmeasured_apps_are_drawn_with_question_marks() -> None:
    assert "? of at most ? rows/s" in app_graph(views(SLOTS, None))


def test_app_that_is_not_needed_now_has_no_figures() -> None:
    text = app_graph([AppView("node0", 2), AppView("node1", 2, needed=False)])
    assert "node0: 2 slots" in text and "not needed now" in text and text.count("of at most") == 1
    assert "node1: 2 slots" not in text
