from __future__ import annotations

from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from mlflow import MlflowClient, sklearn
from PIL import Image
from sklearn.gaussian_process import GaussianProcessRegressor
from skops import io

from millrace.reporting.artifacts import log_picture, save_model


def test_picture_is_small_and_shows_the_figure(tmp_path: Path) -> None:
    figure = Figure(layout="constrained")
    axes = figure.subplots()
    axes.plot([1, 2, 3], color="tab:blue", label="model")
    axes.axvline(1, color="tab:purple", label="rule")
    axes.fill_between([0, 1, 2], [0, 1, 2], [2, 3, 4], alpha=0.2)
    axes.legend()
    plain = BytesIO()
    figure.savefig(plain, format="png")
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    experiment = client.create_experiment("pictures", artifact_location=str(tmp_path / "artifacts"))
    run_id = client.create_run(experiment).info.run_id

    log_picture(client, run_id, figure, "curve.png")

    (logged,) = tmp_path.rglob("curve.png")
    assert logged.stat().st_size < len(plain.getvalue()) / 2
    shown, drawn = (np.asarray(Image.open(file).convert("RGB"), dtype=float) for file in (logged, plain))
    assert np.abs(shown - drawn).max() < 32
    for colour in ("tab:blue", "tab:purple"):
        assert np.abs(shown - 255 * np.array(to_rgb(colour))).max(axis=2).min() < 4


@pytest.mark.filterwarnings("ignore")
def test_model_is_small_and_predicts_the_same(tmp_path: Path) -> None:
    model = GaussianProcessRegressor(random_state=0).fit([[1.0], [2.0], [4.0]], [1.0, 1.9, 3.2])
    types = io.get_untrusted_types(data=io.dumps(model))

    save_model(str(tmp_path / "model"), sk_model=model, serialization_format="skops", skops_trusted_types=types)

    with ZipFile(tmp_path / "model" / "model.skops") as file:
        assert {part.compress_type for part in file.infolist()} == {ZIP_DEFLATED}
    loaded = sklearn.load_model(str(tmp_path / "model"))
    np.testing.assert_allclose(loaded.predict([[3.0]]), model.predict([[3.0]]))
