"""Linear recurrence of each feature over tokens, computed in blocks of blocks."""

from __future__ import annotations

from typing import Any

from keras import ops

from relation_tf.layers.chunked_recurrence import pairs_of_blocks, states_before
from relation_tf.layers.slicing import join_chunks, part, split_tokens

_BLOCK = 4  # tokens: a power of two
_LEVELS = 5  # blocks of blocks of ...: the loop has a step for each 4^5 tokens


def elementwise_recurrence(values: Any, log_decays: Any) -> Any:
    """Compute `h_t = a_t * h_{t-1} + v_t`, with `h_0 = 0`, for each feature.

    Blocks of 1, then of 2 tokens are joined in pairs, to blocks of 4. The states after the blocks
    follow the same recurrence: blocks of blocks are joined in the same way, and a loop adds the
    state before each of the largest. All factors are products of decays, at most 1, so that nothing
    overflows. Time and memory are linear in the number of tokens.

    Args:
        values: Tensor of shape `(batch, tokens, heads, width)`, in float32 or wider.
        log_decays: Logarithms of `a`, at most 0, of the shape of `values`.

    Returns:
        Tensor with the shape of `values`.

    References:
        - Martin, Cundy 2018, "Parallelizing Linear Recurrent Neural Nets Over Sequence Length",
          arXiv 1709.04057, section 2.
    """
    batch, length = ops.shape(values)[:2]
    rows = (batch, length, values.shape[2] * values.shape[3])
    decays, values_of_rows = (ops.reshape(x, rows) for x in (ops.exp(log_decays), values))
    return ops.reshape(_states(decays, values_of_rows, _LEVELS), ops.shape(values))


def _states(decays: Any, values: Any, levels: int) -> Any:
    """Compute the recurrence from decays and values of shape `(batch, tokens, width)`."""
    length, width = ops.shape(values)[1], values.shape[2]
    num_blocks = abs(length - 1) // _BLOCK + 1  # At least one, for zero tokens too.
    since_start, states = (split_tokens(x, num_blocks, _BLOCK) for x in (decays, values))
    shape, block = ops.shape(states), 1
    while block < _BLOCK:
        states_1, states_2 = pairs_of_blocks(states, block)
        since_1, since_2 = pairs_of_blocks(since_start, block)
        states_2 = states_2 + since_2 * part(states_1, block - 1, 1)
        since_2 = since_2 * part(since_1, block - 1, 1)
        states = ops.stack([states_1, states_2], axis=1)
        since_start = ops.stack([since_1, since_2], axis=1)
        block *= 2
    states, since_start = (ops.reshape(x, shape) for x in (states, since_start))
    if states.shape[1] != 1:
        last = (part(x, _BLOCK - 1, 1, axis=2) for x in (since_start, states))
        decays, after = (ops.reshape(x, (-1, num_blocks, width)) for x in last)
        before = _states_before(decays, after, levels)
        states = states + since_start * before[:, :, None]
    return join_chunks(states, length)


def _states_before(decays: Any, states: Any, levels: int) -> Any:
    """Return the state before each block, from the decays and the states of the blocks."""
    if levels == 1:
        blocks_first = (ops.transpose(x, (1, 0, 2)) for x in (decays, states))
        return ops.transpose(states_before(*blocks_first), (1, 0, 2))
    after = _states(decays, states, levels - 1)
    return ops.pad(part(after, 0, ops.shape(after)[1] - 1), ((0, 0), (1, 0), (0, 0)))
