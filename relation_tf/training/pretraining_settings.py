"""Settings of pre-training and options of `relation-tf pretrain`. Does not import Keras."""

from __future__ import annotations

from dataclasses import dataclass

from relation_tf.settings import check_fields, option

SETTINGS, SPEEDS, WEIGHTS = "pretraining.json", "speeds.csv", "weights.npz"
"""Files of pre-training: settings, speeds as a table of scores, the weights of a run."""


@dataclass(frozen=True)
class PretrainingSettings:
    """Settings that all runs of a pre-training folder share.

    The `metadata` of a field contains its help text, metavar and allowed values.

    Raises:
        SuiteError: For a value that is not allowed.

    Example:
        >>> PretrainingSettings(units=64).embedding_dim
        64
        >>> PretrainingSettings(steps=0)
        Traceback (most recent call last):
            ...
        relation_tf.errors.OptionError: steps: must be 1 or more. Received: 0
    """

    objective: str = option(
        "masked",
        "Training objective: masked or causal (next token).",
        "NAME",
        choices=("masked", "causal"),
    )
    num_layers: int = option(4, "Number of blocks.", "N", flag="--layers", least=1)
    units: int = option(128, "Width of the blocks.", "N", least=1)
    embedding_dim: int | None = option(
        None, "Width of the embeddings.", "N", shown="units", least=1
    )
    norm: str = option(
        "pre", "Layer normalization before (pre) or after (post) each sublayer.", "NAME",
        choices=("pre", "post"),
    )  # fmt: skip
    dropout: float = option(0.1, "Dropout rate in the blocks.", "RATE", least=0, below=1)
    vocabulary_size: int = option(
        8000, "Maximum size of the WordPiece vocabulary.", "N", flag="--vocabulary", least=4
    )
    length: int = option(128, "Tokens per sequence.", "N", least=2)
    batch_size: int = option(32, "Sequences per batch.", "N", least=1)
    steps: int = option(10_000, "Training steps.", "N", least=1)
    optimizer: str = option(
        "adam", "Optimizer: adam, or a class of keras.optimizers, such as SGD.", "NAME"
    )
    learning_rate: float = option(1e-3, "Peak learning rate; cosine decay to 0.", "RATE", above=0)
    warmup: float = option(
        0.1, "Share of the steps for learning rate warmup.", "SHARE", least=0, below=1
    )
    weight_decay: float = option(
        0.01, "Weight decay; not applied to biases, norms and embeddings.", "RATE", least=0
    )
    evaluate_every: int = option(500, "Steps between evaluations.", "N", least=1)
    vary: str = option(
        "init,order",
        "Random sources that a seed changes: init (weights), order (batches, masks, dropout).",
        "NAME[,NAME]",
        choices=("init", "order", "init,order"),
    )
    threads: int = option(1, "Threads per operation; results depend on it.", "N", least=1)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.embedding_dim is None:
            object.__setattr__(self, "embedding_dim", self.units)
