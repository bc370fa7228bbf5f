from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from relation_tf.networks import (
    TaskHead,
    as_one,
    frozen_layers,
    multi_task_networks,
    pair_regressor,
    sequence_classifier,
)
from relation_tf.networks.multi_task import GradientReversal, TaskAdversary
from tests.backends import BACKEND, array, close, started, vjp

HEADS = [TaskHead("books"), TaskHead("nli", inputs=2, num_classes=3),
         TaskHead("alike", inputs=2, num_classes=None)]  # fmt: skip
SHARINGS = ["shared", "shared-private", "adversarial"]
FROZEN = ["single-channel", "bi-channel"]
SMALL = {"embedding_dim": 5, "units": 4, "dropout": 0.0, "options": {"dropout": 0.0}}
reads_losses = pytest.mark.skipif(
    BACKEND == "jax", reason="on JAX only the trainer gets the loss of a layer"
)
IDS = np.array([[5, 8, 3, 0], [7, 2, 0, 0], [4, 4, 9, 1]])


def make(sharing, heads=HEADS, **changes):
    models = multi_task_networks("relation", 12, heads, sharing, **{**SMALL, **changes})
    started(as_one(models))
    return models


def own_names(model):
    return {layer.name for layer in model.layers if layer.trainable_variables}


@pytest.mark.parametrize("sharing", [*SHARINGS, *FROZEN])
def test_each_task_has_its_own_output(sharing):
    books, nli, alike = make(sharing)
    assert books(IDS).shape == (3, 2)
    assert nli([IDS, IDS]).shape == (3, 3)
    assert alike([IDS, IDS]).shape == (3, 1)
    close(ops.sum(nli([IDS, IDS]), axis=1), np.ones(3))


def test_shared_network_equals_the_network_of_a_single_task():
    """With equal weights each task has the outputs of a single-task network."""
    books, _, alike = make("shared")
    for model, alone in (
        (books, sequence_classifier("relation", 12, 2, **SMALL)),
        (alike, pair_regressor("relation", 12, **SMALL)),
    ):
        values = {each.path.replace(f"_{name}", ""): array(each)
                  for each in model.variables for name in ("books", "alike")}  # fmt: skip
        for variable in alone.variables:
            own = values.get(variable.path)
            if own is not None:
                variable.assign(own)
        inputs = IDS if model is books else [IDS, IDS[::-1]]
        close(model(inputs), array(alone(inputs)))
        assert len(alone.trainable_variables) == len(model.trainable_variables)


@pytest.mark.parametrize("sharing", SHARINGS)
def test_shared_and_private_layers(sharing):
    books, nli, _ = make(sharing)
    common = {id(v) for v in books.trainable_variables} & {id(v) for v in nli.trainable_variables}
    names = {v.path.split("/")[0] for v in books.trainable_variables if id(v) in common}
    expected = {"embedding", "mechanism"} | (
        {"discriminator"} if sharing == "adversarial" else set()
    )
    assert names == expected
    private = {"books_mechanism", "books_hidden"} if sharing != "shared" else set()
    assert own_names(books) == expected | private | {"hidden", "output_books"}
    one = as_one([books, nli])
    assert len({id(v) for v in one.variables}) == len(one.variables)


@pytest.mark.parametrize("sharing", FROZEN)
@pytest.mark.parametrize("options", [{}, {"positions": "learned", "max_length": 9}])
def test_frozen_layers(sharing, options):
    (books,) = make(sharing, HEADS[:1], **options)
    frozen = {layer.name for layer in frozen_layers(books)}
    learned = {"position_embedding"} if options else set()
    assert frozen == {"embedding", "mechanism", "hidden"} | learned
    private = {f"books_{name}" for name in ("mechanism", "hidden", *learned)}
    assert own_names(books) == {"output_books"} | (private if sharing == "bi-channel" else set())
    assert not frozen_layers(make("adversarial")[0])


def losses_of(model, inputs):
    model(inputs, training=True)
    return sorted(float(array(loss)) for loss in model.losses)


def vectors_of(model, ids):
    """Return inputs of the penalties of a task: shared and private vectors, and logits."""
    layers = {layer.name: layer for layer in model.layers}
    probe = keras.Model(
        model.inputs[0],
        [layers["books_adversary"].input[0], layers["books_vector"].input[1],
         layers["books_adversary"].input[1]],
    )  # fmt: skip
    return [array(each).astype(np.float64) for each in probe(ids)]


def naive_penalty(shared, private):
    """Penalty of the code of Liu et al.: mean square of S^T P, rows centred, of length 1."""
    unit = []
    for rows in (shared, private):
        rows = rows - rows.mean(axis=0)
        unit.append(rows / np.sqrt((rows**2).sum(axis=1, keepdims=True)))
    total = 0.0
    for i in range(shared.shape[1]):
        for j in range(private.shape[1]):
            total += sum(unit[0][row, i] * unit[1][row, j] for row in range(len(shared))) ** 2
    return total / (shared.shape[1] * private.shape[1])


def test_losses_of_the_adversary_and_of_orthogonality():
    books, *_ = make("adversarial", adversary_weight=0.5, orthogonality_weight=2.0)
    shared, private, logits = vectors_of(books, IDS)
    likelihoods = logits[:, 0] - np.log(np.exp(logits).sum(axis=1))
    expected = sorted([-0.5 * likelihoods.mean(), 2.0 * naive_penalty(shared, private)])
    close(losses_of(books, IDS), expected)
    books(IDS)
    assert books.losses == []


@reads_losses
def test_discriminator_gradient_is_reversed():
    """The gradient decreases the loss for the discriminator and increases it for its input."""
    rng = np.random.default_rng(0)
    vector = rng.normal(size=(4, 3)).astype("float32")
    dense = keras.layers.Dense(2)
    dense.build((4, 3))
    dense.kernel.assign(rng.normal(size=(3, 2)))
    adversary = TaskAdversary(1, weight=1.0)

    def cost(x, reverse):
        adversary([x, dense(GradientReversal()(x) if reverse else x)], training=True)
        return adversary.losses[0]

    _, (plain,), (plain_kernel, _) = vjp(lambda x: cost(x, False), [vector], dense.variables)
    _, (reversed_,), (kernel, _) = vjp(lambda x: cost(x, True), [vector], dense.variables)
    close(reversed_, -plain)
    close(kernel, plain_kernel)
    assert np.abs(plain).max() > 0.01


def test_padding_changes_nothing():
    for model in make("adversarial"):
        pair = len(model.inputs) == 2
        wide = np.pad(IDS, ((0, 0), (0, 3)))
        close(model([wide, wide] if pair else wide), array(model([IDS, IDS] if pair else IDS)))


@pytest.mark.parametrize("sharing", ["adversarial", "bi-channel"])
def test_a_saved_network_is_the_same(tmp_path, sharing):
    books, *_ = make(sharing)
    books.save(tmp_path / "books.keras")
    again = keras.saving.load_model(tmp_path / "books.keras")
    close(again(IDS), array(books(IDS)))
    close(losses_of(again, IDS), losses_of(books, IDS))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sharing": "some"}, "`sharing` must be .*Received: sharing='some'"),
        ({"adversary_weight": -1}, "`adversary_weight` must be a non-negative number"),
        ({"orthogonality_weight": "x"}, "`orthogonality_weight` must be a non-negative number"),
        ({"heads": []}, "`heads` must have one or more tasks"),
        ({"heads": [TaskHead("a"), TaskHead("a")]}, r"without repetition. Received: \['a', 'a'\]"),
    ],
)
def test_invalid_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        multi_task_networks("relation", 12, **{"heads": HEADS, **arguments})
