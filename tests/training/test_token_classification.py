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

from relation_tf import networks
from relation_tf.bench import run_suite
from relation_tf.config.loading import make_suite
from relation_tf.errors import SuiteError
from relation_tf.networks.next_token import state_bytes
from relation_tf.report import make_report
from relation_tf.tasks import load_task
from relation_tf.tasks.diagnostics import presets
from relation_tf.training.classification import are_finite
from tests.backends import close

pytestmark = pytest.mark.tensorflow


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: replace(each, train=64, held_out=20) for name, each in presets.DIAGNOSTICS.items()}
    monkeypatch.setattr(presets, "DIAGNOSTICS", few)


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


def test_loss_and_accuracy_are_those_of_the_labelled_tokens() -> None:
    part = steps(asked(tasks=["recall-small"]))
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
    np.testing.assert_array_equal(outputs > 0, labels > 0)


def test_texts_of_different_lengths_are_predicted() -> None:
    part = steps(asked(tasks=["listops-small"]))
    split = part.task.splits["test"]
    texts, labels = (each.pad(np.arange(len(split))) for each in split.inputs)
    logits = np.asarray(part.model(texts))
    expected = np.where(labels > 0, logits.argmax(axis=2) + 1, 0)
    np.testing.assert_array_equal(part.predict(split), expected)


def test_a_diverged_network_has_no_outputs() -> None:
    part = steps(asked())
    split = part.task.splits["test"]
    assert are_finite(part.predict(split))
    part.model.get_layer("output").bias.assign([np.nan, 0.0])
    assert not are_finite(part.predict(split))


def test_labels_are_not_counted_as_tokens() -> None:
    assert steps(asked()).tokens == 64 * 32


def test_a_step_learns() -> None:
    part = steps(asked(tasks=["count"], learning_rate=0.03))
    rows = np.arange(32)
    ids, labels = part.pad(part.train_rows, rows), part.labels(part.train_rows)[rows]
    losses = [float(part.train(ids, labels)[0]) for _ in range(40)]
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("changes", [{}, {"precision": "bfloat16"}])
def test_compression_reads_only_the_last_vector(changes: dict[str, Any]) -> None:
    method = {"name": "baseline", "mechanism": "baseline", "units": 8}
    part = steps(asked(tasks=["compress-small"], method=[method], **changes))
    split = part.task.splits["test"]
    assert part.model.get_layer("decoder_positions").max_length == 8
    found = part.predict(split)
    # Without a mechanism, the last token is the same in all texts, and so is the answer.
    np.testing.assert_array_equal(found, np.broadcast_to(found[0], found.shape))
    assert (found > 0).tolist() == [[True] * 7 + [False]] * len(split)


def test_a_network_learns_to_compress() -> None:
    method = {"name": "attention", "mechanism": "attention", "units": 32}
    values = {"embedding_dim": 32, "learning_rate": 0.01, "method": [method]}
    part = steps(asked(tasks=["compress-small"], **values))
    rows = np.arange(64)
    ids, labels = part.pad(part.train_rows, rows), part.labels(part.train_rows)[rows]
    losses = [float(part.train(ids, labels)[0]) for _ in range(200)]
    assert losses[-1] < 0.7 * losses[0]


def test_a_network_that_compresses_has_a_size() -> None:
    from relation_tf.training.task_trainer import TaskTrainer

    method = {"name": "attention", "mechanism": "attention", "size": "8K"}
    config = asked(tasks=["compress-small"], method=[method]).runs()[0]
    trainer = TaskTrainer(config, load_task(config.task))
    own = networks.count_parameters(trainer.model)["network"]
    assert own == pytest.approx(8000, rel=0.1)
    assert trainer.match.value != config.units
    longest = int(trainer.task.splits["train"].lengths.max())
    expected = state_bytes(
        "attention", trainer.match.value, config.embedding_dim, config.options, longest
    )
    assert trainer._facts == {"state_bytes": expected}


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embeddings": "glove"}, "key 'embeddings': must be 'random' for parity, a token"),
        ({"method": [{"mechanism": "dan"}]}, "a mechanism that returns tokens for parity"),
        ({"method": [{"mechanism": "transformer-encoder-decoder"}]}, "mechanism"),
        ({"pretrained": "x"}, "pretrained"),
        ({"max_length": 16}, "key 'max_length': must not be set for parity, whose texts have"),
    ],
)
def test_settings_without_effect_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SuiteError, match=message):
        asked(**changes)


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


def test_a_layer_that_cannot_read_longer_texts_keeps_its_own_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    methods = [
        {"name": "short", "mechanism": f"{__name__}:ShortTexts", "units": 8},
        {"name": "baseline", "mechanism": "baseline", "units": 8},
    ]
    results = run_suite(asked(method=methods, epochs=1), tmp_path)
    assert results.failures == []
    short, other = ([run for run in results.runs if run["method"] == each["name"]]
                    for each in methods)  # fmt: skip
    assert [[*run["metrics"]] for run in short] == [["parity"]] * 2
    assert [len(run["metrics"]) for run in other] == [4, 4]
    assert [*short[0]["unscored"]] == ["parity-2x", "parity-4x", "parity-8x"]
    said = (
        "short has no score on parity-2x, parity-4x, parity-8x: cannot predict texts of up to 64 "
        "tokens (InvalidArgumentError: Incompatible shapes"
    )
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count(f"parity: {said}") == 1  # not for each seed
    report = make_report(results)
    assert [line for line in report.warnings if line.startswith(f"In 2 runs, {said}")]
    assert not [line for line in report.warnings if "no labels" in line]
    assert not (Path(short[0]["folder"]) / "predictions" / "parity-2x.test.tsv").exists()
    assert "parity-2x" in report.markdown()


def test_a_layer_that_cannot_read_the_own_texts_fails(tmp_path: Path) -> None:
    method = {"name": "short", "mechanism": f"{__name__}:ShortTexts", "units": 8}
    results = run_suite(asked(tasks=["needle-64"], method=[method], seeds=1), tmp_path, quiet=True)
    ((run, error),) = results.failures
    assert run == "needle-64/short/seed-1"
    assert error.startswith("InvalidArgumentError: Incompatible shapes")
