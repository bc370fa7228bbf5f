from __future__ import annotations

import json
import shutil
from dataclasses import replace

import keras
import numpy as np
import pandas as pd
import pytest

from relation_tf.bench import pretraining
from relation_tf.bench.pretraining import pretrain
from relation_tf.errors import DataError, DivergedError, RelationError, SuiteError
from relation_tf.report import compare
from relation_tf.report.sources import read_source
from relation_tf.tasks.plain_text import mask_tokens, masks_of_held_out, read_plain_text
from relation_tf.training.pretrained import fill, load_pretrained
from relation_tf.training.pretraining_settings import PretrainingSettings
from relation_tf.training.trainer import Checkpoint
from tests.backends import close

pytestmark = pytest.mark.tensorflow

SMALL = {
    "num_layers": 1,
    "units": 8,
    "length": 12,
    "batch_size": 4,
    "steps": 6,
    "evaluate_every": 4,
    "vocabulary_size": 80,
}


@pytest.fixture(scope="module")
def text_file(tmp_path_factory):
    """Sentences in which some words tell the others."""
    rng = np.random.default_rng(0)
    verbs = {"cat": "eats", "dog": "runs", "bird": "sings", "fish": "swims"}
    path = tmp_path_factory.mktemp("text") / "a.txt"
    names = rng.choice([*verbs], 2000)
    path.write_text("".join(f"the {name} {verbs[name]} .\n" for name in names))
    return path


def compiled(text_file, mechanism="relation", **changes):
    from relation_tf.training.language_model import LanguageModelTrainer

    settings = PretrainingSettings(**SMALL | changes)
    text = read_plain_text(
        [text_file], settings.length, held_out=0.1, vocabulary_size=settings.vocabulary_size
    )
    return LanguageModelTrainer(mechanism, settings, text)


def weights_of(network):
    embedding, weights = network.encoder_weights()
    return [embedding, *weights]


@pytest.fixture(scope="module")
def network(text_file):
    """A compiled network that several tests train."""
    return compiled(text_file, dropout=0.1, batch_size=5)


@pytest.mark.parametrize("vary", ["init", "order", "init,order"])
def test_seeds_change_only_what_varies(network, monkeypatch, vary):
    monkeypatch.setattr(network, "settings", replace(network.settings, vary=vary))
    is_state = [each.name == "seed_generator_state" for each in network.model.variables]
    assert any(is_state)
    starts = []

    def step(number, order):
        states, weights = [], []
        for own, state in zip(network.weights(), is_state, strict=True):
            (states if state else weights).append(own.tobytes())
        starts.append({"order": (order, states), "init": weights})
        return 0.0

    monkeypatch.setattr(network, "train", step)
    for seed in (1, 2):
        network.run(seed)
    first, second = starts[0], starts[len(starts) // 2]
    for source in ("init", "order"):
        assert (first[source] != second[source]) == (source in vary)


def test_held_out_loss_is_the_mean_over_predicted_words(network):
    network.reset(3)
    held_out, losses = network.text.held_out, []
    assert len(held_out) % 5  # the last ones are fewer
    for row in range(0, len(held_out), 5):
        size = network.text.vocabulary.size
        ids, at, words = mask_tokens(held_out[row : row + 5], size, masks_of_held_out(row))
        logits = np.asarray(network.model(ids), float)
        for i, places in enumerate(at):
            for place, word in zip(places, words[i], strict=True):
                z = logits[i, place]
                losses.append(np.log(np.exp(z).sum()) - z[word])
    close(network.held_out_loss(), np.mean(losses))


@pytest.mark.parametrize(
    "objective", [pytest.param("masked", marks=pytest.mark.slow), "causal", "both"]
)
def test_learns(text_file, objective):
    training = {"steps": 300, "learning_rate": 1e-2, "batch_size": 32, "evaluate_every": 150}
    changes = {"objective": objective, "units": 16, "dropout": 0.0}
    history = compiled(text_file, "linear-attention", **training, **changes).run(1).history
    assert [row["step"] for row in history] == [150, 300]
    # Frequencies alone come to 8. One word of four has to be guessed, which animal it is: at best
    # 4 ** (1 / 4) in a causal model, and less where its verb is in sight.
    assert history[-1]["perplexity"] < 2
    assert history[-1]["perplexity"] == pytest.approx(np.exp(history[-1]["held_out_loss"]))


@pytest.mark.parametrize(
    ("mechanism", "objective"),
    [("attention", "masked"), pytest.param("relation", "causal", marks=pytest.mark.slow)],
)
def test_resumed_at_any_step_ends_the_same(text_file, tmp_path, mechanism, objective):
    network = compiled(text_file, mechanism, objective=objective)
    whole = network.run(1)
    expected = weights_of(network)
    checkpoint = Checkpoint(tmp_path / "state.npz", {}, every=0.0)

    def interrupt(step, row):
        if step in (3, 5) and step not in stopped:
            stopped.append(step)
            raise KeyboardInterrupt

    stopped = []
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            network.run(1, interrupt, checkpoint)
        network.run(2)  # others may use the network in between
    resumed = network.run(1, interrupt, checkpoint)
    assert resumed.resumed == [2, 4]
    for one, other in zip(expected, weights_of(network), strict=True):
        np.testing.assert_array_equal(one, other)
    for key in ("step", "loss", "held_out_loss", "perplexity"):
        assert [row[key] for row in resumed.history] == [row[key] for row in whole.history]


MADE = PretrainingSettings(**SMALL | {"embedding_dim": 6, "num_layers": 2})


@pytest.fixture(scope="module")
def made(text_file, tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "out"
    pretrain([text_file], out, ["attention"], [1], MADE, quiet=True)
    return pretrain([text_file], out, ["relation"], [1, 2], MADE, quiet=True)


@pytest.fixture
def copied(made, tmp_path):
    return shutil.copytree(made.folder, tmp_path / "copy")


def test_files_of_a_run(made):
    run = made.folder / "runs" / "relation" / "seed-2"
    assert {path.name for path in run.iterdir()} == {
        "config.json", "manifest.json", "history.csv", "weights.npz", "result.json",
    }  # fmt: skip
    assert pd.read_csv(run / "history.csv")["step"].tolist() == [4, 6]
    config = json.loads((run / "config.json").read_text())
    assert (config["mechanism"], config["seed"], config["length"]) == ("relation", 2, 12)
    assert [(run["method"], run["seed"]) for run in made.runs] == [
        ("attention", 1), ("relation", 1), ("relation", 2),
    ]  # fmt: skip


def test_scores_can_be_compared(made):
    scores = read_source(made.folder / "scores.csv").scores
    assert scores.tasks == ["perplexity"]
    assert scores.methods == ["attention", "relation"]
    expected = [run["perplexity"] for run in made.runs if run["method"] == "relation"]
    assert scores.samples("perplexity")["relation"] == pytest.approx(expected, rel=1e-6)
    said = json.loads((made.folder / "report.json").read_text())
    assert said["lower_is_better"] == ["perplexity"]
    speeds = read_source(made.folder / "speeds.csv").scores
    assert (speeds.tasks, speeds.lower_is_better) == (["tokens per second"], frozenset())
    expected = [run["tokens_per_second"] for run in made.runs if run["method"] == "relation"]
    assert speeds.samples("tokens per second")["relation"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_an_interrupted_command_resumes(text_file, made, copied, monkeypatch):
    """From the last checkpoint, to the same weights; scores of finished runs are written."""
    shutil.rmtree(copied / "runs" / "attention")
    monkeypatch.setattr(pretraining, "_CHECKPOINT_EVERY", 0.0)
    train_run = pretraining._train_run

    def interrupted(run, path, settings, text, notify):
        def then_interrupt(event):
            notify(event)
            if run.mechanism == "attention" and event.get("step") == 3:
                raise KeyboardInterrupt

        train_run(run, path, settings, text, then_interrupt)

    def train():
        return pretrain([text_file], copied, ["relation", "attention"], [1], MADE, quiet=True)

    with monkeypatch.context() as patch:
        patch.setattr(pretraining, "_train_run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train()
    assert read_source(copied).scores.methods == ["relation"]
    again = train().runs[0]
    manifest = copied / "runs" / "attention" / "seed-1" / "manifest.json"
    assert json.loads(manifest.read_text())["resumed_after"] == [2]
    one, other = (load_pretrained(out, "attention", 1) for out in (made.folder, copied))
    for a, b in zip([one.embedding, *one.weights], [other.embedding, *other.weights], strict=True):
        np.testing.assert_array_equal(a, b)
    assert (again["method"], again["perplexity"]) == ("attention", made.runs[0]["perplexity"])


@pytest.mark.parametrize("name", [".", "scores.csv", "speeds.csv"])
def test_a_comparison_says_how_they_were_made(made, name):
    facts = compare(made.folder / name).data.provenance
    assert facts["pre-training"][0].split("; ")[1:3] == ["num_layers 2", "units 8"]
    run = made.folder / "runs" / "relation" / "seed-1" / "manifest.json"
    assert facts["processor"] == [json.loads(run.read_text())["processor"]]
    assert facts["backend"] == ["tensorflow"]
    assert len(facts["commands"]) == 1
    assert {*facts["versions"][0].split(", ")} > {f"keras {keras.__version__}"}


@pytest.mark.parametrize("mechanism", ["relation", "attention"])
def test_a_network_starts_from_the_encoder(made, mechanism):
    import keras

    from relation_tf.networks import sequence_classifier
    from relation_tf.networks.language_model import language_model

    pretrained = load_pretrained(made.folder, mechanism, seed=1)
    size = pretrained.vocabulary.size
    model = language_model(mechanism, size, num_layers=2, units=8, embedding_dim=6)
    rows = np.zeros((1, 6), "float32")
    words = pretrained.embedding / model.embedding_scale
    model.embedding.set_weights([np.concatenate([words, rows])])
    model.encoder.set_weights(pretrained.weights)
    network = sequence_classifier(num_classes=3, **pretrained.network)
    fill(network, pretrained)
    inside = keras.Model(network.inputs, network.get_layer("mechanism").output)
    ids = pretrained.vocabulary.encode(["the cat eats .", "the bird sings"]).pad(np.arange(2))
    close(inside([ids]), model.encode(ids))
    again = sequence_classifier(num_classes=3, **pretrained.network)
    assert not np.allclose(again.get_weights()[0], network.get_weights()[0])


def test_a_network_mixes_the_layers_of_both_directions(text_file, tmp_path):
    import keras

    from relation_tf.networks import sequence_classifier

    settings = PretrainingSettings(**SMALL | {"objective": "both"})
    pretrain([text_file], tmp_path, ["relation"], [1], settings, quiet=True)
    pretrained = load_pretrained(tmp_path, "relation", seed=1)
    options = {**pretrained.network["options"], "layer_mix": True}
    network = sequence_classifier(num_classes=3, **{**pretrained.network, "options": options})
    fill(network, pretrained)
    plain = sequence_classifier(num_classes=3, **pretrained.network)
    fill(plain, pretrained)
    layer, other = (model.get_layer("mechanism") for model in (network, plain))
    for one, two in zip(layer.get_weights(), other.get_weights(), strict=False):
        np.testing.assert_array_equal(one, two)
    assert len(layer.get_weights()) == len(other.get_weights()) + 2
    # With all weight on the last layer, both networks have the same outputs.
    last = np.array([*[-99.0] * settings.num_layers, 0])
    layer.mix.set_weights([last, np.array(1.0)])
    ids = pretrained.vocabulary.encode(["the cat eats .", "the bird sings"]).pad(np.arange(2))
    outputs = [
        np.asarray(keras.Model(model.inputs, model.get_layer("mechanism").output)([ids]))
        for model in (network, plain)
    ]
    close(*outputs)


def test_loading_error_is_one_line(made, tmp_path):
    from relation_tf.networks import sequence_classifier

    assert load_pretrained(made.folder, "relation").seed == 1
    with pytest.raises(SuiteError, match=r"must be a folder written by .*, with pretraining"):
        load_pretrained(tmp_path, "relation")
    with pytest.raises(SuiteError, match="no finished run of fcsr, only of attention with"):
        load_pretrained(made.folder, "fcsr")
    with pytest.raises(SuiteError, match="of relation with seed 7, only of attention"):
        load_pretrained(made.folder, "relation", 7)
    pretrained = load_pretrained(made.folder, "relation", 1)
    other = {**pretrained.network, "num_classes": 2}
    with pytest.raises(SuiteError, match=r"'embedding' has a weight of shape .* network has"):
        fill(sequence_classifier(**other | {"vocabulary_size": 7}), pretrained)
    with pytest.raises(SuiteError, match=r"the network must have a layer 'contextual'"):
        fill(sequence_classifier(**other), pretrained, layer="contextual")
    options = other["options"] | {"num_layers": 3}
    with pytest.raises(SuiteError, match="made with num_layers = 2, the network's has 3"):
        fill(sequence_classifier(**other | {"options": options}), pretrained)


def test_broken_weights_are_one_line(copied):
    path = copied / "runs" / "relation" / "seed-1" / "weights.npz"
    for content in (path.read_bytes()[:500], b"", b"text"):
        path.write_bytes(content)
        with pytest.raises(SuiteError, match=r"weights\.npz: expected the weights of an encoder"):
            load_pretrained(copied, "relation", 1)
    shutil.rmtree(path.parent)
    assert load_pretrained(copied, "relation", 7).seed == 2  # the only one is for all
    (copied / "vocabulary.json").write_text("{}")
    with pytest.raises(DataError, match=r"vocabulary\.json: expected a vocabulary"):
        load_pretrained(copied, "relation", 2)


def test_finished_runs_are_kept_and_others_refused(text_file, made):
    path = made.folder / "runs" / "relation" / "seed-1" / "result.json"
    before = path.stat().st_mtime_ns
    again = pretrain([text_file], made.folder, ["relation"], [1], MADE, quiet=True)
    assert path.stat().st_mtime_ns == before
    assert len(again.runs) == 3
    for changes, message in (
        ({"units": 16}, "this run was done with units = 8, but now units = 16"),
        ({"steps": 7}, "this run was done with steps = 6, but now steps = 7"),
    ):
        others = replace(MADE, **changes)
        with pytest.raises(SuiteError, match=message):
            pretrain([text_file], made.folder, ["relation"], [1], others, quiet=True)
    with pytest.raises(SuiteError, match=r"held_out = 0\.05, but now held_out = 0\.1"):
        pretrain([text_file], made.folder, ["relation"], [1], MADE, held_out=0.1, quiet=True)
    (other := text_file.with_name("b.txt")).write_text("the cat eats .\n" * 200)
    with pytest.raises(SuiteError, match="done with another text, or another version of tok"):
        pretrain([other], made.folder, ["relation"], [1], MADE, quiet=True)


@keras.saving.register_keras_serializable("tests")
class Faulty(keras.layers.Layer):
    """A custom layer that raises an unexpected error."""

    def __init__(self, units=8, **kwargs):
        super().__init__(**kwargs)

    def call(self, x, mask=None):
        return x.foo


def test_faulty_custom_layer_does_not_stop_other_runs(text_file, tmp_path):
    asked = [f"{__name__}:Faulty", "relation"], np.arange(1, 2)
    out = tmp_path / "out"
    settings = PretrainingSettings(**SMALL)
    with pytest.raises(SuiteError, match=r":Faulty fails the layer check .*'foo'.* Fix the layer"):
        pretrain([text_file], out, *asked, settings, quiet=True)
    assert not (out / "runs").exists()
    made = pretrain([text_file], out, *asked, settings, allow_failing_checks=True, quiet=True)
    assert [run["method"] for run in made.runs] == ["relation"]
    ((run, reason),) = made.failures
    assert run == "Faulty/seed-1"
    assert "'foo'" in reason


@pytest.mark.parametrize("loss", [np.nan, 1000.0])
def test_a_loss_without_perplexity_fails_the_run(network, monkeypatch, loss):
    monkeypatch.setattr(network, "held_out_loss", lambda: loss)
    with pytest.raises(DivergedError, match=f"diverged at step 4: .*on held-out text {loss:g}, "):
        network.run(1)


@pytest.mark.parametrize(
    ("mechanisms", "seeds", "changes", "message"),
    [
        (["relatoin"], [1], {}, r"unknown mechanism 'relatoin'.*Did you mean 'relation'"),
        (["relation"], [-1], {}, r"seeds: must be 0 to 2,147,483,647\. Received: -1"),
        (["relation", "dan"], [1], {}, r"mechanism dan: .*must return \(batch, tokens, units=8\)"),
        (["relation"], [1], {"objective": "next"}, "objective: must be 'masked', 'causal' or"),
        (["relation"], [1], {"dropout": 1.0}, "dropout: .* Received: 1.0"),
    ],
)
def test_refused_before_the_first_run(text_file, tmp_path, mechanisms, seeds, changes, message):
    def asked():
        settings = PretrainingSettings(**SMALL | changes)
        pretrain([text_file], tmp_path / "out", mechanisms, seeds, settings, quiet=True)

    with pytest.raises(RelationError, match=message) as error:
        asked()
    assert "\n" not in str(error.value)
    assert not [*tmp_path.glob("out/runs/*/*")]
