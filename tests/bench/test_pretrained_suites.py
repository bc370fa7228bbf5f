"""Suites whose methods start from encoders that were pre-trained."""

from __future__ import annotations

import shutil

import keras
import numpy as np
import pytest

from relation_tf.bench import run_suite
from relation_tf.bench.pretraining import pretrain
from relation_tf.config.suite import make_suite
from relation_tf.errors import SuiteError
from relation_tf.training.pretrained import load_pretrained, pretrained_digest
from relation_tf.training.pretraining_settings import PretrainingSettings
from tests.backends import close

pytestmark = pytest.mark.tensorflow

OPTIONS = {"mechanism": "relation", "num_layers": 1, "norm": "pre"}
FINE_TUNED = {"mechanism": "encoder", "units": 8, "options": OPTIONS, "name": "fine-tuned"}
SCRATCH = {**FINE_TUNED, "name": "scratch", "encoder_weights": "random"}
FROZEN = {"mechanism": "relation", "units": 8, "name": "frozen", "encoder_weights": "frozen"}


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory, small_glue):
    """A folder of pre-training: two mechanisms, of the first two seeds."""
    folder = tmp_path_factory.mktemp("pretrained")
    lines = (small_glue / "CoLA" / "train.tsv").read_text(encoding="utf-8").splitlines()
    (folder / "text.txt").write_text("\n".join(line.split("\t")[-1] for line in lines))
    settings = PretrainingSettings(
        num_layers=1, units=8, length=8, batch_size=4, steps=4, vocabulary_size=120
    )
    for mechanism, seeds in (("relation", (1, 2)), ("attention", (1,))):
        pretrain([folder / "text.txt"], folder / "out", [mechanism], seeds, settings, quiet=True)
    return folder / "out"


@pytest.fixture
def asked(suite, pretrained):
    """Make a suite that starts from the folder."""

    def make(*methods, **changes):
        values = {"tasks": ["CoLA"], "tokens": "wordpiece", "pretrained": str(pretrained)}
        return suite(**{**values, "embedding_dim": 8, "method": list(methods), **changes})

    return make


@pytest.fixture
def network(asked, small_glue):
    """Make the compiled network of a method."""
    from relation_tf.tasks import load_task
    from relation_tf.training.task_trainer import TaskTrainer

    def make(method, **changes):
        config = asked(method, **changes).runs()[0]
        task = load_task(config.entry, data=small_glue, **config.reading())
        return TaskTrainer(config, task), config

    return make


def weights_of(made, name):
    return [weight.numpy().copy() for weight in made.model.get_layer(name).weights]


def same(values, others):
    return all(np.array_equal(a, b) for a, b in zip(values, others, strict=True))


@pytest.mark.parametrize(("method", "layer"), [(FINE_TUNED, "mechanism"), (FROZEN, "contextual")])
def test_each_seed_starts_from_its_own_encoder(network, pretrained, method, layer):
    made, _ = network(method)
    for seed in (1, 2, 1):
        made.reset(seed)
        source = load_pretrained(pretrained, "relation", seed)
        assert same(weights_of(made, layer), source.weights)
        assert same(weights_of(made, "embedding"), [source.embedding])
    assert not same(load_pretrained(pretrained, "relation", 2).weights, source.weights)


@pytest.mark.slow
def test_fine_tuned_weights_change_and_frozen_weights_do_not(network):
    for method, layer, stays in ((FINE_TUNED, "mechanism", False), (FROZEN, "contextual", True)):
        made, config = network(method, epochs=2)
        made.reset(1)
        before = [weights_of(made, name) for name in (layer, "embedding", "output")]
        made.run(config.seed)
        after = [weights_of(made, name) for name in (layer, "embedding", "output")]
        kept = [same(a, b) for a, b in zip(before, after, strict=True)]
        assert kept == [stays, stays, False]


def test_frozen_embeddings_are_those_of_the_language_model(network, pretrained):
    """The mechanism reads the outputs of the pre-trained encoder."""
    made, _ = network(FROZEN)
    made.reset(1)
    source = load_pretrained(pretrained, "relation", 1)
    alone, _ = network(FINE_TUNED)
    alone.reset(1)
    ids = made.task.splits["dev"].inputs[0].pad(np.arange(3))
    read = keras.Model(made.model.inputs[0], made.model.get_layer("contextual").output)(ids)
    embedded = source.embedding[ids] + alone.model.get_layer("positions")(
        np.zeros((3, ids.shape[1], 8), "float32")
    )
    expected = alone.model.get_layer("mechanism")(embedded, mask=ids != 0)
    close(read, expected)


def test_frozen_layers_have_no_dropout(network):
    """In training as after it: the folder's encoders were trained with dropout."""
    made, _ = network({**FROZEN, "options": {"dropout": 0.0}}, dropout=0.0)
    made.reset(1)
    ids = made.task.splits["dev"].inputs[0].pad(np.arange(4))
    outputs = [np.array(made.model(ids, training=training)) for training in (False, True, True)]
    assert same(outputs, [outputs[0]] * 3)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("~nobody_of_this_name/x", "~nobody_of_this_name/x: there is no such user."),
        ("x" * 5000, "cannot be read"),
        ("nowhere", "nowhere: must be a folder written by"),
    ],
)
def test_a_folder_that_cannot_be_used_is_one_line(tmp_path, asked, small_glue, path, message):
    with pytest.raises(SuiteError, match=message):
        run_suite(asked(FINE_TUNED, pretrained=path), tmp_path, data=small_glue, quiet=True)


@pytest.mark.slow
def test_a_suite_that_starts_from_a_folder(tmp_path, asked, small_glue, pretrained):
    suite = asked(FINE_TUNED, SCRATCH, FROZEN, epochs=2)
    results = run_suite(suite, tmp_path, data=small_glue, quiet=True)
    assert not results.failures
    assert len(results.runs) == 6
    starts = {run["method"]: run["config"]["encoder_weights"] for run in results.runs}
    assert starts == {"fine-tuned": "pretrained", "scratch": "random", "frozen": "frozen"}
    digests = {(run["method"], run["seed"]): run["config"]["pretrained_digest"]
               for run in results.runs}  # fmt: skip
    assert digests["fine-tuned", 1] == digests["frozen", 1] != digests["fine-tuned", 2]
    assert digests["scratch", 1] == digests["scratch", 2] == pretrained_digest(pretrained)
    assert len(run_suite(suite, tmp_path, data=small_glue, quiet=True).runs) == 6


def test_an_encoder_that_changes_after_the_start_is_refused(
    tmp_path, asked, small_glue, pretrained, monkeypatch
):
    folder = tmp_path / "encoders"
    shutil.copytree(pretrained, folder)

    def change(*arguments):
        first, second = (folder / "runs" / "relation" / f"seed-{n}" / "weights.npz" for n in (1, 2))
        shutil.copy(first, second)

    monkeypatch.setattr("relation_tf.bench.runner.build_methods", change)
    made = asked(FINE_TUNED, epochs=1, pretrained=str(folder), seeds=[1, 2])
    results = run_suite(made, tmp_path / "out", data=small_glue, quiet=True)
    assert [run["seed"] for run in results.runs] == [1]
    ((name, error),) = results.failures
    assert name == "CoLA/fine-tuned/seed-2"
    assert error == f"{folder}: its files changed after the command started. Run it again"


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            {**FINE_TUNED, "options": {**OPTIONS, "mechanism": "linear-attention"}},
            "of linear-attention with seed 1, only of attention with .*; fine-tuned ",
        ),
        (
            {"mechanism": "baseline", "units": 8},  # says nothing, and is not left random
            "; baseline-8 needs it unless encoder_weights = 'random'",
        ),
        ({**FINE_TUNED, "units": 16}, "its encoder was made with units = 8, the network's has 16"),
    ],
)
def test_an_encoder_that_does_not_fit_is_said(tmp_path, asked, small_glue, method, message):
    with pytest.raises(SuiteError, match=message):
        run_suite(asked(method, seeds=[1]), tmp_path, data=small_glue, quiet=True)


def test_default_encoder_weights_depend_on_the_mechanism():
    values = {"name": "x", "tasks": ["CoLA"], "seeds": 1, "tokens": "wordpiece"}
    methods = [{"mechanism": "relation"}, {k: FINE_TUNED[k] for k in ("mechanism", "options")}]
    for pretrained, starts in ((None, ["random"] * 2), ("DIR", ["frozen", "pretrained"])):
        more = {} if pretrained is None else {"pretrained": pretrained}
        made = make_suite("suite", {**values, "method": methods, **more})
        assert [run.encoder_weights for run in made.runs()] == starts
