"""The delta rule over tokens, computed in chunks."""

from __future__ import annotations

from typing import Any

from keras import ops

from relation_tf.layers.chunked_recurrence import (
    CHUNK,
    decays_between,
    joined,
    number_and_size,
    split,
    states_before,
)
from relation_tf.layers.slicing import transposed


def delta_rule(queries: Any, keys: Any, values: Any, log_decays: Any) -> Any:
    """Compute `o_t = q_t^T S_t` with `S_t = a_t (I - k_t k_t^T) S_{t-1} + k_t v_t^T`.

    Each head has its own state. With keys n of norm 1 and write strengths b in [0, 1], the rule
    `S_t = a_t (I - b_t n_t n_t^T) S_{t-1} + b_t n_t v_t^T` is this one for the keys `sqrt(b_t) n_t`
    and the values `sqrt(b_t) v_t`.

    The state is a sum of decayed products `k_j u_j^T`, where `u_t = v_t - a_t S_{t-1}^T k_t`.
    With the state S before a chunk, the product `g_t` of its decays up to token t, and the product
    `G_ij` of those after token j up to token i, the rows u of the chunk solve

        (I + L) U = V - diag(g) K S,  L_ij = G_ij k_i^T k_j for j < i

    (the WY form). So the state after the chunk is linear in S, and a loop over chunks computes it.
    Time and memory are linear in the number of tokens.

    A token with the key zero and the log decay zero changes no state, as if it were absent.

    Args:
        queries: Tensor of shape `(batch, tokens, heads, features)`, in float32 or wider.
        keys: Tensor of the shape of `queries`, with norms of at most 1.
        values: Tensor of shape `(batch, tokens, heads, width)`.
        log_decays: Logarithms of `a`, at most 0, of shape `(batch, tokens, heads)`, or of one head
            for all.

    Returns:
        Tensor of shape `(batch, tokens, heads, width)`.

    References:
        - Yang et al. 2024, arXiv 2406.06484, section 3.2, for the form by chunks.
        - Yang, Kautz, Hatamizadeh 2024, arXiv 2412.06464, section 3.3, for decays.
    """
    length = ops.shape(values)[1]
    tensors = (queries, keys, values, log_decays[..., None])
    queries, keys, values, log_decays = (split(x, *number_and_size(length)) for x in tensors)
    between = decays_between(log_decays)
    since_start = ops.exp(ops.cumsum(log_decays, axis=3))
    inverse = inverse_of_unit_lower(ops.matmul(keys, transposed(keys)) * between)
    scores = ops.matmul(queries, transposed(keys)) * between
    written = ops.matmul(inverse, values)  # U for S = 0.
    if values.shape[0] == 1:
        return joined(ops.matmul(scores, written), length)
    read = ops.matmul(inverse, keys * since_start)  # U = written - read S.
    to_state = transposed(keys * between[:, :, :, -1, :, None])
    decay = since_start[:, :, :, -1:] * ops.eye(keys.shape[-1], dtype=keys.dtype)
    transitions = decay - ops.matmul(to_state, read)
    before = states_before(transitions, ops.matmul(to_state, written), ops.matmul)
    written = written - ops.matmul(read, before)
    outputs = ops.matmul(scores, written) + ops.matmul(queries * since_start, before)
    return joined(outputs, length)


def delta_rule_step(
    queries: Any, keys: Any, values: Any, log_decays: Any, state: Any
) -> tuple[Any, Any]:
    """Return the output of one token, as in `delta_rule`, and the state after it.

    The tensors have one token each; the state has the shape `(batch, heads, features, width)`.
    """
    state = ops.exp(log_decays[:, 0])[..., None, None] * state
    keys = keys[:, 0][..., None, :]
    error = values[:, 0][..., None, :] - ops.matmul(keys, state)
    state = state + transposed(keys) * error
    return ops.matmul(queries[:, 0][..., None, :], state)[:, None, :, 0], state


def inverse_of_unit_lower(matrix: Any) -> Any:
    """Return `(I + L)^-1`, where L is the part of `matrix` below the diagonal.

    The inverses of diagonal blocks of s rows give those of 2 s rows:

        [A 0; C D]^-1 = [A^-1 0; -D^-1 C A^-1 D^-1]

    The Neumann series `I - L + L^2 - ...` needs as many products, but its terms reach 1e17 for
    equal keys and cancel. The gradient comes from the first terms of

        (I + L)^-1 = X + E X + E^2 X + ...,  E = I - X (I + L)

    with the inverse X by blocks, which is held constant. E is zero, except for rounding, so first
    and second derivatives are exact. Third derivatives are not available.

    Args:
        matrix: Tensor of shape `(..., size, size)`, with at most `CHUNK` rows.

    Returns:
        Tensor of the shape of `matrix`.
    """
    size = ops.shape(matrix)[-1]
    rows = ops.arange(size, dtype="int32")
    identity = ops.cast(rows[:, None] == rows, matrix.dtype)
    constant, inverse = ops.stop_gradient(matrix), identity
    span = 1
    while span < (size if isinstance(size, int) else CHUNK):
        block = rows // span
        below = (block[:, None] - 1 == block) & (block[:, None] % 2 == 1)
        corner = ops.where(below, constant, 0.0)
        if span > 1:  # else the inverse is the identity
            corner = ops.matmul(ops.matmul(inverse, corner), inverse)
        inverse = inverse - corner
        span *= 2
    lower = ops.where(rows[:, None] > rows, matrix, 0.0)
    residual = identity - ops.matmul(inverse, lower + identity)
    return inverse + ops.matmul(residual, inverse + ops.matmul(residual, inverse))
