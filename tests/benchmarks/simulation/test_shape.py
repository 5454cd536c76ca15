from __future__ import annotations

import pytest

from benchmarks.simulation.shape import Link, Shape, Vertex
from benchmarks.simulation.shapes import SHAPES, dag12, etl, monitoring, shape
from millrace.model.errors import MillraceError


def build(links: tuple[Link, ...], *names: str, units: dict[str, float] | None = None) -> Shape:
    return Shape("test", tuple(Vertex(n) for n in names), links, units or {"s": 1.0})


def test_gains_when_rows_branch_and_join_then_multiply_along_paths_and_add_up() -> None:
    links = (Link("s", "a", 2.0), Link("a", "b", 0.5), Link("a", "c", 3.0), Link("b", "d"), Link("c", "d", 0.1))
    made = build(links, "s", "d", "c", "b", "a")
    assert dict(zip(made.sizable, made.gains, strict=True)) == {
        "a": (2.0,),
        "b": (1.0,),
        "c": (6.0,),
        "d": pytest.approx((1.6,)),
    }


def test_order_when_given_backwards_then_puts_producers_first() -> None:
    made = build((Link("s", "a"), Link("a", "b")), "b", "a", "s")
    assert made.order == ("s", "a", "b") and made.sizable == ("a", "b")


@pytest.mark.parametrize(
    ("names", "links", "units"),
    [
        (("s", "a", "a"), (Link("s", "a"),), {"s": 1.0}),
        (("s", "a"), (Link("s", "x"),), {"s": 1.0}),
        (("s", "a", "b"), (Link("s", "a"),), {"s": 1.0}),
        (("s", "a"), (Link("s", "a"), Link("a", "s")), {"s": 1.0}),
        (("s", "t", "a"), (Link("s", "a"),), {"s": 1.0, "t": 1.0}),
        (("s", "a", "b"), (Link("s", "a"), Link("a", "b"), Link("b", "a")), {"s": 1.0}),
        (("s", "a"), (Link("s", "a", 0.0),), {"s": 1.0}),
        (("s", "a"), (Link("s", "a"),), {"s": 0.0}),
    ],
    ids=["twice", "unknown", "no input", "fed source", "idle source", "cycle", "no ratio", "no unit"],
)
def test_shape_when_it_is_not_a_job_then_is_refused(
    names: tuple[str, ...], links: tuple[Link, ...], units: dict[str, float]
) -> None:
    with pytest.raises(MillraceError, match="shape"):
        build(links, *names, units=units)


def test_shapes_when_counted_then_have_the_papers_operators_and_unit_rates() -> None:
    counts = {name: len(made().vertices) for name, made in SHAPES.items()}
    assert counts == {
        "wordcount": 3,
        "q1": 3,
        "q2": 3,
        "q3": 5,
        "q5": 3,
        "q8": 4,
        "dag12": 15,
        "etl": 8,
        "monitoring": 9,
        "video": 3,
    }
    assert {name: tuple(SHAPES[name]().units.values()) for name in ("wordcount", "q1", "q2", "q3", "q5", "q8")} == {
        "wordcount": (100e3,),
        "q1": (700e3,),
        "q2": (900e3,),
        "q3": (200e3, 40e3),
        "q5": (80e3,),
        "q8": (100e3, 60e3),
    }


def test_dag12_has_12_operators_3_sources_branches_and_joins() -> None:
    made = dag12()
    assert len(made.sizable) == 12 and len(made.sources) == 3
    out = [sum(link.producer == v.id for link in made.links) for v in made.vertices]
    into = [sum(link.consumer == v.id for link in made.links) for v in made.vertices]
    assert max(out) >= 2 and max(into) >= 2


def test_monitoring_is_three_separate_chains() -> None:
    assert all(sum(g > 0 for g in gain) == 1 for gain in monitoring().gains)


def test_etl_has_one_heavy_operator() -> None:
    highest = sorted(etl().vertex[name].levels[1] for name in etl().sizable)
    assert highest[-1] > 100 and highest[-2] < 10


def test_shape_when_unknown_then_lists_the_known_ones() -> None:
    with pytest.raises(MillraceError, match="wordcount"):
        shape("q9")
