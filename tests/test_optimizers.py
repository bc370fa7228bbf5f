from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.optimizers import Adam, FCSRDecay
from tests.backends import BACKEND, close

ROWS, WIDTH = 6, 3
# Token ids of three batches, most of them repeated; row 0 does not occur.
BATCHES = [[1, 2, 1, 1, 5], [3, 3, 2, 4, 4], [1, 3, 5, 5, 5]]


def slices(ids: list[int], values: np.ndarray) -> Any:
    """Return the gradient of an embedding in the form of the backend."""
    if BACKEND != "tensorflow":
        return keras.ops.convert_to_tensor(dense(ids, values))
    import tensorflow as tf

    return tf.IndexedSlices(tf.constant(values), tf.constant(ids), tf.constant([ROWS, WIDTH]))


def dense(ids: list[int], values: np.ndarray) -> np.ndarray:
    gradient = np.zeros((ROWS, WIDTH), "float32")
    np.add.at(gradient, ids, values)
    return gradient


def gradients(step: int) -> tuple[np.ndarray, np.ndarray]:
    """Return gradients of the tokens of a batch and of an ordinary matrix."""
    rng = np.random.default_rng(step)
    return (
        rng.normal(size=(len(BATCHES[step]), WIDTH)).astype("float32"),
        rng.normal(size=(2, 2)).astype("float32"),
    )


def started() -> tuple[Any, Any]:
    values = np.random.default_rng(9).normal(size=(ROWS, WIDTH)).astype("float32")
    return keras.Variable(values, name="embeddings"), keras.Variable(np.ones((2, 2), "float32"))


def train(optimizer: Any, gradient: Any, steps: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return the embedding and the matrix after some steps."""
    embeddings, matrix = started()
    for step in range(steps):
        of_tokens, of_matrix = gradients(step)
        optimizer.apply(
            [gradient(BATCHES[step], of_tokens), keras.ops.convert_to_tensor(of_matrix)],
            [embeddings, matrix],
        )
    return tuple(keras.ops.convert_to_numpy(v) for v in (embeddings, matrix))


def on_dense(ids: list[int], values: np.ndarray) -> Any:
    return keras.ops.convert_to_tensor(dense(ids, values))


def moment(optimizer: Any, name: str) -> np.ndarray:
    [found] = [v for v in optimizer.variables if v.name.endswith(f"_{name}")]
    return keras.ops.convert_to_numpy(found)


def test_smallest_case() -> None:
    """Apply gradients [1] and [3] to one row, then [1] and [-1.5].

    0.999 (0.001 (1 + 3)^2) + 0.001 (1 - 1.5)^2 = 0.016234. Squared before summing, the result is
    0.01324.
    """
    optimizer, variable = Adam(), keras.Variable(np.zeros((1, 1), "float32"))
    for values in ([[1.0], [3.0]], [[1.0], [-1.5]]):
        if BACKEND == "tensorflow":
            import tensorflow as tf

            gradient = tf.IndexedSlices(
                tf.constant(values), tf.constant([0, 0]), tf.constant([1, 1])
            )
        else:
            gradient = keras.ops.sum(keras.ops.convert_to_tensor(values), axis=0, keepdims=True)
        optimizer.apply([gradient], [variable])
    np.testing.assert_allclose(moment(optimizer, "velocity"), [[0.016234]], rtol=1e-4)


ARGUMENTS = [
    {},
    {"learning_rate": 0.1, "beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-3},
    {"amsgrad": True},
    {"weight_decay": 0.1},
    {"clipnorm": 0.5},
    {"clipvalue": 0.3},
    {"global_clipnorm": 0.7},
    {"use_ema": True, "ema_overwrite_frequency": 2},
    {"gradient_accumulation_steps": 2},
    {"learning_rate": keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)},
]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=lambda a: "-".join(a) or "defaults")
def test_equals_adam_on_the_dense_gradient(arguments: dict[str, Any]) -> None:
    expected = train(keras.optimizers.Adam(**arguments), on_dense)
    for actual, wanted in zip(train(Adam(**arguments), slices), expected, strict=True):
        close(actual, wanted)


def model(optimizer: Any, **compile_arguments: Any) -> keras.Model:
    inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(ROWS, WIDTH, name="embedding")(inputs)
    made = keras.Model(inputs, keras.layers.Dense(2)(keras.ops.mean(x, axis=1)))
    rng = np.random.default_rng(0)
    made.set_weights([rng.normal(size=w.shape) for w in made.get_weights()])
    made.compile(optimizer, "mse", **compile_arguments)
    return made


def fitted(optimizer: Any, **compile_arguments: Any) -> keras.Model:
    made = model(optimizer, **compile_arguments)
    for ids in BATCHES:
        made.train_on_batch(np.array([ids, ids[::-1]]), np.array([[1.0, 2.0], [0.0, 1.0]]))
    return made


def test_training_resumes_from_a_file(tmp_path: Any) -> None:
    first = fitted(Adam(0.1))
    first.save(tmp_path / "model.keras")
    second = keras.saving.load_model(tmp_path / "model.keras")
    assert type(second.optimizer) is Adam
    batch = np.array([BATCHES[0]]), np.array([[1.0, 2.0]])
    for made in (first, second):
        made.train_on_batch(*batch)
    for one, other in zip(first.get_weights(), second.get_weights(), strict=True):
        close(one, other)


def rates(initial: float, epochs: int, compounding: bool) -> list[float]:
    """Return the rates of equation 16 of the FCSR preprint, one per epoch."""
    found, previous = [], initial
    for i in range(epochs):
        factor = 0.8 * 0.01 ** ((i + 0.01) / (epochs + 0.01))
        previous = factor * (previous if compounding else initial)
        found.append(previous)
    return found


class TestFCSRDecay:
    @pytest.mark.parametrize("compounding", [False, True])
    @pytest.mark.parametrize(("initial", "epochs", "steps"), [(0.01, 40, 3), (1.0, 1, 1)])
    def test_equals_the_loop(
        self, initial: float, epochs: int, steps: int, compounding: bool
    ) -> None:
        schedule = FCSRDecay(initial, epochs, steps, compounding)
        expected = rates(initial, epochs, compounding)
        for step in range(epochs * steps + 5):
            actual = float(schedule(step))
            wanted = expected[min(step // steps, epochs - 1)]
            np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-30)

    def test_steps_beyond_float32(self) -> None:
        """float32 cannot represent 2^24 + 1."""
        schedule = FCSRDecay(0.01, 2, 2**24 + 1)
        assert float(schedule(2**24)) > float(schedule(2**24 + 1))

    def test_serialization(self) -> None:
        config = keras.saving.serialize_keras_object(FCSRDecay(0.02, 7, 3, compounding=True))
        again = keras.saving.deserialize_keras_object(config)
        assert type(again) is FCSRDecay
        assert again.get_config() == {
            "initial_learning_rate": 0.02,
            "epochs": 7,
            "steps_per_epoch": 3,
            "compounding": True,
        }

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"initial_learning_rate": 0.0}, r"positive and finite\. Received: .*rate=0\.0$"),
            ({"initial_learning_rate": float("nan")}, r"Received: initial_learning_rate=nan$"),
            ({"epochs": 0}, r"`epochs` must be a positive integer\. Received: epochs=0$"),
            ({"epochs": True}, r"Received: epochs=True$"),
            ({"steps_per_epoch": -2}, r"`steps_per_epoch` must be .*steps_per_epoch=-2$"),
        ],
    )
    def test_wrong_arguments(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            FCSRDecay(
                **{"initial_learning_rate": 0.01, "epochs": 2, "steps_per_epoch": 3, **arguments}
            )
