"""Choice of the next token from the logits of a language model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relation_tf.layers.arguments import positive_integer


def next_token_probabilities(
    logits: np.ndarray,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    excluded: Sequence[int] = (),
) -> np.ndarray:
    """Compute the probabilities from which the next token is drawn.

    Excluded tokens are removed first, then `p = softmax(logits / temperature)`. `top_k` keeps the
    most probable tokens. `top_p` then keeps the smallest set of most probable tokens with a total
    of at least `top_p` of the rest. Of equally probable tokens, smaller ids are kept first.

    Args:
        logits: One number per token, `(vocabulary_size,)`.
        temperature: Above 0; smaller values prefer probable tokens more.
        top_k: Number of tokens to keep, at least 1. Default: all.
        top_p: Total probability to keep, above 0 and at most 1. Default: 1.
        excluded: Ids of tokens with probability 0.

    Returns:
        float64, `(vocabulary_size,)`, with sum 1.

    Raises:
        ValueError: If an argument is out of range, or all tokens are excluded.

    Example:
        >>> p = next_token_probabilities(np.log([0.1, 0.4, 0.3, 0.2]), top_k=2)
        >>> p.round(3).tolist()
        [0.0, 0.571, 0.429, 0.0]

    References:
        - Fan et al. 2018, "Hierarchical Neural Story Generation" (ACL), for `top_k`.
        - Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration" (ICLR), for `top_p`.
    """
    if not 0 < temperature < np.inf:
        raise ValueError(f"`temperature` must be above 0. Received: temperature={temperature}")
    if top_k is not None:
        positive_integer("top_k", top_k)
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"`top_p` must be above 0 and at most 1. Received: top_p={top_p}")
    scores = np.array(logits, np.float64)
    scores[list(excluded)] = -np.inf
    best = scores.max()
    if np.isneginf(best):
        raise ValueError(f"`excluded` must leave a token. Received: excluded={excluded}")
    with np.errstate(over="ignore"):  # a very low temperature
        p = np.exp((scores - best) / temperature)
    order = np.argsort(-p, kind="stable")
    if top_k is not None:
        p[order[top_k:]] = 0.0
    p /= p.sum()
    if top_p is not None and top_p < 1:  # at 1, rounding could remove tokens
        before = np.cumsum(p[order]) - p[order]
        p[order[before >= top_p]] = 0.0
        p /= p.sum()
    return p
