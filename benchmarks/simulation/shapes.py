"""Jobs to tune: the paper's six queries and three applications, and a 12-operator DAG.

Operator counts are the paper's (Section 8.1), sources and sinks included; unit rates are its Table 3, rows per second.
The paper does not state selectivities or the weight of each operator. Ours are heavy enough for its core counts (Tables
4(b) and 5: 10 to 30 slots at ten times the unit rate).
"""

from __future__ import annotations

from benchmarks.simulation.noise import Window
from benchmarks.simulation.shape import Link, Shape, Vertex
from millrace.model.errors import MillraceError

HEAVY, MEDIUM, LIGHT = (14.0, 28.0), (6.0, 16.0), (2.0, 8.0)
SOURCE = (1.0, 1.0)


def wordcount() -> Shape:
    """Return Dhalion's word count: lines are split into words, words counted."""
    return Shape(
        "wordcount",
        (Vertex("lines", SOURCE), Vertex("split", MEDIUM), Vertex("count", HEAVY)),
        (Link("lines", "split"), Link("split", "count", 8.0)),
        {"lines": 100e3},
    )


def q1() -> Shape:
    """Return Nexmark Q1: every bid is converted to another currency."""
    return _chain("q1", {"bids": 700e3}, Vertex("map", HEAVY), Vertex("sink", LIGHT), 1.0)


def q2() -> Shape:
    """Return Nexmark Q2: few bids pass a filter."""
    return _chain("q2", {"bids": 900e3}, Vertex("filter", HEAVY), Vertex("sink", LIGHT), 0.2)


def q3() -> Shape:
    """Return Nexmark Q3: filtered auctions join persons, incrementally."""
    return Shape(
        "q3",
        (
            Vertex("auctions", SOURCE),
            Vertex("persons", SOURCE),
            Vertex("filter", MEDIUM),
            Vertex("join", HEAVY),
            Vertex("sink", LIGHT),
        ),
        (
            Link("auctions", "filter"),
            Link("filter", "join", 0.4),
            Link("persons", "join"),
            Link("join", "sink", 0.3),
        ),
        {"auctions": 200e3, "persons": 40e3},
    )


def q5(window: Window | None = None) -> Shape:
    """Return Nexmark Q5: hot items of a sliding window."""
    return _chain("q5", {"bids": 80e3}, Vertex("window", HEAVY, window or Window()), Vertex("sink", LIGHT), 0.5)


def q8(window: Window | None = None) -> Shape:
    """Return Nexmark Q8: persons join auctions in a tumbling window."""
    return Shape(
        "q8",
        (
            Vertex("auctions", SOURCE),
            Vertex("persons", SOURCE),
            Vertex("join", (8.0, 18.0), window or Window()),
            Vertex("sink", LIGHT),
        ),
        (Link("auctions", "join"), Link("persons", "join"), Link("join", "sink", 0.3)),
        {"auctions": 100e3, "persons": 60e3},
    )


def dag12() -> Shape:
    """Return 12 operators behind 3 sources, which branch and join: no path is independent of all others."""
    sources = tuple(Vertex(name, SOURCE) for name in ("clicks", "orders", "stock"))
    operators = (
        Vertex("parse", MEDIUM),
        Vertex("clean", MEDIUM),
        Vertex("read", LIGHT),
        Vertex("sessions", MEDIUM, Window()),
        Vertex("enrich", HEAVY),
        Vertex("match", MEDIUM),
        Vertex("rank", MEDIUM),
        Vertex("score", HEAVY),
        Vertex("alert", LIGHT),
        Vertex("merge", MEDIUM),
        Vertex("store", LIGHT),
        Vertex("report", LIGHT),
    )
    links = (
        Link("clicks", "parse"),
        Link("orders", "clean"),
        Link("stock", "read"),
        Link("parse", "sessions"),
        Link("parse", "rank", 0.5),
        Link("clean", "enrich", 0.9),
        Link("read", "enrich", 2.0),
        Link("read", "match"),
        Link("sessions", "score", 0.4),
        Link("enrich", "score", 0.6),
        Link("enrich", "match", 0.5),
        Link("score", "alert", 0.1),
        Link("score", "merge", 0.8),
        Link("match", "merge", 0.7),
        Link("rank", "report", 0.2),
        Link("merge", "store"),
        Link("merge", "report", 0.3),
    )
    return Shape("dag12", (*sources, *operators), links, {"clicks": 300e3, "orders": 120e3, "stock": 50e3})


def etl() -> Shape:
    """Return an ETL job of 8 operators, one of them heavy.

    Before tuning, the real job had 350 cores for the heavy operator and about 8 for each other one.
    """
    names = ("parse", "filter", "transform", "lookup", "route", "archive", "load")
    heavy = {"transform": (150.0, 300.0)}
    links = (
        Link("source", "parse"),
        Link("parse", "filter"),
        Link("filter", "transform", 0.9),
        Link("transform", "lookup", 1.2),
        Link("lookup", "route"),
        Link("route", "archive", 0.3),
        Link("route", "load", 0.7),
    )
    operators = tuple(Vertex(name, heavy.get(name, (4.0, 9.0))) for name in names)
    return Shape("etl", (Vertex("source", SOURCE), *operators), links, {"source": 32e3})


def monitoring() -> Shape:
    """Return three independent chains, of 72, 6 and 57 cores before tuning."""
    vertices: list[Vertex] = []
    links: list[Link] = []
    units = {}
    for name, cores in (("metrics", 72), ("events", 6), ("logs", 57)):
        source, operator, sink = f"{name}_source", name, f"{name}_sink"
        worked = Vertex(operator, (0.5 * cores, 0.8 * cores))
        vertices += [Vertex(source, SOURCE), worked, Vertex(sink, (max(1.5, 0.05 * cores), max(3.0, 0.15 * cores)))]
        links += [Link(source, operator), Link(operator, sink, 0.5)]
        units[source] = 1e3 * cores
    return Shape("monitoring", tuple(vertices), tuple(links), units)


def video() -> Shape:
    """Return a video streaming job of 3 operators."""
    return _chain("video", {"frames": 400e3}, Vertex("transcode", (20.0, 45.0)), Vertex("sink", MEDIUM), 1.0)


QUERIES = (wordcount, q1, q2, q3, q5, q8)
"""The paper's six queries, in its order."""
SHAPES = {shape.__name__: shape for shape in (*QUERIES, dag12, etl, monitoring, video)}


def shape(name: str) -> Shape:
    """Return a shape by its name.

    Raises:
        MillraceError: If it is unknown.
    """
    if name not in SHAPES:
        raise MillraceError("shape", name, ", ".join(SHAPES), "Name one of them.")
    return SHAPES[name]()


def _chain(name: str, units: dict[str, float], operator: Vertex, sink: Vertex, selectivity: float) -> Shape:
    source = next(iter(units))
    links = (Link(source, operator.id), Link(operator.id, sink.id, selectivity))
    return Shape(name, (Vertex(source, SOURCE), operator, sink), links, units)
