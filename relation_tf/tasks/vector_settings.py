"""Settings of word vectors and options of `relation-tf vectors`. Does not import NumPy."""

from __future__ import annotations

from dataclasses import dataclass

from relation_tf.option_fields import check_fields, option


@dataclass(frozen=True)
class VectorSettings:
    """Settings of `train_vectors`; the `metadata` of a field contains its help text and bounds.

    Raises:
        OptionError: For a value that is not allowed.

    Example:
        >>> VectorSettings(model="glove")
        Traceback (most recent call last):
            ...
        relation_tf.errors.OptionError: model: must be 'skip-gram', 'cbow' or 'fasttext'. \
Received: glove
    """

    model: str = option(
        "skip-gram",
        "skip-gram or cbow (Word2Vec), or fasttext (skip-gram with parts of words).",
        "NAME",
        choices=("skip-gram", "cbow", "fasttext"),
    )
    width: int = option(100, "Width of the vectors.", "N", least=2)
    window: int = option(5, "Largest distance of two words that predict each other.", "N", least=1)
    min_count: int = option(5, "Omit words with fewer occurrences.", "N", least=1)
    negative: int = option(5, "Random words per predicted word.", "N", least=1)
    epochs: int = option(5, "Passes over the text.", "N", least=1)
    seed: int = option(1, "Seed; the same seed gives the same file.", "N", least=0)

    def __post_init__(self) -> None:
        check_fields(self)
