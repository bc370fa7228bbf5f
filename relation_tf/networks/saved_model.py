"""Sentence encoders from TensorFlow SavedModels."""

from __future__ import annotations

import os
from typing import Any, Self

import keras
from keras import ops

from relation_tf.networks.mixing import refuse_in_safe_mode


@keras.saving.register_keras_serializable(package="relation_tf")
class SavedModelEncoder(keras.layers.Layer):
    """Layer from a TensorFlow SavedModel that encodes sentences as vectors.

    It loads models saved by `tf.saved_model.save` and `Model.export`, such as the Universal
    Sentence Encoder, without the code of the model. The model must map one tensor of strings
    `(batch,)` to vectors `(batch, width)`, as a callable object or else by its signature
    `"serving_default"`. With `trainable=True` its trainable variables are fine-tuned.

    Requires the TensorFlow backend. XLA cannot compile strings, so Keras disables XLA for models
    with this layer.

    Args:
        path: Folder of the saved model.
        trainable: If True, fine-tune the model.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of strings of shape `(batch,)`.

    Returns:
        Tensor of shape `(batch, width)`.

    Raises:
        ValueError: If the folder is not a saved model that maps strings `(batch,)` to
            `(batch, width)`.
        RuntimeError: If the backend is not TensorFlow.

    References:
        - Cer et al. 2018, "Universal Sentence Encoder".
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        trainable: bool = False,
        **kwargs: Any,
    ) -> None:
        if keras.backend.backend() != "tensorflow":
            raise RuntimeError(
                "SavedModelEncoder needs the TensorFlow backend. "
                f"Received: backend {keras.backend.backend()!r}"
            )
        super().__init__(trainable=trainable, **kwargs)
        self.folder = os.fspath(path)  # Keras already defines `path`.
        self.supports_jit = False
        self.saved, self.function = _load(self.folder)
        self.width = _width(self.function, self.folder)
        # Keras's TFSMLayer uses variable names that Keras's optimizers reject.
        self.tuned = [
            keras.Variable(
                variable,
                trainable=variable.trainable,
                name=variable.name.partition(":")[0].replace("/", "_"),
            )
            for variable in _variables(self.function)
        ]
        # As in Keras: setting `trainable` later changes these variables.
        for variable in self.tuned:
            variable.trainable = variable.trainable and trainable

    def call(self, x: Any, training: bool | None = None) -> Any:
        """Encode the sentences.

        Args:
            x: Tensor of strings of shape `(batch,)`.
            training: Ignored.

        Returns:
            Tensor of shape `(batch, width)`.
        """
        vectors = ops.reshape(_only(self.function(x)), (-1, self.width))
        return ops.cast(vectors, self.compute_dtype)

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return `(batch, width)`."""
        return (*x_shape, self.width)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {**super().get_config(), "path": self.folder}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Create the layer from its configuration.

        Raises:
            ValueError: If Keras loads a file in safe mode.
        """
        refuse_in_safe_mode(f"the saved model {config['path']!r}")
        return super().from_config(config)


def _load(folder: str) -> tuple[Any, Any]:
    """Return the saved object, which owns the variables, and its function of strings."""
    import tensorflow as tf

    if not tf.saved_model.contains_saved_model(folder):
        raise ValueError(
            f"`path` must be the folder of a TensorFlow SavedModel. Received: path={folder!r}"
        )
    with tf.init_scope():
        saved = tf.saved_model.load(folder)
    return saved, saved.__call__ if callable(saved) else saved.signatures.get("serving_default")


def _variables(function: Any) -> list[Any]:
    """Return the variables that a saved function uses."""
    graphs = getattr(function, "concrete_functions", [function])
    return [*{id(x): x for graph in graphs for x in graph.variables}.values()]


def _width(function: Any, folder: str) -> int:
    """Return the width of the function's output for one sentence."""
    import tensorflow as tf

    try:
        with tf.init_scope():
            _, width = _only(function(tf.constant(["one sentence"]))).shape
    except (TypeError, ValueError, tf.errors.OpError) as error:
        raise ValueError(
            "the saved model must map one tensor of strings (batch,) to one tensor (batch, width). "
            f"Received: path={folder!r}"
        ) from error
    return int(width)


def _only(output: Any) -> Any:
    """Return the only tensor of a signature's dictionary, or the tensor."""
    if not isinstance(output, dict):
        return output
    (tensor,) = output.values()
    return tensor
