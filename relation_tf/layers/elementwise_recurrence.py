"""Linear recurrence of each feature over tokens, computed in chunks."""

from __future__ import annotations

from typing import Any

from keras import ops

from relation_tf.layers.chunked_recurrence import (
    joined,
    pairs_of_blocks,
    split,
    states_before,
)
from relation_tf.layers.slicing import part

_CHUNK = 64  # tokens: a power of two


def elementwise_recurrence(values: Any, log_decays: Any) -> Any:
    """Compute `h_t = a_t * h_{t-1} + v_t`, with `h_0 = 0`, for each feature.

    Inside a chunk, blocks of 1, 2, 4, ... tokens are joined in pairs; a loop over chunks adds the
    state before each. All factors are products of decays, at most 1, so that nothing overflows.
    Time and memory are linear in the number of tokens.

    Args:
        values: Tensor of shape `(batch, tokens, heads, width)`, in float32 or wider.
        log_decays: Logarithms of `a`, at most 0, of the shape of `values`.

    Returns:
        Tensor with the shape of `values`.

    References:
        - Martin, Cundy 2018, "Parallelizing Linear Recurrent Neural Nets Over Sequence Length",
          arXiv 1709.04057, section 2.
    """
    length = ops.shape(values)[1]
    num_chunks = abs(length - 1) // _CHUNK + 1  # At least one, for zero tokens too.
    states, log_decays = (split(x, num_chunks, _CHUNK) for x in (values, log_decays))
    since_start, block = ops.exp(log_decays), 1
    while block < _CHUNK:
        states_1, states_2 = pairs_of_blocks(states, block)
        since_1, since_2 = pairs_of_blocks(since_start, block)
        states_2 = states_2 + since_2 * part(states_1, block - 1, 1)
        since_2 = since_2 * part(since_1, block - 1, 1)
        states = ops.stack([states_1, states_2], axis=1)
        since_start = ops.stack([since_1, since_2], axis=1)
        block *= 2
    states, since_start = (ops.reshape(x, ops.shape(log_decays)) for x in (states, since_start))
    if log_decays.shape[0] != 1:
        last = _CHUNK - 1
        before = states_before(part(since_start, last, 1, axis=3), part(states, last, 1, axis=3))
        states = states + since_start * before
    return joined(states, length)
