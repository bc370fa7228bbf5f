"""Trackers of runs, with fake packages."""

from __future__ import annotations

import importlib.machinery
import sys
from pathlib import Path

import keras
import pandas as pd
import pytest
import tensorflow as tf

from relation_tf.bench import run_suite
from relation_tf.bench.tracking import TRACKERS
from relation_tf.errors import SuiteError

pytestmark = pytest.mark.tensorflow

# Each package sends the same events to `tracked.EVENTS`.
FILES = {
    "tracked.py": """
import keras

EVENTS = []

class Epochs(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        EVENTS.append(("epoch", epoch, logs["val_loss"]))
""",
    "tensorboard.py": "",
    "trackio.py": """
from tracked import EVENTS

def init(project, name, config, **options):
    EVENTS.append(("start", name, config["units"]))

def log(values, step=None):
    EVENTS.append(("scores", values) if step is None else ("epoch", step, values["val_loss"]))

def finish():
    EVENTS.append(("end",))
""",
    "wandb/__init__.py": """
from types import SimpleNamespace
from tracked import EVENTS

Settings = dict

class init:
    def __init__(self, name, group, config, settings):
        EVENTS.append(("start", name, config["units"]))
        self.summary = SimpleNamespace(update=lambda scores: EVENTS.append(("scores", scores)))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        EVENTS.append(("end", *error[1:2]) if error[0] else ("end",))
""",
    "wandb/integration/__init__.py": "",
    "wandb/integration/keras.py": """
from tracked import Epochs

class WandbMetricsLogger(Epochs):
    def on_epoch_end(self, epoch, logs=None):
        assert float(self.model.optimizer.learning_rate) > 0
        super().on_epoch_end(epoch, logs)
""",
    "mlflow/__init__.py": """
from contextlib import contextmanager
from tracked import EVENTS

@contextmanager
def start_run(run_name):
    EVENTS.append(("start", run_name))
    yield
    EVENTS.append(("end",))

def set_experiment(name):
    pass

def log_params(settings):
    EVENTS[-1] += (settings["units"],)

def log_metrics(scores):
    EVENTS.append(("scores", scores))
""",
    "mlflow/keras/__init__.py": "",
    "mlflow/keras/callback.py": "from tracked import Epochs as MlflowCallback",
}

METHOD = [{"mechanism": "baseline", "units": 8}]


@pytest.fixture
def events(tmp_path, monkeypatch):
    """Install the fake packages; return the list of their events."""
    for name, content in FILES.items():
        path = tmp_path / "packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    names = {name.partition("/")[0].removesuffix(".py") for name in FILES}
    for module in [each for each in sys.modules if each.partition(".")[0] in names]:
        monkeypatch.delitem(sys.modules, module)
    import tracked

    class TensorBoard(tracked.Epochs):
        def __init__(self, folder, write_graph):
            super().__init__()
            tracked.EVENTS.append(("start", "/".join(folder.parts[-3:])))

        def on_train_end(self, logs=None):
            tracked.EVENTS.append(("end",))

    def scalar(name, score):
        tracked.EVENTS.append(("scores", {name: score}))

    def text(name, settings):
        tracked.EVENTS[-1] += (8,) if '"units": 8' in settings else ()

    monkeypatch.setattr(keras.callbacks, "TensorBoard", TensorBoard)
    monkeypatch.setattr(tf.summary, "scalar", scalar)
    monkeypatch.setattr(tf.summary, "text", text)
    yield tracked.EVENTS
    for module in [each for each in sys.modules if each.partition(".")[0] in names]:
        sys.modules.pop(module)


@pytest.mark.parametrize("name", TRACKERS)
def test_settings_epochs_and_scores(name, events, tmp_path, small_glue, suite):
    asked = suite(tasks=["CoLA"], seeds=[1, 2], epochs=2, method=METHOD)
    expected = []
    for run in run_suite(asked, tmp_path, data=small_glue, track=name, quiet=True).runs:
        losses = pd.read_csv(Path(run["folder"], "history.csv"))["val_loss"]
        expected += [
            ("start", f"CoLA/baseline-8/seed-{run['seed']}", 8),
            *(("epoch", epoch, pytest.approx(loss)) for epoch, loss in enumerate(losses, 1)),
            ("scores", {"metrics/CoLA/matthews": run["metrics"]["CoLA"]["matthews"]}),
            ("end",),
        ]
    assert events == expected


@pytest.mark.slow
def test_a_failure_is_one_warning_and_changes_no_result(
    events, tmp_path, small_glue, suite, monkeypatch, capsys
):
    import trackio

    monkeypatch.delattr(trackio, "log")
    monkeypatch.setattr(trackio, "finish", lambda: print("printed by a package"))
    asked = suite(tasks=["STS-B"], seeds=[1], epochs=2, method=METHOD)
    without, tracked = (
        run_suite(asked, tmp_path / str(len(track)), data=small_glue, track=track)
        for track in ((), ("trackio", "wandb"))
    )
    assert tracked.failures == []
    assert without.metrics["value"].tolist() == tracked.metrics["value"].tolist()
    printed = capsys.readouterr().out
    assert printed.count("tracker trackio: AttributeError") == 1
    assert "printed by a package" not in printed
    assert [each[0] for each in events].count("end") == 1


def test_a_missing_package_is_an_error_before_the_first_run(tmp_path, suite, monkeypatch):
    (tmp_path / "wandb").mkdir()  # a folder of W&B's runs is not the package
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    monkeypatch.setattr(sys, "meta_path", [importlib.machinery.PathFinder])
    with pytest.raises(SuiteError, match=r"wandb, which is not .* 'relation-tf\[wandb\]'"):
        run_suite(suite(), tmp_path / "out", track="wandb")
    assert not (tmp_path / "out").exists()
