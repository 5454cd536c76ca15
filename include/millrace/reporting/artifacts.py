"""Artifacts of MLflow's runs in small files: each change of each pipeline has some, and MLflow keeps them for months.

As a flavour of MLflow, this module saves what ``mlflow.sklearn`` saves. skops writes a model's structure as text, and
nothing compresses it.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZipFile

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from mlflow import MlflowClient

COLOURS = 256
"""Colours of a picture: enough for lines, bands and their smooth edges, in a fourth of the bytes."""


def log_picture(client: MlflowClient, run_id: str, figure: Figure, name: str) -> None:
    """Add a figure to a run as a PNG with a palette.

    Args:
        client: MLflow's client.
        run_id: The run.
        figure: The figure.
        name: Its file in the run.
    """
    from PIL import Image

    with BytesIO() as drawn:
        figure.savefig(drawn, format="png")
        picture = Image.open(drawn).convert("RGB").quantize(COLOURS, Image.Quantize.FASTOCTREE)
    client.log_image(run_id, picture, name)


def save_model(path: str, mlflow_model: Any = None, **settings: Any) -> None:
    """Save a model as ``mlflow.sklearn`` does, and compress it; whoever loads it sees no difference.

    Args:
        path: Folder of the model; it must not exist yet.
        mlflow_model: MLflow's description of the model, to be completed.
        settings: Arguments of ``mlflow.sklearn.save_model``; the format has to be skops.
    """
    from mlflow import sklearn

    sklearn.save_model(path=path, mlflow_model=mlflow_model, **settings)
    file = Path(path, "model.skops")
    with ZipFile(file) as saved:
        parts = {name: saved.read(name) for name in saved.namelist()}
    with ZipFile(file, "w", ZIP_DEFLATED) as compressed:
        for name, part in parts.items():
            compressed.writestr(name, part)
