from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any, Literal

import keras
import numpy as np
import pytest

from relation_tf.optimizers import _CHUNK, Adam, FCSRDecay
from tests.backends import BACKEND, array, close

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


@pytest.mark.parametrize("updates", ["dense", "rows"])
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_variables_of_another_dtype(dtype: str, updates: Literal["dense", "rows"]) -> None:
    if BACKEND == "jax" and dtype == "float64":
        pytest.skip("JAX needs float64 to be enabled at startup")
    gradient = keras.ops.convert_to_tensor([[1.0, -2.0]], dtype)
    values = []
    mine = Adam(0.1, updates, epsilon=1e-3)
    for optimizer in (mine, keras.optimizers.Adam(0.1, epsilon=1e-3)):
        variable = keras.Variable(np.ones((1, 2)), dtype=dtype, name="embeddings")
        optimizer.apply([gradient], [variable])
        assert keras.backend.standardize_dtype(variable.dtype) == dtype
        values.append(array(variable))
    np.testing.assert_allclose(values[0], values[1], rtol=1e-6 if dtype == "float64" else 2e-3)


def test_serialization() -> None:
    optimizer = Adam(0.5, beta_1=0.8, amsgrad=True, clipnorm=2.0, weight_decay=0.1, name="mine")
    config = keras.saving.serialize_keras_object(optimizer)
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is Adam
    assert again.get_config() == optimizer.get_config()
    assert again.get_config()["embedding_updates"] == "dense"


def test_unknown_updates() -> None:
    with pytest.raises(
        ValueError, match=r"must be 'dense' or 'rows'\. Received: embedding_updates='lazy'$"
    ):
        Adam(embedding_updates="lazy")


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


@pytest.mark.tensorflow
@pytest.mark.parametrize("updates", ["dense", "rows"])
@pytest.mark.parametrize("arguments", [{}, {"global_clipnorm": 0.1}], ids=list)
def test_xla_does_not_change_updates(
    updates: Literal["dense", "rows"], arguments: dict[str, Any]
) -> None:
    on, off = (
        fitted(Adam(0.1, embedding_updates=updates, **arguments), jit_compile=xla)
        for xla in (True, False)
    )
    for one, other in zip(on.get_weights(), off.get_weights(), strict=True):
        close(one, other)


@pytest.mark.parametrize("updates", ["dense", "rows"])
def test_under_a_loss_scale(updates: Literal["dense", "rows"]) -> None:
    """Loss scaling, as with mixed_float16, has no effect: scales are powers of two."""
    inner = Adam(0.1, embedding_updates=updates)
    scaled = keras.optimizers.LossScaleOptimizer(inner, initial_scale=4.0)
    plain = fitted(Adam(0.1, embedding_updates=updates))
    for one, other in zip(fitted(scaled).get_weights(), plain.get_weights(), strict=True):
        close(one, other)


@pytest.mark.parametrize("updates", ["dense", "rows"])
def test_training_resumes_from_a_file(updates: Literal["dense", "rows"], tmp_path: Any) -> None:
    first = fitted(Adam(0.1, embedding_updates=updates))
    first.save(tmp_path / "model.keras")
    second = keras.saving.load_model(tmp_path / "model.keras")
    assert second.optimizer.embedding_updates == updates
    batch = np.array([BATCHES[0]]), np.array([[1.0, 2.0]])
    for made in (first, second):
        made.train_on_batch(*batch)
    for one, other in zip(first.get_weights(), second.get_weights(), strict=True):
        close(one, other)


def in_rows(ids: np.ndarray, values: np.ndarray, rows: int) -> Any:
    """Return the gradient of an embedding with one value per id, in the form of the backend."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        indices = tf.constant(ids, "int32")
        return tf.IndexedSlices(tf.constant(values), indices, (rows, values.shape[1]))
    gradient = np.zeros((rows, values.shape[1]), "float32")
    gradient[ids] = values
    return keras.ops.convert_to_tensor(gradient)


def compiled_apply(optimizer: Any, variable: Any) -> Callable[[Any], None]:
    """Apply a step as in Keras's trainers: on JAX compiled, with donated state."""
    if BACKEND != "jax":
        return lambda gradient: optimizer.apply([gradient], [variable])
    import jax

    optimizer.build([variable])
    step = jax.jit(optimizer.stateless_apply, donate_argnums=(0, 2))

    def apply(gradient: Any) -> None:
        state = [v.value for v in optimizer.variables]
        (x,), state = step(state, [gradient], [variable.value])
        for v, value in zip([variable, *optimizer.variables], [x, *state], strict=True):
            v.assign(value)

    return apply


class TwinOfRows:
    """Adam in NumPy (Kingma and Ba 2015), for the rows of a batch only."""

    def __init__(self, x: np.ndarray, rate: float) -> None:
        self.x, self.rate, self.steps = x.astype("float64"), rate, 0
        self.m, self.v = np.zeros_like(self.x), np.zeros_like(self.x)

    def apply(self, ids: np.ndarray, values: np.ndarray) -> None:
        self.steps += 1
        rate = self.rate * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        for i, gradient in zip(ids, values, strict=True):
            self.m[i] = 0.9 * self.m[i] + 0.1 * gradient
            self.v[i] = 0.999 * self.v[i] + 0.001 * gradient**2
            self.x[i] -= rate * self.m[i] / (np.sqrt(self.v[i]) + 1e-7)


class TestRows:
    @pytest.mark.parametrize(
        ("rows", "counts"),
        [
            (5, (2, 0, 3)),
            (5, (5, 5, 5)),
            (1, (1, 0, 1)),
            (_CHUNK, (_CHUNK, 1, _CHUNK - 1)),
            (3 * _CHUNK + 7, (2 * _CHUNK, 2 * _CHUNK + 1, 3 * _CHUNK + 7)),
        ],
        ids=str,
    )
    def test_equals_the_reference(self, rows: int, counts: tuple[int, ...]) -> None:
        rng = np.random.default_rng(rows)
        start = rng.normal(size=(rows, 2)).astype("float32")
        twin, variable = TwinOfRows(start, 0.1), keras.Variable(start, name="embeddings")
        optimizer = Adam(0.1, embedding_updates="rows")
        apply = compiled_apply(optimizer, variable)
        for count in counts:
            before = variable.numpy().copy()
            ids = rng.permutation(rows)[:count]
            values = rng.normal(size=(count, 2)).astype("float32")
            apply(in_rows(ids, values, rows))
            twin.apply(ids, values)
            others = np.setdiff1d(np.arange(rows), ids)
            np.testing.assert_array_equal(variable.numpy()[others], before[others])
            close(variable.numpy(), twin.x)
            close(moment(optimizer, "momentum"), twin.m, 1e-6)
            close(moment(optimizer, "velocity"), twin.v, 1e-6)

    def test_equals_the_reference_in_a_compiled_train_step(self) -> None:
        """The loss is a mean of embeddings, with a known gradient."""
        inputs = keras.Input((None,), dtype="int32")
        made = keras.Model(inputs, keras.layers.Embedding(ROWS, WIDTH)(inputs))
        twin = TwinOfRows(made.get_weights()[0], 0.1)
        made.compile(Adam(0.1, embedding_updates="rows"), lambda y_true, y_pred: y_true * y_pred)
        rng = np.random.default_rng(0)
        for ids in ([1, 2, 5], [3, 2, 4], [1, 3, 5]):
            slopes = rng.normal(size=(1, len(ids), WIDTH)).astype("float32")
            made.train_on_batch(np.array([ids]), slopes)
            twin.apply(np.array(ids), slopes[0] / slopes.size)
        close(made.get_weights()[0], twin.x)

    def test_other_matrices_update_all_rows(self) -> None:
        """Rows of a kernel without a gradient still change by their moments."""
        values = []
        for optimizer in (Adam(0.1, embedding_updates="rows"), keras.optimizers.Adam(0.1)):
            kernel = keras.Variable(np.ones((2, 2), "float32"), name="kernel")
            for gradient in ([[1.0, 2.0], [3.0, 4.0]], [[0.0, 0.0], [1.0, 1.0]]):
                optimizer.apply([keras.ops.convert_to_tensor(gradient)], [kernel])
            values.append(kernel.numpy())
        close(values[0], values[1])

    def test_row_with_a_zero_gradient(self) -> None:
        """With dense gradients it is treated as a row that does not occur."""
        optimizer, (embeddings, _) = Adam(0.1, embedding_updates="rows"), started()
        values = np.ones((2, WIDTH), "float32")
        optimizer.apply([slices([1, 2], values)], [embeddings])
        optimizer.apply([slices([1, 2], values * [[0], [1]])], [embeddings])
        expected = 0.09 if BACKEND == "tensorflow" else 0.1
        close(moment(optimizer, "momentum")[1:3], [[expected] * WIDTH, [0.19] * WIDTH], 1e-6)

    @pytest.mark.skipif(BACKEND == "tensorflow", reason="TensorFlow knows the rows")
    @pytest.mark.parametrize("value", [1e-18, -1e30, np.inf, np.nan])
    def test_tiny_gradients_update_rows(self, value: float) -> None:
        optimizer, (embeddings, _) = Adam(embedding_updates="rows"), started()
        gradient = np.zeros((ROWS, WIDTH), "float32")
        gradient[2, 1] = value
        optimizer.apply([keras.ops.convert_to_tensor(gradient)], [embeddings])
        momentum = moment(optimizer, "momentum")
        np.testing.assert_allclose(momentum[2, 1], 0.1 * value, rtol=1e-5)
        assert (np.delete(momentum, 2, axis=0) == 0).all()

    def test_weight_decay_applies_to_all_rows(self) -> None:
        before = started()[0].numpy()
        after, _ = train(Adam(0.1, embedding_updates="rows", weight_decay=0.1), slices, steps=1)
        np.testing.assert_allclose(after[0], before[0] * 0.99, rtol=1e-6)

    def test_accumulated_gradients(self) -> None:
        """The first two batches form one step."""
        arguments: dict[str, Any] = {"learning_rate": 0.1, "gradient_accumulation_steps": 2}
        expected = train(keras.optimizers.Adam(**arguments), on_dense)
        actual = train(Adam(embedding_updates="rows", **arguments), slices)
        for one, other in zip(actual, expected, strict=True):
            close(one, other)

    @pytest.mark.parametrize("arguments", [{"clipnorm": 0.5}, {"global_clipnorm": 0.7}], ids=list)
    def test_the_first_step_is_dense_adam(self, arguments: dict[str, Any]) -> None:
        """Later steps differ for rows that did not occur: their moments have not decayed."""
        expected = train(keras.optimizers.Adam(0.1, **arguments), on_dense, steps=1)
        actual = train(Adam(0.1, embedding_updates="rows", **arguments), slices, steps=1)
        for one, other in zip(actual, expected, strict=True):
            close(one, other)

    def test_rows_refuse_amsgrad(self) -> None:
        with pytest.raises(ValueError, match=r"does not support amsgrad\. Received: amsgrad=True$"):
            Adam(embedding_updates="rows", amsgrad=True)


MIRRORED = """
import keras, numpy as np, tensorflow as tf
from relation_tf.optimizers import Adam
cpu, = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
ids = np.array([[1, 2, 1], [3, 3, 3], [1, 4, 4], [5, 3, 1]])
labels = np.arange(8.0, dtype="float32").reshape(4, 2)

def trained(strategy, optimizer):
    with strategy.scope():
        keras.utils.set_random_seed(0)
        inputs = keras.Input((3,), dtype="int32")
        x = keras.layers.Embedding(6, 3)(inputs)
        model = keras.Model(inputs, keras.layers.Dense(2)(keras.ops.mean(x, axis=1)))
        model.compile(optimizer(), "mse", jit_compile=False)
    data = tf.data.Dataset.from_tensor_slices((ids, labels)).batch(4).repeat(2)
    model.fit(data, verbose=0)
    return model.get_weights()

for updates in ("dense", "rows"):
    make = lambda: Adam(0.1, embedding_updates=updates)
    one = trained(tf.distribute.get_strategy(), make)
    two = trained(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), make)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
"""


@pytest.mark.tensorflow
@pytest.mark.slow
def test_two_replicas_equal_one() -> None:
    """Slices of equal ids are summed across replicas: both have ids 1 and 3."""
    subprocess.run([sys.executable, "-c", MIRRORED], check=True, timeout=600)


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

    def test_first_and_last_rates(self) -> None:
        """40 epochs from 0.01: 8e-3 to 1e-4, or almost zero from epoch 9 on."""
        first, last = (float(FCSRDecay(0.01, 40, 1)(step)) for step in (0, 39))
        np.testing.assert_allclose([first, last], [8e-3, 9e-5], rtol=5e-3)
        assert float(FCSRDecay(0.01, 40, 1, compounding=True)(9)) < 1e-5

    def test_steps_beyond_float32(self) -> None:
        """float32 cannot represent 2^24 + 1."""
        schedule = FCSRDecay(0.01, 2, 2**24 + 1)
        assert float(schedule(2**24)) > float(schedule(2**24 + 1))

    def test_serialization(self) -> None:
        config = keras.saving.serialize_keras_object(Adam(FCSRDecay(0.02, 7, 3, compounding=True)))
        again = keras.saving.deserialize_keras_object(config)._learning_rate
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
            ({"initial_learning_rate": -1}, r"Received: initial_learning_rate=-1$"),
            ({"initial_learning_rate": float("nan")}, r"Received: initial_learning_rate=nan$"),
            ({"epochs": 0}, r"`epochs` must be a positive integer\. Received: epochs=0$"),
            ({"epochs": 2.5}, r"Received: epochs=2\.5$"),
            ({"epochs": True}, r"Received: epochs=True$"),
            ({"steps_per_epoch": -2}, r"`steps_per_epoch` must be .*steps_per_epoch=-2$"),
        ],
    )
    def test_wrong_arguments(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            FCSRDecay(
                **{"initial_learning_rate": 0.01, "epochs": 2, "steps_per_epoch": 3, **arguments}
            )
