"""The picture of a placement: the load of every key group on its node, before and after, as a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from include.model.placement import PlacementPlan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = "viridis"


def placement_figure(plan: PlacementPlan) -> Figure:
    """Return two heat maps of nodes x key groups, one colour scale, the node's load beside each row.

    Groups are in the order of the node they are to sit on, heaviest first, so that the plan shows as blocks.
    """
    from matplotlib.figure import Figure  # no pyplot: no display, no global state

    load = np.array(plan.load)
    order = np.lexsort((-load, np.array(plan.after)))
    figure = Figure(figsize=(10, 1.6 + 0.55 * 2 * max(2, len(plan.nodes))), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    parts = (
        (above, "before", plan.before, plan.loads_before, plan.distance_before, plan.collocation_before),
        (below, "after", plan.after, plan.loads_after, plan.distance_after, plan.collocation_after),
    )
    image = None
    for axes, word, node, loads, distance, together in parts:
        cells = np.full((len(plan.nodes), len(load)), np.nan)
        placed = np.array(node)[order]
        at = np.flatnonzero(placed >= 0)
        cells[placed[at], at] = load[order][at]
        image = axes.imshow(cells, aspect="auto", cmap=COLOURS, vmin=0, vmax=float(load.max()), interpolation="nearest")
        names = [f"{name}  {of:.0f}" for name, of in zip(plan.nodes, loads, strict=True)]
        axes.set_yticks(range(len(names)), names)
        proven = f" (proven minimum {plan.bound:.1f})" if word == "after" else ""
        stay = f"{100 * together:.0f} % of rows stay on their node"
        axes.set_title(f"{word}: load distance {distance:.1f}{proven}, {stay}", fontsize="medium", loc="left")
    below.set_xlabel(f"{len(load)} key groups; beside each node its load in points of {plan.resource}")
    if image is not None:
        figure.colorbar(image, ax=[above, below], label="load of a key group (points)")
    return figure
