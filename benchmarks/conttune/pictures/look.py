"""How the pictures look: one colour a tuner, and a plain frame."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 130
COLOURS: Mapping[str, str] = {
    "flow": "#0072B2",
    "Flink": "#D55E00",
    "ContTune": "#009E73",
    "DS2": "#B25C9B",
    "oracle": "#444444",
}
"""By tuner; told apart by the colour-blind too."""


def plain(axes: Axes) -> None:
    """Take away what tells nothing, and add faint lines to read values by."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def kept(figure: Figure, folder: Path, name: str) -> Path:
    """Write a picture and return its path."""
    path = folder / f"{name}.png"
    figure.savefig(path, dpi=DPI)
    return path
