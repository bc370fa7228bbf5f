"""AFT-simple: an attention-free mean of the values, gated by the queries."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.causal import CausalMixer, aligned
from relation_tf.layers.masking import masked_softmax, to_float32
from relation_tf.layers.softmax_sums import SoftmaxSums, merged, no_sums, running_sums, single_sums
from relation_tf.layers.token_mixer import affine


@keras.saving.register_keras_serializable(package="relation_tf")
class AFTSimple(CausalMixer):
    """AFT-simple of the Attention Free Transformer: weights per feature, without positions.

    `Y_t = sigmoid(Q_t) * (sum_j exp(K_j) * V_j) / (sum_j exp(K_j))` with `Q = query W_Q`,
    `K = value W_K`, `V = value W_V`: the paper's equation 2 with all position biases zero. The
    sums and the softmax over tokens use float32 or wider. Time and memory are linear in the number
    of tokens.

    With `causal=True` the sums of query i are over the unmasked tokens from 1 to i, relative to
    their maximum key, so that they neither overflow nor vanish. The state of `step` is this maximum
    and both sums, of shape `(batch, 1, units)` each.

    Args:
        units: Width of queries, keys, values and output.
        variant: `"equations"`, or `"released_code"` for the defaults of the Relation paper's code;
            sets the defaults of the next three arguments.
        use_bias: If True, the three projections have biases. Default: False.
        dropout: Dropout rate in [0, 1), on Y and before the output projection. Default: 0, or 0.5
            for the released code.
        output_projection: If True, the layer ends with `dropout(relu(y)) W_output`. Default: True
            for the released code, else False.
        algorithm: `"direct"` or `"auto"`, which are the same.
        causal: If True, the sums of query i are over tokens 1 to i only.
        seed: Random seed of the dropout.
        kernel_initializer: Initializer of the matrices.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: Regularizer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens get no weight.

    Returns:
        Tensor of shape `(batch, queries, units)`; zero if all tokens are masked.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import AFTSimple
        >>> AFTSimple(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Zhai et al. 2021, "An Attention Free Transformer", arXiv 2105.14103, "AFT-simple".
    """

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_Q, W_K and W_V."""
        self.add_query_key_value(query_width, value_width)

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Compute the means of the values, gated by the queries."""
        if self.causal:
            mean = running_sums(self._sums(*aligned(query, value, value_mask))).mean()
        else:
            keys, values = (ops.transpose(x, (0, 2, 1)) for x in self._projected(value))
            weights = masked_softmax(to_float32(keys), value_mask)  # (batch, units, tokens)
            mean = ops.sum(weights * to_float32(values), axis=-1)[:, None, :]
        return self.drop(self._gated(query, mean), training)

    def _projected(self, value: Any) -> tuple[Any, Any]:
        """Return the keys and the values."""
        keys = affine(value, self.key_kernel, self.key_bias)
        return keys, affine(value, self.value_kernel, self.value_bias)

    def _sums(self, value: Any, value_mask: Any) -> SoftmaxSums:
        return single_sums(*self._projected(value), value_mask)

    def _gated(self, query: Any, mean: Any) -> Any:
        gate = ops.sigmoid(affine(query, self.query_kernel, self.query_bias))
        return gate * ops.cast(mean, gate.dtype)

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return the sums over no tokens."""
        return tuple(no_sums(self.zeros(batch_size, 1, self.units)))

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Add one token to the sums."""
        sums = merged(SoftmaxSums(*state), self._sums(x, mask))
        return self._gated(x, sums.mean()), tuple(sums)
