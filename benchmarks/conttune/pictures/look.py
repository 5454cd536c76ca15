"""The style of the pictures: one colour per tuner, and a plain frame."""

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
"""By tuner; colour-blind readers can distinguish them."""


def plain(axes: Axes) -> None:
    """Remove frame lines without information, and add faint lines for reading values."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def kept(figure: Figure, folder: Path, name: str) -> Path:
    """Write a picture and return its path."""
    path = folder / f"{name}.png"
    figure.savefig(path, dpi=DPI)
    return path
