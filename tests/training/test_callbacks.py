"""Keras callbacks of runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from relation_tf.bench import run_suite
from relation_tf.errors import SuiteError
from relation_tf.files import read_json

pytestmark = pytest.mark.tensorflow

MODULE = '''
import json
from pathlib import Path

import keras


class Observer(keras.callbacks.Callback):
    """Writes every call into a file per run."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.calls = folder, []

    def on_train_begin(self, logs=None):
        self.calls.append(["train_begin", sorted(self.params)])

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(["epoch_begin", epoch])

    def on_epoch_end(self, epoch, logs=None):
        sizes = [len(weight) for weight in self.model.get_weights()]
        assert sizes
        self.calls.append(["epoch_end", epoch, logs])

    def on_train_end(self, logs=None):
        path = Path(self.folder, self.params["run"].replace("/", "-") + ".json")
        path.write_text(json.dumps([*self.calls, ["train_end"]]))


class Broken(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        raise OSError("no room")


class Zero(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.set_weights([0 * weight for weight in self.model.get_weights()])


class NoCallback:
    pass
'''


def history(folder: Path) -> str:
    table = pd.read_csv(folder / "history.csv", dtype=str)
    return table[[name for name in table if not name.endswith("seconds")]].to_csv()


def result(folder: Path) -> dict:
    found = read_json(folder / "result.json")
    changing = ("seconds", "files", "sha256")  # with the times
    return {key: value for key, value in found.items()
            if "memory" not in key and key not in changing}  # fmt: skip


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module with callbacks."""
    (tmp_path / "suite_callbacks.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield "suite_callbacks"
    sys.modules.pop("suite_callbacks", None)


@pytest.fixture
def train(tmp_path, small_glue, suite):
    """Return a function that trains runs with callbacks, and returns their results."""

    def run(name, *callbacks, seeds=(1,), **options):
        asked = suite(
            tasks=["CoLA"], seeds=[*seeds], epochs=2, callbacks=[*callbacks],
            method=[{"mechanism": "relation", "units": 8}],
        )  # fmt: skip
        return run_suite(asked, tmp_path / name, data=small_glue, **options)

    return run


@pytest.mark.slow
def test_observers_are_called_and_change_no_result(module, train, tmp_path, capsys):
    """A broken callback fails no run."""
    observer = {"callback": f"{module}:Observer", "options": {"folder": str(tmp_path)}}
    broken = f"{module}:Broken"
    without = train("without", quiet=True, seeds=[1, 2])
    observed = train("with", broken, observer, seeds=[1, 2])
    printed = [line for line in capsys.readouterr().out.splitlines() if "callback" in line]
    assert ["OSError in on_epoch_end" in line for line in printed] == [True]
    assert (len(observed.runs), observed.failures) == (2, [])
    for run in without.requested:
        old, new = (tmp_path / name / "runs" / str(run) for name in ("without", "with"))
        assert history(old) == history(new)
        assert result(old) == result(new)
        for path in sorted(old.rglob("*.tsv")):
            assert path.read_bytes() == (new / path.relative_to(old)).read_bytes()
        config = read_json(new / "config.json")
        assert config["callbacks"] == [{"callback": broken, "options": {}}, observer]
        assert len(config["callbacks_digest"]) == 16
        calls = json.loads(Path(tmp_path, f"{str(run).replace('/', '-')}.json").read_text())
        rows = pd.read_csv(new / "history.csv").to_dict("records")
        names = ("loss", "val_loss", "val_matthews")
        assert calls == [
            ["train_begin", ["epochs", "run", "steps", "verbose"]],
            *(
                call
                for epoch, row in enumerate(rows)
                for call in (
                    ["epoch_begin", epoch],
                    ["epoch_end", epoch, pytest.approx({name: row[name] for name in names})],
                )
            ),
            ["train_end"],
        ]


@pytest.mark.parametrize(
    ("stopping", "kept"), [("early_stopping", True), ("smoothed_early_stopping", False)]
)
def test_the_kept_weights_are_the_evaluated_ones(module, network, stopping, kept):
    """A callback changes the weights after the evaluation of the only epoch."""
    outputs = []
    for callbacks in ([], [f"{module}:Zero"]):
        made, config = network(epochs=1, stopping=stopping, callbacks=callbacks)
        outputs.append(made.run(config.seed).predictions["dev", "CoLA"])
    assert np.array_equal(*outputs) is kept
    assert np.ptp(outputs[0], axis=0).min() > 0


def test_callbacks_can_change_a_run(network):
    """The learning rate and the end; each run starts without these changes."""
    slower = {
        "callback": "keras.callbacks:ReduceLROnPlateau",
        "options": {"patience": 0, "min_delta": 100.0, "factor": 0.0},
    }
    end = {
        "callback": "keras.callbacks:EarlyStopping",
        "options": {"monitor": "val_loss", "min_delta": 100.0},
    }
    slowed, ended, plain = (
        [row["val_loss"] for row in made.run(config.seed).history]
        for made, config in (network(epochs=3, callbacks=own) for own in ([slower], [end], []))
    )
    # No second loss is below the first by 100, so the rate of the third epoch is 0.
    assert slowed[:2] == ended == plain[:2]
    assert slowed[2] == slowed[1] != plain[2]


def test_a_changed_callback_is_not_mixed_with_its_older_runs(module, train, tmp_path):
    train("out", f"{module}:Zero", quiet=True)
    path = tmp_path / "suite_callbacks.py"
    path.write_text(path.read_text().replace("0 * weight", "2 * weight"))
    del sys.modules[module]
    with pytest.raises(SuiteError, match="this run was done with another version of its callbacks"):
        train("out", f"{module}:Zero", quiet=True)
    with pytest.raises(SuiteError, match="this run was done with callbacks = "):
        train("out", quiet=True)


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        ("{}:Zero2", "cannot import callback '{}:Zero2': .* Did you mean 'Zero'"),
        ("{}:NoCallback", "must be subclasses of keras.callbacks.Callback. .*: {}:NoCallback"),
        ({"callback": "{}:Zero", "options": {"rate": 1}}, "'{}:Zero': has no options. .*'rate'"),
    ],
)
def test_faults_are_found_before_the_first_run(
    module, tmp_path, small_glue, suite, callback, message
):
    entry = json.loads(json.dumps(callback).replace("{}:", f"{module}:"))
    asked = suite(tasks=["CoLA"], seeds=[1], callbacks=[entry])
    with pytest.raises(SuiteError, match=message.replace("{}", module)):
        run_suite(asked, tmp_path / "out", data=small_glue, quiet=True)
    assert not (tmp_path / "out" / "runs").exists()
