"""A drawing of a pipeline's apps: boxes with their slots and rates, arrows with the rows that one passes to another."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from millrace.reporting.app_views import NOT_NEEDED, AppView

WIDTH, HEIGHT, ACROSS, DOWN = 224, 78, 110, 26
"""Size of a box, and the space to the next one."""
MARGIN, HEAD, LINE = 8, 8, 19
"""Space around the drawing, length of an arrowhead, height of a line of text."""

Point = tuple[float, float]


def app_graph(views: Sequence[AppView]) -> Markup:
    """Return an SVG drawing in the text colour of the page around it; empty without apps.

    Args:
        views: The apps, those that feed others first.
    """
    if not views:
        return Markup()
    columns = [[view for view in views if view.depth == depth] for depth in range(max(v.depth for v in views) + 1)]
    rows = max(map(len, columns))
    at: dict[str, Point] = {}
    for number, column in enumerate(columns):
        top = MARGIN + (rows - len(column)) * (HEIGHT + DOWN) / 2
        for row, view in enumerate(column):
            at[view.name] = (MARGIN + number * (WIDTH + ACROSS), top + row * (HEIGHT + DOWN))
    size = (
        2 * MARGIN + len(columns) * (WIDTH + ACROSS) - ACROSS,
        2 * MARGIN + rows * (HEIGHT + DOWN) - DOWN,
    )
    arrows = [_arrow(at[view.name], at[name], rate) for view in views for name, rate in view.feeds.items()]
    names = ", ".join(view.name for view in views)
    return Markup(
        '<svg class="apps" viewBox="0 0 {} {}" width="{}" role="img" aria-label="Apps {}" '
        'style="max-width: 100%; height: auto" fill="currentColor" font-size="14">{}</svg>'
    ).format(*size, size[0], names, Markup().join([*arrows, *(_box(view, at[view.name]) for view in views)]))


def _box(view: AppView, at: Point) -> Markup:
    x, y = at
    rate, most = (f"{value:,.0f}" if value is not None else "?" for value in (view.arrival, view.sustainable))
    below = [f"{rate} of at most {most} rows/s"] if view.needed else [NOT_NEEDED]
    below += [] if view.waiting is None or not view.needed else [f"{view.waiting:,} rows wait"]
    title = f"{view.name}: {view.slots} slots" if view.needed else view.name
    texts = [
        Markup('<text x="{}" y="{}"{}>{}</text>').format(x + 12, y + 22 + LINE * number, style, text)
        for number, (text, style) in enumerate(
            [(title, Markup(' font-weight="600"')), *((text, Markup()) for text in below)]
        )
    ]
    outline = Markup(
        '<rect x="{}" y="{}" width="{}" height="{}" rx="8" fill="none" stroke="currentColor" stroke-opacity="0.5"/>'
    ).format(x, y, WIDTH, HEIGHT)
    return outline + Markup().join(texts)


def _arrow(start: Point, end: Point, rate: float | None) -> Markup:
    (x1, y1), (x2, y2) = (start[0] + WIDTH, start[1] + HEIGHT / 2), (end[0], end[1] + HEIGHT / 2)
    line = Markup('<path d="M{} {} L{} {}" stroke="currentColor" stroke-opacity="0.6" fill="none"/>').format(
        x1, y1, x2 - HEAD, y2
    )
    half = HEAD / 2
    tip = Markup('<polygon points="{},{} {},{} {},{}"/>').format(x2, y2, x2 - HEAD, y2 - half, x2 - HEAD, y2 + half)
    text = Markup() if rate is None else Markup("{:,.0f} rows/s").format(rate)
    label = Markup('<text x="{}" y="{}" text-anchor="middle" font-size="13">{}</text>').format(
        (x1 + x2 - HEAD) / 2, (y1 + y2) / 2 - 6, text
    )
    return line + tip + label
