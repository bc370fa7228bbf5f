"""Text lengths with the distribution of IMDb reviews."""

from __future__ import annotations

import numpy as np

LONGEST = 2494

# Share of the IMDb training reviews with at most this number of tokens, from
# `relation_tf.tasks.encoding.load_task("IMDb", ...).splits["train"].lengths`.
_AT_MOST = {
    0.0: 12, 0.01: 52, 0.02: 59, 0.05: 79, 0.1: 110, 0.2: 144, 0.3: 161, 0.4: 182, 0.5: 210,
    0.6: 246, 0.7: 302, 0.8: 388, 0.9: 550, 0.95: 713, 0.98: 934, 0.99: 1083, 0.995: 1175,
    0.998: 1245, 0.999: 1347, 1.0: 2804,
}  # fmt: skip
_MEAN = 230.0


def imdb_lengths(reviews: int = 25_000) -> np.ndarray:
    """Return sorted lengths of reviews with a mean of 230 and a maximum of 2,494 tokens.

    These are the values of the papers, which counted words only. The shape of the distribution
    comes from tokens including punctuation; it is rescaled to the values of the papers.
    """
    shares = np.linspace(0, 1, reviews)
    logarithms = np.interp(shares, list(_AT_MOST), np.log(list(_AT_MOST.values())))
    lengths = np.exp(logarithms)
    lengths *= _MEAN / lengths.mean()
    lengths[-1] = LONGEST
    return lengths.round().astype(int)
