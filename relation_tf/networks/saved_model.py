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
    `(batch,)` to vectors `(batch, width)`, as a callable object or by a signature with one input
    and one output. With `trainable=True` its trainable variables are fine-tuned.

    Requires the TensorFlow backend. XLA cannot compile strings, so Keras disables XLA for models
    with this layer.

    Args:
        path: Folder of the saved model.
        trainable: If True, fine-tune the model.
        endpoint: Name of the signature, such as `"serving_default"`. Default: the saved object if
            it is callable, else `"serving_default"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of strings of shape `(batch,)`.

    Returns:
        Tensor of shape `(batch, width)`.

    Raises:
        ValueError: If the folder is not a saved model, the endpoint does not exist, or the model
            does not map strings `(batch,)` to `(batch, width)`.
        RuntimeError: If the backend is not TensorFlow.

    References:
        - Cer et al. 2018, "Universal Sentence Encoder".
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        trainable: bool = False,
        endpoint: str | None = None,
        **kwargs: Any,
    ) -> None:
        if keras.backend.backend() != "tensorflow":
            raise RuntimeError(
                "SavedModelEncoder needs the TensorFlow backend. "
                f"Received: backend {keras.backend.backend()!r}"
            )
        super().__init__(trainable=trainable, **kwargs)
        self.folder = os.fspath(path)  # Keras already defines `path`.
        self.endpoint = endpoint
        self.supports_jit = False
        self.saved, self.function = _load(self.folder, endpoint)
        # Keras's TFSMLayer uses variable names that Keras's optimizers reject.
        self.tuned = [
            keras.Variable(variable, trainable=variable.trainable, name=_name(variable))
            for variable in _variables(self.function)
        ]
        # As in Keras: setting `trainable` later changes these variables.
        for variable in self.tuned:
            variable.trainable = variable.trainable and trainable
        self.width = _width(self.function, f"path={self.folder!r}, endpoint={endpoint!r}")

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Check the shape; the weights were loaded with the model."""
        if len(x_shape) != 1:
            raise ValueError(
                "`x` must have shape (batch,), one string per sentence. "
                f"Received: x.shape={tuple(x_shape)}"
            )
        self.built = True

    def call(self, x: Any, training: bool | None = None) -> Any:
        """Encode the sentences.

        Args:
            x: Tensor of strings of shape `(batch,)`.
            training: Ignored.

        Returns:
            Tensor of shape `(batch, width)`.
        """
        _check_strings(x)
        vectors = ops.reshape(_only(self.function(x)), (-1, self.width))
        return ops.cast(vectors, self.compute_dtype)

    def compute_output_spec(self, x: Any, training: bool | None = None) -> Any:
        """Check that the input is strings, and return the symbolic output."""
        _check_strings(x)
        return super().compute_output_spec(x)

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return `(batch, width)`."""
        return (*x_shape, self.width)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {**super().get_config(), "path": self.folder, "endpoint": self.endpoint}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Create the layer from its configuration.

        Raises:
            ValueError: If Keras loads a file in safe mode.
        """
        refuse_in_safe_mode(f"the saved model {config['path']!r}")
        return super().from_config(config)


def _load(folder: str, endpoint: str | None) -> tuple[Any, Any]:
    """Return the saved object, which owns the variables, and the function of the endpoint."""
    import tensorflow as tf

    if not tf.saved_model.contains_saved_model(folder):
        raise ValueError(
            f"`path` must be the folder of a TensorFlow SavedModel. Received: path={folder!r}"
        )
    with tf.init_scope():
        saved = tf.saved_model.load(folder)
    if endpoint is None and callable(saved):
        return saved, saved.__call__
    signature = "serving_default" if endpoint is None else endpoint
    if signature not in saved.signatures:
        names = ", ".join(map(repr, saved.signatures)) or "none"
        raise ValueError(
            f"`endpoint` must be a signature of the saved model. Available: {names}. "
            f"Received: endpoint={endpoint!r}"
        )
    return saved, saved.signatures[signature]


def _variables(function: Any) -> list[Any]:
    """Return the variables that a saved function uses."""
    graphs = getattr(function, "concrete_functions", [function])
    return list(
        {id(variable): variable for graph in graphs for variable in graph.variables}.values()
    )


def _name(variable: Any) -> str:
    """Return the variable's name in a form that Keras accepts."""
    return variable.name.partition(":")[0].replace("/", "_")


def _width(function: Any, source: str) -> int:
    """Return the width of the function's output for one sentence."""
    import tensorflow as tf

    with tf.init_scope():
        try:
            output = function(tf.constant(["one sentence"]))
        except (TypeError, ValueError, tf.errors.OpError) as error:
            raise ValueError(
                "the saved model must take one tensor of strings (batch,). "
                f"Choose another `endpoint`. Received: {source}"
            ) from error
    if isinstance(output, dict) and len(output) != 1:
        raise ValueError(
            "the saved model must return one tensor (batch, width). "
            f"Received: outputs {', '.join(map(repr, output))}"
        )
    shape = tuple(_only(output).shape)
    if len(shape) != 2 or shape[0] != 1:
        raise ValueError(
            "the saved model must return (batch, width). "
            f"Received: an output of shape {shape} for one sentence"
        )
    return int(shape[1])


def _only(output: Any) -> Any:
    """Return the only tensor of a signature's dictionary, or the tensor."""
    return next(iter(output.values())) if isinstance(output, dict) else output


def _check_strings(x: Any) -> None:
    dtype = keras.backend.standardize_dtype(x.dtype)
    if dtype != "string":
        raise ValueError(f"`x` must be a tensor of strings. Received: dtype={dtype}")
