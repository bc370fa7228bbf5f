"""Training on token classification."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from keras import ops

from relation_tf.bench import run_suite
from relation_tf.config.suite import make_suite
from relation_tf.errors import DataError
from relation_tf.registry import METRICS, register_metric
from relation_tf.report import make_report
from relation_tf.tasks import diagnostics, load_task
from tests.backends import close

pytestmark = pytest.mark.tensorflow


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {
        name: replace(each, train=64, held_out=20) for name, each in diagnostics.DIAGNOSTICS.items()
    }
    monkeypatch.setattr(diagnostics, "DIAGNOSTICS", few)


def asked(**changes: Any) -> Any:
    values = {
        "name": "small",
        "tasks": ["parity"],
        "seeds": 2,
        "embedding_dim": 8,
        "epochs": 2,
        "dropout": 0.0,
        "method": [{"name": "relation", "mechanism": "relation", "units": 8}],
        **changes,
    }
    return make_suite("small", values)


def steps(suite: Any) -> Any:
    from relation_tf.training.task_trainer import TaskTrainer

    config = suite.runs()[0]
    (part,) = TaskTrainer(config, load_task(config.task)).parts
    return part


@pytest.mark.parametrize("task", ["recall-small", "listops-small"])
def test_loss_and_accuracy_are_those_of_the_labelled_tokens(task: str) -> None:
    part = steps(asked(tasks=[task]))
    split = part.task.splits["test"]
    texts, labels = (each.pad(np.arange(len(split))) for each in split.inputs)
    logits = np.asarray(part.model(texts), np.float64)
    losses, right = [], []
    for row, own in zip(logits, labels, strict=True):
        places = np.flatnonzero(own)
        log_sums = np.log(np.exp(row[places]).sum(axis=1))
        losses.append(np.mean(log_sums - row[places, own[places] - 1]))
        right += [*(row[places].argmax(axis=1) + 1 == own[places])]
    outputs = part.predict(split)
    close(part.loss(outputs, split), np.mean(losses))
    assert part.score(outputs, split) == {"token_accuracy": pytest.approx(np.mean(right))}
    np.testing.assert_array_equal(outputs, np.where(labels > 0, logits.argmax(axis=2) + 1, 0))


def test_each_metric_of_labelled_tokens_is_its_own(isolated: Any) -> None:
    isolated(METRICS)
    register_metric("misses", target="tokens", higher_is_better=False)(
        lambda found, true: int((found != true).sum())
    )
    part = steps(asked(tasks=["listops-small"]))

    def scores(*metrics: str) -> dict[str, float]:
        part.task = replace(part.task, task=replace(part.task.task, metrics=metrics))
        return part.score(outputs, split, "listops-small")

    split = part.task.splits["test"]
    labels = split.inputs[1].pad(np.arange(len(split)))
    outputs = labels.copy()
    outputs[tuple(np.argwhere(labels)[0])] = -1
    number = np.count_nonzero(labels)
    expected = {"misses": 1.0, "token_accuracy": pytest.approx(1 - 1 / number)}
    assert scores("misses", "token_accuracy") == expected
    with pytest.raises(DataError, match="metric 'exact_match' needs the trained network"):
        scores("exact_match")


def test_compression_reads_only_the_last_vector() -> None:
    method = {"name": "baseline", "mechanism": "baseline", "units": 8}
    part = steps(asked(tasks=["compress-small"], method=[method], precision="bfloat16"))
    split = part.task.splits["test"]
    assert part.model.get_layer("decoder_positions").max_length == 8
    found = part.predict(split)
    # Without a mechanism, the last token is the same in all texts, and so is the answer.
    np.testing.assert_array_equal(found, np.broadcast_to(found[0], found.shape))
    assert (found > 0).tolist() == [[True] * 7 + [False]] * len(split)


def test_a_suite_scores_and_predicts_all_lengths(tmp_path: Path) -> None:
    results = run_suite(asked(seeds=1), tmp_path, quiet=True)
    assert results.failures == []
    assert [*results.runs[0]["metrics"]] == ["parity", "parity-2x", "parity-4x", "parity-8x"]
    assert results.runs[0]["state_bytes"] > 0
    file = next(tmp_path.rglob("predictions/parity-2x*.tsv"))
    table = pd.read_csv(file, sep="\t")
    assert [*table] == ["index", "prediction"]
    assert {len(row.split()) for row in table["prediction"]} == {64}
    report = make_report(results)
    assert report.data.scores.diagnostics == ["parity-2x", "parity-4x", "parity-8x"]
    assert "all tokens" in str(report.markdown())


class ShortTexts(keras.layers.Layer):
    """A layer with weights for up to 40 tokens."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units

    def build(self, x_shape: Any) -> None:
        self.gates = self.add_weight(shape=(40, self.units), initializer="ones")
        self.values = self.add_weight(shape=(x_shape[-1], self.units))

    def call(self, x: Any) -> Any:
        return ops.matmul(x, self.values) * self.gates[: ops.shape(x)[1]]

    def compute_output_shape(self, x_shape: Any) -> Any:
        return (*x_shape[:-1], self.units)


@pytest.mark.usefixtures("unchecked_layers")
def test_a_layer_that_cannot_read_longer_texts_keeps_its_own_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = {"name": "short", "mechanism": f"{__name__}:ShortTexts", "units": 8}
    results = run_suite(asked(method=[short], epochs=1), tmp_path)
    assert results.failures == []
    assert [[*run["metrics"]] for run in results.runs] == [["parity"]] * 2
    run = results.runs[0]
    assert [*run["unscored"]] == ["parity-2x", "parity-4x", "parity-8x"]
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count("short has no score") == 1  # not for each seed
    report = make_report(results)
    (warning,) = (line for line in report.warnings if "short has no score" in line)
    assert "parity-2x, parity-4x, parity-8x" in warning
    assert not (Path(run["folder"]) / "predictions" / "parity-2x.test.tsv").exists()
