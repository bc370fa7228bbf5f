"""Sentence encoders that TensorFlow saved."""

from __future__ import annotations

import os
from typing import Any, Self

import keras
from keras import ops

from relation_tf.networks.safe_mode import refuse_in_safe_mode


@keras.saving.register_keras_serializable(package="relation_tf")
class SavedModelEncoder(keras.layers.Layer):
    """A saved model from sentences to vectors, such as the Universal Sentence Encoder, as a layer.

    It takes what `tf.saved_model.save` and `Model.export` write and needs no code of the model. The
    model must take one tensor of strings `(batch,)` and give vectors `(batch, width)`: as a
    function, or by a signature with one input and one output. Frozen or fine-tuned: with
    `trainable=True` its trainable variables are the layer's.

    TensorFlow backend only. XLA cannot compile strings: Keras runs models with this layer without.

    Args:
        path: Folder of the saved model.
        trainable: Whether to fine-tune it.
        endpoint: Name of the signature, such as `"serving_default"`. By default the saved object
            itself where it can be called, else `"serving_default"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of strings of shape `(batch,)`.

    Returns:
        Tensor of shape `(batch, width)`.

    Raises:
        ValueError: For a folder that holds no saved model, an endpoint that is not there, or a
            model that does not take strings `(batch,)` or does not give `(batch, width)`.
        RuntimeError: On another backend than TensorFlow.

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
        self.folder = os.fspath(path)  # Keras has a `path` of its own.
        self.endpoint = endpoint
        self.supports_jit = False
        self.saved, self.function = _load(self.folder, endpoint)
        # Keras's TFSMLayer would do this, too, but with names that its optimizers refuse.
        self.tuned = [
            keras.Variable(variable, trainable=variable.trainable, name=_name(variable))
            for variable in _variables(self.function)
        ]
        # As Keras does with its own: what is frozen now can be thawed by `trainable` later.
        for variable in self.tuned:
            variable.trainable = variable.trainable and trainable
        self.width = _width(self.function, f"path={self.folder!r}, endpoint={endpoint!r}")

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Check the shape; the weights were loaded with the model."""
        if len(x_shape) != 1:
            raise ValueError(
                f"`x` must be of shape (batch,), a string each. Received: x.shape={tuple(x_shape)}"
            )
        self.built = True

    def call(self, x: Any, training: bool | None = None) -> Any:
        """Encode the sentences.

        Args:
            x: Tensor of strings of shape `(batch,)`.
            training: Ignored: the saved function is one and the same.

        Returns:
            Tensor of shape `(batch, width)`.
        """
        _check_strings(x)
        vectors = ops.reshape(_only(self.function(x)), (-1, self.width))
        return ops.cast(vectors, self.compute_dtype)

    def compute_output_spec(self, x: Any, training: bool | None = None) -> Any:
        """As `compute_output_shape` says, for strings."""
        _check_strings(x)
        return super().compute_output_spec(x)

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """`(batch, width)`."""
        return (*x_shape, self.width)

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {**super().get_config(), "path": self.folder, "endpoint": self.endpoint}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """A layer like the one whose configuration it is.

        Raises:
            ValueError: In a file that Keras loads in safe mode.
        """
        refuse_in_safe_mode(f"the saved model {config['path']!r}")
        return super().from_config(config)


def _load(folder: str, endpoint: str | None) -> tuple[Any, Any]:
    """What was saved, which owns the variables, and the function of the endpoint."""
    import tensorflow as tf

    if not tf.saved_model.contains_saved_model(folder):
        raise ValueError(
            f"`path` must be a folder that TensorFlow saved a model to. Received: path={folder!r}"
        )
    with tf.init_scope():
        saved = tf.saved_model.load(folder)
    if endpoint is None and callable(saved):
        return saved, saved.__call__
    signature = "serving_default" if endpoint is None else endpoint
    if signature not in saved.signatures:
        names = ", ".join(map(repr, saved.signatures)) or "none"
        raise ValueError(
            f"`endpoint` must be a signature of the saved model, which has {names}. "
            f"Received: endpoint={endpoint!r}"
        )
    return saved, saved.signatures[signature]


def _variables(function: Any) -> list[Any]:
    """The variables that a saved function uses."""
    graphs = getattr(function, "concrete_functions", [function])
    return list(
        {id(variable): variable for graph in graphs for variable in graph.variables}.values()
    )


def _name(variable: Any) -> str:
    """A name that Keras takes."""
    return variable.name.partition(":")[0].replace("/", "_")


def _width(function: Any, source: str) -> int:
    """The width of the vector that the function makes of one sentence."""
    import tensorflow as tf

    with tf.init_scope():
        try:
            output = function(tf.constant(["one sentence"]))
        except (TypeError, ValueError, tf.errors.OpError) as error:
            raise ValueError(
                "a saved model must take one tensor of strings (batch,), and this one does not. "
                f"Received: {source}"
            ) from error
    if isinstance(output, dict) and len(output) != 1:
        raise ValueError(
            "a saved model must give one tensor (batch, width). "
            f"Received: outputs {', '.join(map(repr, output))}"
        )
    shape = tuple(_only(output).shape)
    if len(shape) != 2 or shape[0] != 1:
        raise ValueError(
            "a saved model must give (batch, width). "
            f"Received: an output of shape {shape} for one sentence"
        )
    return int(shape[1])


def _only(output: Any) -> Any:
    """The one tensor of a signature's dictionary, or the tensor itself."""
    return next(iter(output.values())) if isinstance(output, dict) else output


def _check_strings(x: Any) -> None:
    dtype = keras.backend.standardize_dtype(x.dtype)
    if dtype != "string":
        raise ValueError(f"`x` must be a tensor of strings. Received: dtype={dtype}")
