"""Suites whose tasks are written, a token at a time, by encoder-decoders."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sacrebleu import corpus_bleu

from relation_tf.bench import run_suite
from relation_tf.networks import greedy_decode, sequence_loss
from relation_tf.report import make_report
from relation_tf.tasks import load_task
from tests.backends import close

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("few_rows")]

GRU = {"mechanism": "gru-encoder-decoder", "units": 8, "name": "gru"}
RELATION = {"mechanism": "transformer-encoder-decoder", "units": 8, "name": "relation",
            "options": {"mechanism": "relation", "num_layers": 1, "source_heads": 2}}  # fmt: skip


@pytest.fixture
def suite(suite):
    """Make a suite without the width of embeddings, which encoder-decoders do not use."""
    return functools.partial(suite, embedding_dim=100)


@pytest.fixture
def network(suite):
    """Make the compiled network of a method on strings to be reversed."""
    from relation_tf.training.task_trainer import TaskTrainer

    def make(method, **changes):
        config = suite(tasks=["reversal"], method=[method], **changes).runs()[0]
        return TaskTrainer(config, load_task("reversal")), config

    return make


@pytest.mark.parametrize(
    "method", [pytest.param(GRU, marks=pytest.mark.slow), RELATION], ids=["gru", "relation"]
)
def test_written_text_equals_greedy_decoding(network, method):
    made, _ = network(method)
    (part,) = made.parts
    made.reset(3)
    for name in ("test", "long"):
        split = part.task.splits[name]
        sources = split.inputs[0].pad(np.arange(len(split)))
        targets = part.task.targets
        greedy = greedy_decode(made.model, sources, targets.start, targets.end, part._longest)
        written = part.predict(split)
        np.testing.assert_array_equal(written[:, : greedy.ids.shape[1]], greedy.ids)
        assert not written[:, greedy.ids.shape[1] :].any()


@pytest.mark.slow
def test_the_cost_is_the_mean_over_rows_of_the_mean_over_tokens(network):
    made, _ = network(GRU)
    (part,) = made.parts
    split = part.task.splits["dev"]
    rows = [
        float(sequence_loss(targets[:, 1:], made.model([sources, targets[:, :-1]])))
        for row in range(len(split))
        for sources, targets in [[column.pad(np.array([row])) for column in split.inputs]]
    ]
    close(part.loss(part.predict(split), split), np.mean(rows))


@pytest.mark.slow
def test_bleu_is_that_of_sacrebleu_for_the_decoded_texts(suite):
    from relation_tf.training.task_trainer import TaskTrainer

    metrics = ["bleu", "exact_match"]
    changes = {"overrides": {"reversal": {"metrics": metrics}}, "monitor": "val_bleu"}
    config = suite(
        tasks=["reversal"], method=[GRU], epochs=3, learning_rate=0.03, **changes
    ).runs()[0]
    made = TaskTrainer(config, load_task(config.entry))
    trained = made.run(config.seed)
    (part,) = made.parts
    for name, split in (("reversal", "test"), ("reversal-long", "long")):
        rows, letters = part.task.splits[split], part.task.targets
        texts = letters.decode(part.predict(rows))
        references = letters.decode(rows.inputs[1].pad(np.arange(len(rows))))
        expected = corpus_bleu(texts, [references], tokenize="char").score / 100
        assert trained.metrics[name]["bleu"] == pytest.approx(expected, abs=1e-12)
    assert [*trained.metrics["reversal"]] == metrics
    assert {"val_bleu", "val_exact_match"} < {*trained.history[0]}


@pytest.mark.slow
def test_a_suite_of_sequences(tmp_path, suite):
    asked = suite(tasks=["reversal", "dates"], method=[GRU, RELATION], seeds=[1, 2], epochs=1)
    results = run_suite(asked, tmp_path, quiet=True)
    assert not results.failures
    assert set(results.scores["task"]) == {"reversal", "reversal-long", "dates",
                                           "mean of these tasks"}  # fmt: skip
    run = next(run for run in results.runs if run["task"] == "dates")
    written = pd.read_csv(Path(run["folder"]) / "predictions/dates.test.tsv", sep="\t", dtype=str)
    assert list(written.columns) == ["index", "prediction"]
    assert len(written) == 6
    assert run["manifest"]["data"]["source"] == "generated"
    assert run["parameters"]["embedding"] > 0
    assert "exact match" in str(make_report(results).markdown())
    assert len(run_suite(asked, tmp_path, quiet=True).runs) == 8
