"""Runs with losses or outputs that are not finite: failed, with one status in all commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.bench import SuiteStatus, run_suite, write_submissions
from relation_tf.bench.pretraining import pretrain
from relation_tf.errors import SuiteError
from relation_tf.training.pretraining_settings import PretrainingSettings

BASELINE = {"mechanism": "baseline", "units": 8}
HUGE = 1e30
ENDED: list[str] = []


class Poison(keras.callbacks.Callback):
    """Set the weights of a seed to NaN after an epoch; record the end of each run."""

    def __init__(self, after: int, seed: int = 1) -> None:
        super().__init__()
        self.after, self.seed = after, seed

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch + 1 == self.after and self.params["run"].endswith(f"seed-{self.seed}"):
            self.model.set_weights([np.full_like(w, np.nan) for w in self.model.get_weights()])

    def on_train_end(self, logs: Any = None) -> None:
        ENDED.append(self.params["run"])


def poison(after: int) -> list[dict[str, Any]]:
    return [{"callback": f"{__name__}:Poison", "options": {"after": after}}]


def errors(folder: Path) -> dict[str, Any]:
    found = {path.parent: json.loads(path.read_text()) for path in folder.rglob("error.json")}
    return {"/".join(path.parts[-3:]): error for path, error in found.items()}


@pytest.mark.tensorflow
def test_a_run_ends_at_the_epoch_in_which_it_diverges(tmp_path, small_glue, suite):
    """Also if earlier epochs were fine, whose weights early stopping would restore."""
    ENDED.clear()
    asked = suite(
        tasks=["CoLA"], method=[BASELINE], epochs=5, stopping="early_stopping",
        callbacks=poison(after=2),
    )  # fmt: skip
    results = run_suite(asked, tmp_path, data=small_glue, quiet=True)
    lost = ["CoLA/baseline-8/seed-1"]
    assert [*results.diverged] == lost == [name for name, _ in results.failures]
    assert {run["seed"] for run in results.runs} == {2}
    for error in errors(tmp_path).values():
        assert error["error"] == "diverged in epoch 3: loss is nan and val_loss is nan"
        assert error["diverged"] is True
    assert not [*tmp_path.glob("runs/*/*/seed-1/predictions")]
    assert {*ENDED} == {*map(str, asked.runs())}  # also callbacks of diverged runs end
    status = SuiteStatus.of(results)
    assert [(each.done, each.failed, each.diverged) for each in status.groups] == [(1, 1, 1)]
    assert status.to_dict()["diverged"] == 1


@pytest.mark.tensorflow
def test_a_diverged_run_is_trained_again_only_with_other_settings(tmp_path, small_glue, suite):
    def train(asked, **options):
        return run_suite(asked, tmp_path, data=small_glue, quiet=True, **options)

    def times():
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("error.json")}

    asked = suite(tasks=["WNLI"], method=[BASELINE], learning_rate=HUGE, epochs=2)
    results = train(asked)
    with pytest.raises(SuiteError, match=r"nothing to submit.*WNLI/baseline-8/seed-1: diverged in"):
        write_submissions(results)
    before = times()
    assert len(train(asked).diverged) == len(before) == 2
    assert times() == before
    other = asked.model_copy(update={"learning_rate": 0.01})
    one = train(other, seeds=[asked.seeds[0]])
    # The report of the new settings does not count the run that diverged with the old ones.
    assert (len(one.runs), one.failures, one.diverged) == (1, [], [])
    assert len(train(other).runs) == 2
    assert errors(tmp_path) == {}


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize(
    ("task", "changes"),
    [
        ("three", {"method": [BASELINE]}),
        ("reversal", {"method": [{"mechanism": "gru-encoder-decoder", "units": 8}],
                      "embedding_dim": 100}),
    ],
    ids=["group", "sequence"],
)  # fmt: skip
def test_every_trainer(tmp_path, small_glue, suite, task, changes):
    groups = [{"name": "three", "tasks": ["CoLA", "RTE", "STS-B"]}]
    asked = suite(
        tasks=[task], group=groups if task == "three" else [],
        callbacks=poison(after=1), epochs=3, seeds=[1], **changes,
    )  # fmt: skip
    data = {"data": small_glue} if task == "three" else {}
    results = run_suite(asked, tmp_path, quiet=True, **data)
    assert results.runs == []
    (error,) = errors(tmp_path).values()
    assert error["error"] == "diverged in epoch 2: loss is nan and val_loss is nan"


@pytest.mark.tensorflow
def test_outputs_for_other_sets_than_the_validation_rows(network, monkeypatch):
    made, config = network("MNLI", epochs=1)
    (part,) = made.parts
    predict = part.predict

    def of(split: Any) -> Any:
        return predict(split) * (np.nan if split is part.task.splits["dev_mismatched"] else 1)

    monkeypatch.setattr(part, "predict", of)
    with pytest.raises(Exception, match="diverged: outputs for MNLI-mm are not finite") as error:
        made.run(config.seed)
    assert type(error.value).__name__ == "DivergedError"


@pytest.mark.tensorflow
def test_pretraining(tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("the cat eats .\nthe dog runs .\n" * 200)
    settings = PretrainingSettings(
        num_layers=1, units=8, length=12, batch_size=4, steps=4, evaluate_every=2,
        vocabulary_size=80, learning_rate=1e30,
    )  # fmt: skip
    asked = [text], tmp_path / "out", ["relation"], [1], settings
    for _ in range(2):
        made = pretrain(*asked, quiet=True)
        ((run, error),) = made.failures
        assert run == "relation/seed-1"
        assert error.startswith("diverged at step ")
        path = tmp_path / "out" / "runs" / run / "error.json"
        written = path.stat().st_mtime_ns
    pretrain(*asked, quiet=True)
    assert path.stat().st_mtime_ns == written
