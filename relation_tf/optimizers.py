"""Optimizers with correct embedding updates, and the learning rate schedule of FCSR."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal

import keras
from keras import ops

_CHUNK = 1024  # rows of an embedding updated at a time on JAX


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

    def _clip_gradients(self, grads: list[Any]) -> list[Any]:
        if self._clips():
            grads = [_sum_rows(grad) for grad in grads]
        return super()._clip_gradients(grads)  # type: ignore[misc]

    def _clips(self: Any) -> bool:
        return bool(self.clipnorm or self.clipvalue or self.global_clipnorm)

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

    `embedding_updates="rows"` updates only the rows of embeddings that occur in the batch:

    - On TensorFlow these are the ids of the gradient's slices. The moments of a row with a zero
      gradient, such as a masked token, decay.
    - On JAX and PyTorch these are the rows with a nonzero gradient (sum of squares in float32), in
      matrices named `embeddings`, as in `keras.layers.Embedding`. Rows with a zero gradient do not
      change.
    - If the gradient has no zero rows, for example with a tied output layer or a regularizer, all
      rows are updated. On JAX `"dense"` is then faster, also with clipping and gradient
      accumulation.
    - Weight decay, averages (`use_ema`) and constraints apply to all rows, as in Keras.
    - With `gradient_accumulation_steps` Keras sums dense gradients: on TensorFlow all rows are
      updated, on JAX and PyTorch the rows of all accumulated batches.

    Args:
        learning_rate: As in Keras.
        embedding_updates: `"dense"` is Adam on the dense gradient: moments and values of all rows
            change at each step. `"rows"` updates only rows that occur in the batch; it is faster
            with large vocabularies, but the updates differ from Adam's.
        **kwargs: Arguments of `keras.optimizers.Adam`.

    Raises:
        ValueError: If `embedding_updates` is unknown, or `"rows"` is combined with `amsgrad`.

    Example:
        >>> from relation_tf.optimizers import Adam
        >>> Adam(1e-3).get_config()["embedding_updates"]
        'dense'

    References:
        Kingma, Ba 2015, "Adam: A Method for Stochastic Optimization".
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        embedding_updates: Literal["dense", "rows"] = "dense",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        if embedding_updates not in ("dense", "rows"):
            raise ValueError(
                "`embedding_updates` must be 'dense' or 'rows'. "
                f"Received: embedding_updates={embedding_updates!r}"
            )
        if embedding_updates == "rows" and self.amsgrad:
            raise ValueError(
                "embedding_updates='rows' does not support amsgrad. Received: amsgrad=True"
            )
        self.embedding_updates = embedding_updates

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Update one variable."""
        backend = keras.backend.backend()
        if backend == "tensorflow":
            self._update_tensorflow(gradient, variable, learning_rate)
        elif self.embedding_updates == "dense" or not _is_embedding(variable):
            super().update_step(gradient, variable, learning_rate)
        elif backend == "jax":
            self._update_rows_jax(gradient, variable, learning_rate)
        else:
            self._update_rows_torch(gradient, variable, learning_rate)

    def _update_tensorflow(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        import tensorflow as tf

        if _is_rows(gradient) and self.embedding_updates == "rows":
            # Under a distribution strategy the slices of all replicas are combined only here.
            # Without a strategy clipping has already summed them; XLA cannot sum twice, because
            # the number of slices is then dynamic.
            if tf.distribute.has_strategy() or not self._clips():
                gradient = _sum_rows(gradient)
            self._update_rows_tensorflow(gradient, variable, learning_rate)
        else:
            self._update_dense_tensorflow(gradient, variable, learning_rate)

    def _update_dense_tensorflow(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        import tensorflow as tf

        gradient = tf.convert_to_tensor(gradient)  # sums the slices of an id
        variable = _tensorflow_variable(variable)
        if self.amsgrad or tf.distribute.has_strategy() or variable.dtype != tf.float32:
            super().update_step(gradient, variable, learning_rate)
            return
        momentum, velocity = self._moments(variable)
        beta_1, beta_2 = tf.constant(self.beta_1), tf.constant(self.beta_2)
        step = tf.cast(self.iterations + 1, tf.float32)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=momentum.value.handle,
            v=velocity.value.handle,
            beta1_power=tf.pow(beta_1, step),
            beta2_power=tf.pow(beta_2, step),
            lr=tf.cast(learning_rate, tf.float32),
            beta1=beta_1,
            beta2=beta_2,
            epsilon=self.epsilon,
            grad=tf.cast(gradient, tf.float32),
        )

    def _update_rows_tensorflow(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        import tensorflow as tf

        rows, values = gradient.indices, tf.cast(gradient.values, variable.dtype)
        momentum, velocity = self._moments(variable)
        m = tf.gather(momentum.value, rows)
        v = tf.gather(velocity.value, rows)
        m, v, change = self._adam(values, m, v, self._corrected(learning_rate, variable.dtype))
        momentum.value.scatter_update(tf.IndexedSlices(m, rows))
        velocity.value.scatter_update(tf.IndexedSlices(v, rows))
        _tensorflow_variable(variable).scatter_sub(tf.IndexedSlices(change, rows))

    def _update_rows_jax(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        import jax
        from jax import numpy as jnp

        squares = jnp.vecdot(gradient, gradient, preferred_element_type=jnp.float32)
        # XLA needs static shapes: update _CHUNK rows at a time, found by rank in a cumulative sum.
        occurring = jnp.cumsum(squares != 0)
        rate = self._corrected(learning_rate, variable.dtype)
        states = (variable, *self._moments(variable))

        def more(carry: Any) -> Any:
            return carry[0] < occurring[-1]

        def update_chunk(carry: Any) -> Any:
            done, x, m, v = carry
            # Beyond the last row, searchsorted returns the number of rows: "clip" reads the last
            # row, "drop" writes nothing.
            rows = jnp.searchsorted(occurring, done + 1 + jnp.arange(_CHUNK))
            g_rows, m_rows, v_rows = (a.at[rows].get(mode="clip") for a in (gradient, m, v))
            m_rows, v_rows, change = self._adam(g_rows.astype(x.dtype), m_rows, v_rows, rate)
            return (
                done + _CHUNK,
                x.at[rows].add(-change, mode="drop"),
                m.at[rows].set(m_rows, mode="drop"),
                v.at[rows].set(v_rows, mode="drop"),
            )

        carry = (0, *(state.value for state in states))
        _, *updated = jax.lax.while_loop(more, update_chunk, carry)
        for state, value in zip(states, updated, strict=True):
            self.assign(state, value)

    def _update_rows_torch(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        import torch

        with torch.no_grad():
            x, m, v = (state.value for state in (variable, *self._moments(variable)))
            rows = torch.linalg.vector_norm(gradient.float(), dim=1).nonzero().squeeze(1)
            rate = self._corrected(learning_rate, variable.dtype)
            g_rows, m_rows, v_rows = (a.index_select(0, rows) for a in (gradient, m, v))
            m_rows, v_rows, change = self._adam(g_rows.to(x.dtype), m_rows, v_rows, rate)
            m.index_copy_(0, rows, m_rows)
            v.index_copy_(0, rows, v_rows)
            x.index_add_(0, rows, change, alpha=-1)

    def _corrected(self, learning_rate: Any, dtype: str) -> Any:
        """Return the learning rate with the bias corrections of both moments."""
        step = ops.cast(self.iterations + 1, dtype)
        correction = ops.sqrt(1 - self.beta_2**step) / (1 - self.beta_1**step)
        return ops.cast(learning_rate, dtype) * correction

    def _adam(self, gradient: Any, m: Any, v: Any, rate: Any) -> tuple[Any, Any, Any]:
        """Return the new moments of rows and the values to subtract from these rows."""
        m = m + (gradient - m) * (1 - self.beta_1)
        v = v + (ops.square(gradient) - v) * (1 - self.beta_2)
        return m, v, rate * m / (ops.sqrt(v) + self.epsilon)

    def _moments(self, variable: Any) -> tuple[Any, Any]:
        index = self._get_variable_index(variable)
        return self._momentums[index], self._velocities[index]

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {**super().get_config(), "embedding_updates": self.embedding_updates}


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
        for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ValueError(f"`{name}` must be a positive integer. Received: {name}={value!r}")
        if not isinstance(compounding, bool):
            raise ValueError(
                f"`compounding` must be True or False. Received: compounding={compounding!r}"
            )
        self.initial_learning_rate = float(initial_learning_rate)
        self.epochs = int(epochs)
        self.steps_per_epoch = int(steps_per_epoch)
        self.compounding = compounding

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


def _tensorflow_variable(variable: Any) -> Any:
    return variable.value if isinstance(variable, keras.Variable) else variable


def _is_embedding(variable: Any) -> bool:
    return variable.name == "embeddings" and len(variable.shape) == 2


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
