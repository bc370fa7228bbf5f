"""Settings of pre-training. Free of Keras and NumPy: the command reads its options from here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from relation_tf.errors import SuiteError
from relation_tf.option_fields import check_fields, option


@dataclass(frozen=True)
class PretrainingSettings:
    """Settings that all runs of a pre-training folder share.

    Each field has its help text, the form of its value and its allowed values in `metadata`.

    Raises:
        SuiteError: For a value that is not allowed.

    Example:
        >>> PretrainingSettings(units=64).embedding_dim
        64
        >>> PretrainingSettings(steps=0)
        Traceback (most recent call last):
            ...
        relation_tf.errors.SuiteError: steps: must be 1 or more. Received: 0
    """

    objective: str = option(
        "masked",
        "Training objective: masked or causal (next token).",
        "NAME",
        choices=("masked", "causal"),
    )
    num_layers: int = option(4, "Blocks of an encoder.", "N", flag="--layers", least=1)
    units: int = option(128, "Width of the blocks.", "N", least=1)
    embedding_dim: int | None = option(None, "Width of the embedding.", "N", shown="units", least=1)
    norm: str = option(
        "pre", "Layer normalization: before (pre) or after (post) each sublayer.", "NAME",
        choices=("pre", "post"),
    )  # fmt: skip
    dropout: float = option(0.1, "Dropout rate in the blocks, 0 or more and below 1.", "RATE")
    vocabulary_size: int = option(
        8000, "Largest size of the WordPiece vocabulary.", "N", flag="--vocabulary", least=4
    )
    length: int = option(128, "Tokens per sequence of text.", "N", least=2)
    batch_size: int = option(32, "Sequences per step.", "N", least=1)
    steps: int = option(10_000, "Training steps of a run.", "N", least=1)
    optimizer: str = option(
        "adam", "Optimizer: adam, or a class of keras.optimizers such as SGD.", "NAME"
    )
    learning_rate: float = option(1e-3, "Peak learning rate; cosine decay to 0.", "RATE")
    warmup: float = option(0.1, "Share of the steps with a rising learning rate.", "SHARE")
    weight_decay: float = option(
        0.01, "Weight decay; not applied to biases, norms and embeddings.", "RATE", least=0
    )
    evaluate_every: int = option(500, "Steps between two evaluations.", "N", least=1)
    threads: int = option(
        1, "Threads of one operation; results depend on their number.", "N", least=1
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.embedding_dim is None:
            object.__setattr__(self, "embedding_dim", self.units)
        for name, is_allowed, requirement in (
            ("dropout", 0 <= self.dropout < 1, "0 or more and below 1"),
            ("warmup", 0 <= self.warmup < 1, "a share, 0 or more and below 1"),
            ("learning_rate", 0 < self.learning_rate < math.inf, "a number above 0"),
            ("weight_decay", self.weight_decay < math.inf, "0 or more"),
        ):
            if not is_allowed:
                raise SuiteError(f"{name}: must be {requirement}. Received: {getattr(self, name)}")

    def refuse_others(self, place: Path, found: Mapping[str, Any], **more: Any) -> None:
        """Refuse to continue what was made with other settings.

        Args:
            place: Folder of what was made.
            found: Settings that it was made with.
            **more: What was requested besides these settings.

        Raises:
            SuiteError: Names the first difference and both values.
        """
        requested = {**asdict(self), **more}
        found = {"optimizer": "adam", **found}  # folders from before this setting
        for key in sorted(requested.keys() | found.keys()):
            if requested.get(key) != found.get(key):
                other = f"with {key} = {found.get(key)!r}, now asked is {requested.get(key)!r}"
                if key == "text":  # its value is a digest
                    other = "from another text, or by another version of tokenizers"
                raise SuiteError(
                    f"{place}: was made {other}. Give another --out, or delete the folder to make "
                    "it again"
                )
