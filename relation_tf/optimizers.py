"""Correct embedding updates of optimizers, and the learning rate schedule of FCSR."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer, true_or_false


class SumRows:
    """Mixin for Keras optimizers that corrects embedding updates on TensorFlow.

    TensorFlow represents the gradient of an embedding as one slice per token, with repeated ids.
    Keras's optimizers square these slices before summing slices of equal ids: second moments are
    too small, and clipping is applied to unsummed values. This class sums first, which gives the
    same updates as on JAX and PyTorch.

    Example:
        >>> class RMSprop(SumRows, keras.optimizers.RMSprop):
        ...     pass
    """

    def _clip_gradients(self: Any, grads: list[Any]) -> list[Any]:
        if self.clipnorm or self.clipvalue or self.global_clipnorm:
            grads = [_sum_rows(grad) for grad in grads]
        return super()._clip_gradients(grads)  # type: ignore[misc]

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Update one variable."""
        if _is_rows(gradient):
            import tensorflow as tf

            gradient = tf.convert_to_tensor(gradient)  # sums the slices of an id
        super().update_step(gradient, variable, learning_rate)  # type: ignore[misc]


@keras.saving.register_keras_serializable(package="relation_tf")
class Adam(SumRows, keras.optimizers.Adam):
    """`keras.optimizers.Adam` with correct embedding updates on TensorFlow (see `SumRows`).

    On TensorFlow each variable is updated by one fused operation (`ResourceApplyAdam`).

    Example:
        >>> from relation_tf.optimizers import Adam
        >>> Adam(1e-3).get_config()["beta_1"]
        0.9

    References:
        Kingma, Ba 2015, "Adam: A Method for Stochastic Optimization".
    """

    _powers: tuple[Any, Any] | None = None

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Update all variables; the powers of both betas are computed once."""
        if keras.backend.backend() == "tensorflow":
            self._powers = self._beta_powers()
        try:
            super().apply(grads, trainable_variables)
        finally:
            self._powers = None

    def _beta_powers(self) -> tuple[Any, Any]:
        import tensorflow as tf

        step = tf.cast(self.iterations + 1, tf.float32)
        return tf.pow(tf.constant(self.beta_1), step), tf.pow(tf.constant(self.beta_2), step)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Update one variable."""
        if keras.backend.backend() != "tensorflow":
            super().update_step(gradient, variable, learning_rate)
            return
        import tensorflow as tf

        gradient = tf.convert_to_tensor(gradient)  # sums the slices of an id
        variable = variable.value if isinstance(variable, keras.Variable) else variable
        if self.amsgrad or variable.dtype != tf.float32:
            super().update_step(gradient, variable, learning_rate)
            return
        index = self._get_variable_index(variable)
        beta1_power, beta2_power = self._powers or self._beta_powers()
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=beta1_power,
            beta2_power=beta2_power,
            lr=tf.cast(learning_rate, tf.float32),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=tf.cast(gradient, tf.float32),
        )


@keras.saving.register_keras_serializable(package="relation_tf")
class FCSRDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate schedule of the FCSR preprint, constant within each epoch.

    In epoch i, from 0, `lr_i = 0.8 lr_0 0.01^((i + 0.01) / (epochs + 0.01))` (equation 16): the
    rate decays from 0.8 to 0.009 of the initial rate in 40 epochs. With `compounding=True` the rate
    of the previous epoch replaces `lr_0`:
    `lr_i = 0.8 lr_{i-1} 0.01^((i + 0.01) / (epochs + 0.01))`. It then decays to almost zero after
    10 of 40 epochs.

    Args:
        initial_learning_rate: `lr_0`, positive.
        epochs: Number of epochs, at least 1; the rate is constant after the last epoch.
        steps_per_epoch: Number of optimizer steps per epoch, at least 1.
        compounding: If True, compute each rate from the rate of the previous epoch.

    Returns:
        A schedule: a callable from the step (from 0) to the learning rate.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> from relation_tf.optimizers import FCSRDecay
        >>> rate = FCSRDecay(0.01, epochs=40, steps_per_epoch=500)
        >>> [round(float(rate(step)), 6) for step in (0, 499, 500, 19_999, 50_000)]
        [0.007991, 0.007991, 0.007122, 9e-05, 9e-05]

    References:
        The FCSR preprint, equation 16.
    """

    def __init__(
        self,
        initial_learning_rate: float,
        epochs: int,
        steps_per_epoch: int,
        compounding: bool = False,
    ) -> None:
        super().__init__()
        if not 0 < initial_learning_rate < float("inf"):
            raise ValueError(
                "`initial_learning_rate` must be positive and finite. "
                f"Received: initial_learning_rate={initial_learning_rate!r}"
            )
        self.initial_learning_rate = float(initial_learning_rate)
        self.epochs = positive_integer("epochs", epochs)
        self.steps_per_epoch = positive_integer("steps_per_epoch", steps_per_epoch)
        self.compounding = true_or_false("compounding", compounding)

    def __call__(self, step: Any) -> Any:
        """Return the learning rate of a step."""
        # Integer division: float32 does not represent all steps above 2^24.
        epoch = ops.floor_divide(ops.convert_to_tensor(step), self.steps_per_epoch)
        i = ops.cast(ops.minimum(epoch, self.epochs - 1), keras.backend.floatx())
        if self.compounding:
            # Product over epochs 0 .. i: the exponents are summed.
            shrinking = ops.power(0.8, i + 1)
            exponent = (i + 1) * (i / 2 + 0.01) / (self.epochs + 0.01)
        else:
            shrinking = 0.8
            exponent = (i + 0.01) / (self.epochs + 0.01)
        return self.initial_learning_rate * shrinking * ops.power(0.01, exponent)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {
            "initial_learning_rate": self.initial_learning_rate,
            "epochs": self.epochs,
            "steps_per_epoch": self.steps_per_epoch,
            "compounding": self.compounding,
        }


def _is_rows(gradient: Any) -> bool:
    return hasattr(gradient, "indices") and hasattr(gradient, "dense_shape")


def _sum_rows(gradient: Any) -> Any:
    """Sum slices with equal ids; return other gradients unchanged."""
    if not _is_rows(gradient):
        return gradient
    import tensorflow as tf

    rows, position = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, position, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)
