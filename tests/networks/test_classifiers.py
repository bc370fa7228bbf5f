from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.layers import Relation
from relation_tf.networks import (
    pair_classifier,
    pair_regressor,
    sequence_classifier,
    token_classifier,
)
from relation_tf.networks.classifiers import TextEncoder
from relation_tf.networks.encoders import Encoder
from relation_tf.networks.precision import dtype_policy
from relation_tf.registry import MECHANISMS as REGISTERED
from tests.backends import array, close, close_gradients, started, vjp
from tests.golden import below

# Names here and in the released code.
MECHANISMS = {
    "attention": "attention",
    "linear-attention": "linear_attention",
    "relation": "relation",
    "baseline": "pointwise_mlp",
}
NETWORKS = {
    "one_sequence_classifier": sequence_classifier,
    "two_sequence_classifier": pair_classifier,
    "two_sequence_regressor": pair_regressor,
}
LAYERS = {
    "embedding": "embedding",
    "mechanism": "layer/",
    "hidden": "hidden/",
    "hidden_1": "hidden1/",
    "hidden_2": "hidden2/",
    "output": "output/",
}
VOCABULARY, EMBEDDING, UNITS, HIDDEN, CLASSES = 20, 10, 6, 7, 3

all_mechanisms = pytest.mark.parametrize("mechanism", MECHANISMS)
all_networks = pytest.mark.parametrize("network", NETWORKS)


def make(network: str, mechanism: Any, /, **arguments: Any) -> keras.Model:
    sizes: dict[str, Any] = {"embedding_dim": EMBEDDING, "units": UNITS, "hidden_units": HIDDEN}
    if network != "two_sequence_regressor":
        sizes["num_classes"] = CLASSES
    return NETWORKS[network](mechanism, VOCABULARY, **{**sizes, **arguments})


def sequences(network: str, seed: int = 0) -> list[np.ndarray]:
    """Return padded token ids; the third pair has an empty text, the fourth has gaps."""
    rng = np.random.default_rng(seed)
    inputs = []
    for lengths in ([7, 4, 0, 7], [1, 5, 3, 5]):
        ids = rng.integers(1, VOCABULARY, (4, max(lengths)))
        ids[np.arange(max(lengths)) >= np.array(lengths)[:, None]] = 0
        ids[3, [0, 2]] = 0
        inputs.append(ids)
    return inputs[:1] if network == "one_sequence_classifier" else inputs


def predict(model: keras.Model, inputs: list[np.ndarray]) -> np.ndarray:
    call = started(lambda *ids: model(ids if len(ids) > 1 else ids[0], training=False))
    return call(*inputs)


@all_networks
@all_mechanisms
def test_golden(golden: Mapping[str, np.ndarray], mechanism: str, network: str) -> None:
    stored = below(golden, f"networks/{network}/{MECHANISMS[mechanism]}/")
    weights = below(stored, "weight/")
    model = make(network, mechanism)
    count = 0
    for ours, theirs in LAYERS.items():
        if values := list(below(weights, theirs).values()):
            model.get_layer(ours).set_weights(values)
            count += len(values)
    assert count == len(weights)
    assert sum(int(w.numpy().size) for w in model.trainable_weights) == stored["parameter_count"]
    inputs = [stored[name] for name in ("tokens1", "tokens2") if name in stored]
    close(predict(model, inputs), stored["output"])


@pytest.mark.parametrize("variant", ["released_code", "equations"])
@all_mechanisms
def test_readout_and_all_are_one_function(mechanism: str, variant: str) -> None:
    """Outputs and gradients are equal, also for empty sequences and leading padding."""
    network = "two_sequence_classifier"
    inputs = sequences(network)
    results = []
    for compute in ("readout", "all"):
        model = make(network, mechanism, compute=compute, options={"variant": variant})
        randomize(model)
        results.append(
            vjp(
                lambda model=model: model(inputs) ** 2,
                [],
                model.trainable_variables,
            )
        )
    (output, _, gradients), (expected, _, wanted) = results
    close(output, expected)
    close_gradients(gradients, wanted)
    assert any(np.abs(gradient).max() > 1e-3 for gradient in wanted)


def randomize(model: keras.Model) -> None:
    rng = np.random.default_rng(5)
    model.set_weights([rng.normal(size=w.shape) * 0.5 for w in model.get_weights()])


@pytest.mark.parametrize("network", ["one_sequence_classifier", "two_sequence_classifier"])
def test_learned_positions_and_segments_equal_a_prepared_embedding(network: str) -> None:
    """Add the vectors to the tokens by hand, before a network without them."""
    inputs = sequences(network)
    model = make(network, "relation", positions="learned", max_length=5, segments=True)
    randomize(model)
    places, segments, embedding = (
        model.get_layer(name).get_weights()[0]
        for name in ("position_embedding", "segment_embedding", "embedding")
    )
    assert (places.shape, segments.shape) == ((5, EMBEDDING), (2, EMBEDDING))
    mixer = model.get_layer("mechanism")
    vectors = []
    for i, ids in enumerate(inputs):
        x = np.array([
            [embedding[word] + places[min(place, 4)] + segments[i]
             for place, word in enumerate(row)] for row in ids
        ])  # fmt: skip
        x[ids == 0] = np.nan
        mixed = array(mixer(x.astype("float32"), mask=ids != 0))
        hidden = np.where(mixed > 0, mixed, 0.3 * mixed)
        dense = model.get_layer("hidden" if len(inputs) == 1 else f"hidden_{i + 1}")
        hidden = array(dense(hidden))[:, 0]
        vectors.append(np.where(hidden > 0, hidden, 0.3 * hidden))
    expected = array(model.get_layer("output")(np.prod(vectors, axis=0)))
    close(predict(model, inputs), expected, 1e-5)


def test_saving_a_network_with_frozen_contextual_embeddings(tmp_path: Path) -> None:
    contextual = Encoder("relation", units=6, options={"variant": "equations"})
    model = make("one_sequence_classifier", "relation", contextual=contextual)
    inputs = sequences("one_sequence_classifier")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(predict(loaded, inputs), predict(model, inputs))
    counts = [len(each.trainable_weights) for each in (loaded, model)]
    assert counts[0] == counts[1] < len(model.weights)


@keras.saving.register_keras_serializable(package="tests")
class MeanVector(keras.layers.Layer):
    """Custom mechanism: one vector per sequence."""

    def __init__(self, units: int, scale: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units, self.scale = units, scale
        self.supports_masking = True
        self.dense = keras.layers.Dense(units)

    def build(self, x_shape: Any) -> None:
        self.dense.build((x_shape[0], x_shape[-1]))
        self.built = True

    def compute_mask(self, x: Any, mask: Any = None) -> None:
        """Return None: a vector has no token axis."""

    def call(self, x: Any, mask: Any = None) -> Any:
        kept = keras.ops.cast(mask, x.dtype)[..., None]
        return self.dense(keras.ops.sum(x * kept, axis=1)) * self.scale

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units, "scale": self.scale}


class CausalVector(MeanVector):
    """One vector per sequence, by a layer that is causal."""

    causal = True


class Sized(keras.layers.Layer):
    """Not a mechanism: it has no `units`."""

    def __init__(self, size: int) -> None:
        super().__init__()


MINE: list[Any] = [
    pytest.param(MeanVector, id="class"),
    pytest.param(MeanVector(UNITS), id="instance"),
    pytest.param(f"{__name__}:MeanVector", id="path"),
    pytest.param(CausalVector, id="causal"),
    pytest.param(Relation(UNITS, variant="released_code"), id="an-instance-of-ours"),
    pytest.param(keras.layers.MultiHeadAttention(num_heads=2, key_dim=4), id="multi-head"),
    pytest.param(keras.layers.LSTM(UNITS, return_sequences=True), id="lstm-of-tokens"),
    pytest.param(keras.layers.Dense, id="no-mask-argument"),
]


@pytest.mark.parametrize("mechanism", MINE)
def test_custom_mechanisms(mechanism: Any) -> None:
    network = "two_sequence_classifier"
    inputs = [
        ids[[0, 1, 0, 1]] for ids in sequences(network)
    ]  # Keras's layers differ for empty sequences.
    outputs = []
    for compute in ("readout", "all"):
        model = make(network, mechanism, compute=compute)
        randomize(model)
        outputs.append(predict(model, inputs))
        assert outputs[-1].std() > 0
    close(*outputs)
    if "Dense" not in str(mechanism):  # It sees no other token and no padding.
        longer = [np.pad(ids, ((0, 0), (0, 3))) for ids in inputs]
        close(predict(model, longer), outputs[-1])


def test_an_instance_is_a_template() -> None:
    template = Relation(UNITS, activation="tanh", name="mine")
    models = [make("one_sequence_classifier", template) for _ in range(2)]
    layers = [model.get_layer("mechanism") for model in models]
    assert len({id(layer) for layer in [template, *layers]}) == 3
    assert not template.built
    assert layers[0].activation is keras.activations.tanh
    one, other = (layer.get_weights()[0] for layer in layers)
    assert not np.allclose(one, other)


@pytest.mark.parametrize(
    ("mechanism", "options", "message"),
    [
        (MeanVector(4), {"scale": 2.0}, r"cannot change a layer instance\. .*\{'scale': 2\.0\}$"),
        (Sized, {"scale": 3}, r"cannot create Sized with units=6, scale=3: "),
        (MeanVector, {"variant": "released_code"}, "unknown MeanVector option 'variant'"),
        (3, None, r"`mechanism` must be a name.* Received: mechanism=3$"),
        (dict, None, r"`mechanism` must be a name.* Received: mechanism=<class 'dict'>$"),
    ],
)
def test_wrong_mechanisms(mechanism: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make("one_sequence_classifier", mechanism, options=options)


@pytest.mark.parametrize(
    "mechanism", [name for name, entry in REGISTERED.items() if entry.output_type != "sequence"]
)
def test_every_mechanism_runs_by_name(mechanism: str) -> None:
    """Trailing padding has no effect."""
    network = "one_sequence_classifier"
    model = make(network, mechanism, units=8, hidden_units=None)
    inputs = sequences(network)
    outputs = predict(model, inputs)
    assert outputs.shape == (4, CLASSES)
    assert np.isfinite(outputs).all()
    longer = [np.pad(ids, ((0, 0), (0, 5))) for ids in inputs]
    close(predict(model, longer), outputs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"positions": "learned"}, "`max_length` must be a positive integer. Received: max_length"),
        ({"positions": "rotary"}, "`positions` must be one of 'sine', 'softmax', 'learned'"),
        ({"network": "deep"}, "one of 'benchmark', 'plain'. Received: network='deep'"),
        ({"embeddings": np.zeros((20, 9))}, r"= \(20, 100\)\. .* embeddings\.shape=\(20, 9\)$"),
        ({"hidden_units": 0}, r"`hidden_units` must be a positive integer"),
        ({"dropout": 1.0}, r"`dropout` must be a number in \[0, 1\)"),
        ({"reversal_weight": "a"}, r"`reversal_weight` must be a non-negative number"),
        ({"network": "plain"}, "`hidden_units` must be None for network='plain'"),
        ({"unitz": 3}, r"unknown network argument 'unitz'. Did you mean 'units'\?"),
        ({"vocabulary_size": None}, "`vocabulary_size` must be a positive integer"),
        ({"num_classes": None}, r"`num_classes` must be a positive integer\. .*=None$"),
    ],
)
def test_invalid_settings(arguments: dict[str, Any], message: str) -> None:
    given = {"vocabulary_size": 20, "num_classes": 2, "hidden_units": 4} | arguments
    with pytest.raises(ValueError, match=message):
        sequence_classifier("relation", **given)


def test_outputs_are_float32_in_half_precision() -> None:
    """A softmax in half precision is exactly 1 for clear answers, with no gradient."""
    with dtype_policy("mixed_bfloat16"):
        models = [
            sequence_classifier("relation", 20, 2, units=4, embedding_dim=4),
            sequence_classifier("fcsr", 20, 2, embedding_dim=4, feature_projection=True),
            pair_regressor("relation", 20, units=4, embedding_dim=4),
            token_classifier("relation", 20, 3, units=4, embedding_dim=4),
        ]
    ids = np.array([[5, 8]])
    for model in models:
        assert model.get_layer("embedding").compute_dtype == "bfloat16"
        output = model([ids] * len(model.inputs) if len(model.inputs) > 1 else ids)
        assert keras.backend.standardize_dtype(output.dtype) == "float32"


def test_a_mechanism_of_vectors_must_not_return_tokens():
    """Else networks would read its first token."""
    with pytest.raises(ValueError, match="must return one vector for each text"):
        sequence_classifier("lstm", 50, 2, options={"return_sequences": True})
    tokens = token_classifier("lstm", 50, 2, options={"return_sequences": True})
    assert tokens.output_shape == (None, None, 2)


@pytest.mark.parametrize("compute", ["readout", "all"])
def test_a_causal_mechanism_is_read_at_its_last_unmasked_token(compute):
    """The first token has seen only itself."""
    model = sequence_classifier(
        "relation",
        vocabulary_size=20,
        num_classes=2,
        units=8,
        options={"variant": "equations", "causal": True},
        compute=compute,
    )
    ids = np.array([[5, 8, 13, 4], [7, 2, 0, 0]])
    padded = np.pad(ids, [(0, 0), (0, 3)])
    outputs = array(model(ids))
    close(model(padded), outputs)
    for word in (5, 4):  # the first and the last one
        change = np.abs(array(model(np.where(ids == word, 6, ids))) - outputs).max(axis=1)
        assert change[0] > 1e-4
        assert change[1] < 1e-5


def test_layers_draw_their_seeds_in_a_fixed_order(monkeypatch):
    """The output layer comes last: another order would change the weights of every seed."""
    created, dense = [], TextEncoder.dense

    def spy(self, name, *arguments, **options):
        created.append(name)
        return dense(self, name, *arguments, **options)

    monkeypatch.setattr(TextEncoder, "dense", spy)
    sequence_classifier("relation", vocabulary_size=9, num_classes=2, units=4)
    pair_classifier("relation", vocabulary_size=9, num_classes=2, units=4)
    assert created == ["hidden", "output", "hidden_1", "hidden_2", "output"]


# Classifiers of tokens

IDS = np.array([[5, 8, 3, 0, 0], [7, 2, 4, 9, 1]])
SMALL: dict[str, Any] = {"embedding_dim": 6, "units": 4, "dropout": 0.0}
STACK = {"mechanism": "relation", "num_layers": 2, "norm": "pre"}


@pytest.mark.parametrize(("mechanism", "options"), [("attention", {}), ("encoder", STACK)])
def test_each_token_has_logits(mechanism: str, options: dict[str, Any]) -> None:
    model = token_classifier(mechanism, 12, 3, options=options, **SMALL)
    assert tuple(model(IDS).shape) == (2, 5, 3)
    assert model.get_layer("output").activation is keras.activations.linear


@pytest.mark.parametrize("more", [{}, {"short_convolution": 3}, {"from_last_token": 5}])
def test_padding_does_not_change_tokens(more: dict[str, Any]) -> None:
    model = token_classifier("attention", 12, 3, **more, **SMALL)
    close(array(model(IDS))[0, :3], array(model(IDS[:1, :3]))[0])


def test_a_short_convolution_is_added_to_the_input() -> None:
    own: dict[str, Any] = SMALL | {"network": "plain"}
    model = token_classifier("baseline", 12, 3, short_convolution=2, **own)
    ids = IDS[1:]
    x = array(model.get_layer("positions")(model.get_layer("embedding")(ids)))
    filters, bias = map(array, model.get_layer("short_convolution").weights)
    before = np.concatenate([np.zeros_like(x[:, :1]), x[:, :-1]], axis=1)
    x = x + x * filters[1] + before * filters[0] + bias
    mixed = array(model.get_layer("mechanism")(x.astype("float32")))
    kernel, bias = map(array, model.get_layer("output").weights)
    close(array(model(ids)), mixed @ kernel + bias)


def test_a_mechanism_that_returns_a_vector_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must return \(batch, tokens, units\) for token"):
        token_classifier("dan", 12, 3, **SMALL)


@pytest.mark.parametrize("network", ["benchmark", "plain"])
def test_all_tokens_are_classified_from_the_last_one(network: Any) -> None:
    """The same as a NumPy program, in which padding after the last token has no place."""
    keras.utils.set_random_seed(1)
    model = token_classifier("attention", 12, 3, from_last_token=5, network=network, **SMALL)
    name = "hidden_activation" if network == "benchmark" else "mechanism"
    vectors = array(keras.Model(model.input, model.get_layer(name).output)(IDS))
    places = array(model.get_layer("decoder_positions").weights[0])
    kernel, bias = map(array, model.get_layer("decoder_hidden").weights)
    out_kernel, out_bias = map(array, model.get_layer("output").weights)
    assert kernel.shape == (4, 16)
    logits = array(model(IDS))
    for row, last in enumerate((2, 4)):
        for place in range(last + 1):
            hidden = np.maximum(0, (vectors[row, last] + places[place]) @ kernel + bias)
            close(logits[row, place], hidden @ out_kernel + out_bias)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("feature_projection", True, "must be False"),
        ("short_convolution", 0, "must be a positive integer"),
        ("from_last_token", 1.5, "must be a positive integer"),
    ],
)
def test_wrong_arguments_of_token_classifiers(name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"`{name}` {message}"):
        token_classifier("attention", 12, 3, **{name: value}, **SMALL)
