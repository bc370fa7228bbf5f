"""Reviews as long as IMDb's, without IMDb."""

from __future__ import annotations

import numpy as np

LONGEST = 2494

# The share of IMDb's training reviews that have at most so many tokens, from
# `relation_tf.tasks.encoding.load_task("IMDb", ...).splits["train"].lengths`.
_AT_MOST = {
    0.0: 12, 0.01: 52, 0.02: 59, 0.05: 79, 0.1: 110, 0.2: 144, 0.3: 161, 0.4: 182, 0.5: 210,
    0.6: 246, 0.7: 302, 0.8: 388, 0.9: 550, 0.95: 713, 0.98: 934, 0.99: 1083, 0.995: 1175,
    0.998: 1245, 0.999: 1347, 1.0: 2804,
}  # fmt: skip
_MEAN = 230.0


def imdb_lengths(reviews: int = 25_000) -> np.ndarray:
    """Lengths of so many reviews, ascending: a mean of 230, the longest of 2,494 tokens.

    So they were for the papers, which counted words only. Here punctuation counts too: the shape of
    the distribution is kept, and its scale is theirs.
    """
    shares = np.linspace(0, 1, reviews)
    logarithms = np.interp(shares, list(_AT_MOST), np.log(list(_AT_MOST.values())))
    lengths = np.exp(logarithms)
    lengths *= _MEAN / lengths.mean()
    lengths[-1] = LONGEST
    return lengths.round().astype(int)
