"""SummaryMixing: token mixing by the mean of transformed tokens."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.averages import masked_mean, mean_step, running_mean
from relation_tf.layers.masking import aligned, zero_masked
from relation_tf.layers.token_mixer import CausalMixer, affine, presets_with


@keras.saving.register_keras_serializable(package="relation_tf")
class SummaryMixing(CausalMixer):
    """Combine each token with the mean of all transformed tokens: `h_t = c(f(x_t), mean s(x))`.

    `f`, `s` and `c` are dense layers: `f(x) = phi(query W_f + b_f)`, `s(x) = phi(value W_s + b_s)`
    and `c(f, s) = phi([f, s] W_c + b_c)`, where `[f, s]` has `2 * units` features. Time and memory
    are linear in the number of tokens. The part of `c` that depends on the mean is computed once
    per sequence. The authors' code adds hidden layers and LayerNorm.

    With `causal=True` the mean of query i is over the unmasked tokens from 1 to i. The state of
    `step` is the sum of `s(x)` over the unmasked tokens, shape `(batch, 1, units)`, and their
    number, `(batch, 1, 1)`.

    Args:
        units: Width of `f`, `s` and the output.
        activation: Activation function `phi`.
        use_bias: If True, the three layers have biases. Default: True.
        dropout: Dropout rate in [0, 1), on `f(x)`, on the mean, and before the output projection.
            Default: 0, or 0.5 for the released code.
        **kwargs: As in `CausalMixer`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens are excluded from the mean, which is
            zero if all tokens are masked.

    Returns:
        Tensor of shape `(batch, queries, units)`; `c(f(x_t), 0)` if all tokens are masked.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import SummaryMixing
        >>> SummaryMixing(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Parcollet, van Dalen, Zhang, Bhattacharya 2024, "SummaryMixing: A Linear-Complexity
          Alternative to Self-Attention for Speech Recognition and Understanding",
          arXiv 2307.07421, section 2.
    """

    presets = presets_with(use_bias=True)

    def __init__(self, units: int, activation: Any = "gelu", **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.activation = keras.activations.get(activation)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_f, W_s and W_c with their biases."""
        self.local_kernel, self.local_bias = self.add_projection("local", query_width)
        self.summary_kernel, self.summary_bias = self.add_projection("summary", value_width)
        self.combiner_kernel, self.combiner_bias = self.add_projection("combiner", 2 * self.units)

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Compute `c(f(x_t), mean s(x))`."""
        if self.causal:
            value, value_mask = aligned(query, value, value_mask)
            mean, _ = running_mean(self._transformed(value, value_mask), value_mask)
        else:
            mean = masked_mean(self._transformed(value, value_mask), value_mask)[:, None, :]
        return self._combined(query, mean, training)

    def _transformed(self, value: Any, value_mask: Any) -> Any:
        """Compute `s(x)`; zero at masked tokens."""
        s = self.activation(affine(value, self.summary_kernel, self.summary_bias))
        return zero_masked(s, value_mask)

    def _combined(self, query: Any, mean: Any, training: bool) -> Any:
        """Compute `c(f(x), mean)`; `mean` has the shape `(batch, queries or 1, units)`."""
        f = self.activation(affine(query, self.local_kernel, self.local_bias))
        for_f, for_mean = self.combiner_kernel[: self.units], self.combiner_kernel[self.units :]
        shared = affine(self.drop(mean, training), for_mean, self.combiner_bias)
        return self.activation(ops.matmul(self.drop(f, training), for_f) + shared)

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return the sum and the number of tokens at zero."""
        return self.zeros(batch_size, 1, self.units), self.zeros(batch_size, 1, 1)

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Add one token to the mean and compute `c(f(x), mean)`."""
        mean, state = mean_step(self._transformed(x, mask), state, mask)
        return self._combined(x, mean, training=False), state
