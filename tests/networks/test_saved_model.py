from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.networks import TaskHead, multi_task_networks
from relation_tf.networks.saved_model import SavedModelEncoder
from tests.backends import BACKEND, array, close

WIDTH = 3
TEXTS = np.array(["a dull film", "great fun", ""])


def embed(texts: Any, table: Any, kernel: Any) -> Any:
    """Return the projected mean of vectors of hashed words."""
    import tensorflow as tf

    words = tf.strings.to_hash_bucket_fast(tf.strings.split(texts), 16)
    vectors = tf.gather(table, words).to_tensor()
    return tf.matmul(tf.reduce_sum(vectors, axis=1), kernel)


def make_variables() -> tuple[Any, Any]:
    import tensorflow as tf

    rng = np.random.default_rng(0)
    table = tf.Variable(rng.normal(size=(16, 4)).astype("float32"), name="table")
    return table, tf.Variable(rng.normal(size=(4, WIDTH)).astype("float32"), name="kernel")


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a callable object, like the Universal Sentence Encoder."""
    import tensorflow as tf

    class Module(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.kernel = make_variables()

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def __call__(self, texts: Any) -> Any:
            return embed(texts, self.table, self.kernel)

    folder = tmp_path_factory.mktemp("called")
    tf.saved_model.save(Module(), folder)
    return folder


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save an object with only a signature."""
    import tensorflow as tf

    module = tf.Module()
    module.table, module.kernel = make_variables()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="texts")])
    def encode(texts: Any) -> Any:
        return {"vectors": embed(texts, module.table, module.kernel)}

    folder = tmp_path_factory.mktemp("signed")
    tf.saved_model.save(module, folder, signatures={"serving_default": encode})
    return folder


@pytest.fixture(params=["called", "signed"])
def folder(request: pytest.FixtureRequest) -> Path:
    return Path(request.getfixturevalue(request.param))


def expected() -> np.ndarray:
    return embed(TEXTS, *make_variables()).numpy()


@pytest.mark.tensorflow
def test_vectors(folder: Path) -> None:
    layer = SavedModelEncoder(folder)
    output = layer(TEXTS)
    assert output.shape == (3, WIDTH)
    close(array(output), expected())
    assert layer.compute_output_shape((None,)) == (None, WIDTH)


@pytest.mark.tensorflow
@pytest.mark.parametrize("trainable", [False, True])
def test_frozen_and_fine_tuned(folder: Path, trainable: bool) -> None:
    texts = keras.Input((), dtype="string")
    layer = SavedModelEncoder(folder, trainable=trainable)
    model = keras.Model(texts, keras.layers.Dense(1)(layer(texts)))
    assert len(model.trainable_variables) == (4 if trainable else 2)
    assert len(model.variables) >= 4
    before = [array(v) for v in layer.variables]
    model.compile(keras.optimizers.Adam(0.01), "mse")
    losses = [model.train_on_batch(TEXTS, np.ones((3, 1))) for _ in range(4)]
    assert losses[-1] < losses[0]
    changed = [
        np.abs(array(v) - start).max() > 1e-3
        for v, start in zip(layer.variables, before, strict=True)
    ]
    assert changed == [trainable] * 2
    assert (np.abs(array(layer(TEXTS)) - expected()).max() > 1e-3) == trainable


@pytest.mark.tensorflow
def test_keras_file_round_trip(called: Path, tmp_path: Path) -> None:
    texts = keras.Input((), dtype="string")
    model = keras.Model(texts, SavedModelEncoder(called, trainable=True)(texts))
    model.trainable_variables[0].assign(np.ones((16, 4)))
    model.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match=r"requires the saved model .* pass safe_mode=False"):
        keras.saving.load_model(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras", safe_mode=False)
    close(array(again(keras.ops.convert_to_tensor(TEXTS))), array(model(TEXTS)))
    assert np.abs(array(model(TEXTS)) - expected()).max() > 1e-3


@pytest.mark.tensorflow
def test_a_folder_that_is_no_saved_model(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`path` must be the folder .* Received: path='.*'$"):
        SavedModelEncoder(tmp_path)


@pytest.mark.tensorflow
def test_a_model_that_does_not_map_strings_to_vectors(tmp_path: Path) -> None:
    import tensorflow as tf

    module = tf.Module()
    lengths = tf.function(tf.strings.length, input_signature=[tf.TensorSpec([None], tf.string)])
    tf.saved_model.save(module, tmp_path, signatures={"serving_default": lengths})
    with pytest.raises(ValueError, match=r"must map one tensor of strings .* Received: path='.*'$"):
        SavedModelEncoder(tmp_path)


@pytest.mark.skipif(BACKEND == "tensorflow", reason="tests the error on other backends")
def test_another_backend(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=rf"needs the TensorFlow .* backend '{BACKEND}'$"):
        SavedModelEncoder(tmp_path)


@pytest.mark.tensorflow
def test_private_encoders_of_several_tasks(called: Path) -> None:
    heads = [TaskHead("a"), TaskHead("b", num_classes=3)]
    models = multi_task_networks(f"saved-model:{called}", None, heads, "shared-private")
    outputs = [model(keras.ops.convert_to_tensor(TEXTS)) for model in models]
    assert [output.shape for output in outputs] == [(len(TEXTS), 2), (len(TEXTS), 3)]
