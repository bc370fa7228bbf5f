from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from relation_tf.networks import (
    TaskHead,
    multi_task_networks,
    pair_classifier,
    pair_regressor,
    sequence_classifier,
    training_branches,
)
from relation_tf.networks.feature_projection import (
    Direction,
    GradientReversal,
    OrthogonalProjection,
)
from tests.backends import array, close, vjp
from tests.layers.cases import close_slopes

IDS = np.array([[5, 8, 3, 0, 0], [7, 2, 0, 0, 0], [4, 4, 9, 1, 6]])
LABELS = np.array([0, 1, 1])
SMALL = {"embedding_dim": 5, "units": 4, "dropout": 0.0, "network": "plain",
         "embedding_initializer": keras.initializers.RandomNormal(stddev=1.0, seed=1)}  # fmt: skip


def naive_projection(main, common):
    """Compute equations 5 to 8 of Qin et al. row by row, with the second projection."""
    rows = []
    for f_p, f_c in zip(main.astype(np.float64), common.astype(np.float64), strict=True):
        part = (f_p @ f_c) / (f_c @ f_c) * f_c if (f_c @ f_c) > 0 else np.zeros_like(f_p)
        rest = f_p - part
        rows.append((f_p @ rest) / (rest @ rest) * rest)
    return np.array(rows)


def features(width=7, rows=5):
    rng = np.random.default_rng(3)
    return [rng.normal(size=(rows, width)).astype("float32") for _ in range(3)]


@pytest.mark.parametrize("width", [2, 7])
def test_projection_and_its_gradients_equal_the_naive_form(width):
    main, common, weights = features(width)
    project = OrthogonalProjection()
    output, gradients, _ = vjp(lambda *pair: project(list(pair)), [main, common], [], weights)
    close(output, naive_projection(main, common))
    close((output * common).sum(axis=1), np.zeros(len(main)))
    wide = [main.astype("float64"), common.astype("float64")]
    close_slopes(lambda: float((naive_projection(*wide) * weights).sum()), wide, gradients)


def test_common_features_of_zero_change_nothing_and_tiny_ones_are_not_zero():
    main, common, weights = features()
    common[0] = 0.0
    common[1] *= 1e-25
    project = OrthogonalProjection()
    output, gradients, _ = vjp(lambda *pair: project(list(pair)), [main, common], [], weights)
    close(output[0], main[0])
    close(gradients[0][0], weights[0])
    assert not gradients[1][0].any()
    close(output[1], naive_projection(main[1:2], common[1:2] * 1e25)[0])
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_direction_and_its_gradients():
    x, _, weights = features()
    x[0], x[1] = 0.0, 1e-25 * x[1]
    output, (gradient,), _ = vjp(Direction(), [x], [], weights)
    norms = np.linalg.norm(x.astype("float64"), axis=1, keepdims=True)
    meant = x / np.where(norms > 0, norms, 1)
    close(output, meant)
    assert np.isfinite(gradient).all()
    across = weights - (weights * meant).sum(axis=1, keepdims=True) * meant
    close(gradient[2:], (across / np.where(norms > 0, norms, 1))[2:], 1e-4)


@pytest.mark.parametrize("weight", [1.0, 0.05])
def test_a_reversed_gradient_has_a_weight(weight):
    x, weights, _ = features()
    output, (gradient,), _ = vjp(GradientReversal(weight), [x], [], weights)
    assert (output == x).all()
    close(gradient, -weight * weights)


def make(mechanism="fcsr", **changes):
    return sequence_classifier(mechanism, 12, 2, **{**SMALL, "feature_projection": True, **changes})


def loss_of(outputs):
    return -ops.mean(ops.log(ops.take_along_axis(outputs, LABELS[:, None], axis=1)))


def gradients_of(model, which, names):
    """Return the gradients of the loss of one branch for the kernels of some layers."""
    both = training_branches(model)
    layers = [both.get_layer(name) for name in names]
    variables = [layer.trainable_variables[0] for layer in layers]
    _, _, gradients = vjp(lambda: loss_of(both(IDS, training=True)[which]), [], variables)
    return dict(zip(names, gradients, strict=True))


NAMES = ["mechanism", "head", "common_mechanism", "common_head", "output", "common_output"]


def test_the_common_branch_learns_from_a_reversed_gradient():
    """The gradient decreases the loss for the common classifier and increases it for its input."""
    model = make(reversal_weight=0.5)
    found = gradients_of(model, 1, NAMES)
    both = training_branches(model)
    shared = keras.Model(model.input, both.get_layer("output_reversal").input)
    output = both.get_layer("common_output")
    variables = [both.get_layer(n).trainable_variables[0] for n in ("common_head", "common_output")]
    _, _, (head, kernel) = vjp(lambda: loss_of(output(shared(IDS, training=True))), [], variables)
    close(found["common_head"], -0.5 * head)
    close(found["common_output"], kernel)
    assert np.abs(head).max() > 1e-4
    for name in ("mechanism", "head", "output"):
        assert not found[name].any()


def test_longer_common_features_change_no_answer():
    """A reversed gradient increases the loss without limit if longer features can do so."""
    model = make("cnn", options={"widths": [3], "activation": "linear"})
    before = [array(each) for each in training_branches(model)(IDS)]
    for variable in model.get_layer("common_mechanism").trainable_variables:
        variable.assign(variable * 1e4)
    for after, expected in zip(training_branches(model)(IDS), before, strict=True):
        close(after, expected)


def test_the_main_loss_reaches_both_branches_but_not_the_common_classifier():
    found = gradients_of(make(), 0, NAMES)
    for name in ("mechanism", "head", "common_mechanism", "common_head", "output"):
        assert found[name].any(), name
    assert not found["common_output"].any()


def test_the_network_classifies_orthogonal_features():
    model = make()
    layer = model.get_layer("output_projection")
    probe = keras.Model(model.input, [*layer.input, layer.output])
    main, common, projected = (array(each) for each in probe(IDS))
    close(projected, naive_projection(main, common))
    logits = projected @ array(model.get_layer("output").kernel)
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    close(model(IDS), expected)
    close(training_branches(model)(IDS)[0], expected)


def test_pairs_and_several_tasks():
    pair = pair_classifier("fcsr", 12, 3, **SMALL, feature_projection=True)
    assert pair([IDS, IDS]).shape == (3, 3)
    assert [o.shape for o in training_branches(pair)([IDS, IDS])] == [(3, 3), (3, 3)]
    tasks = [TaskHead("books"), TaskHead("nli", inputs=2, num_classes=3)]
    books, nli = multi_task_networks("fcsr", 12, tasks, **SMALL, feature_projection=True)
    assert nli([IDS, IDS]).shape == (3, 3)
    assert training_branches(books)(IDS)[1].shape == (3, 2)
    common = {id(v) for v in books.variables} & {id(v) for v in nli.variables}
    paths = {v.path.split("/")[0] for v in books.trainable_variables if id(v) in common}
    assert paths == {"embedding", "mechanism", "head", "common_mechanism", "common_head"}


def test_a_saved_network_has_both_branches(tmp_path):
    model = make()
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    close(again(IDS), array(model(IDS)))
    for own, expected in zip(
        training_branches(again)(IDS), training_branches(model)(IDS), strict=True
    ):
        close(own, array(expected))
    assert again.get_layer("output_reversal").weight == 1.0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: pair_regressor("fcsr", 12, **SMALL, feature_projection=True),
            "`feature_projection` must be False for a regressor",
        ),
        (
            lambda: multi_task_networks(
                "fcsr", 12, [TaskHead("a")], "adversarial", **SMALL, feature_projection=True
            ),
            "`feature_projection` must be False with private or frozen layers",
        ),
        (
            lambda: make(contextual=keras.layers.Identity(name="frozen")),
            "`feature_projection` must be False with contextual embeddings",
        ),
    ],
)
def test_invalid_networks(build, message):
    with pytest.raises(ValueError, match=message):
        build()
