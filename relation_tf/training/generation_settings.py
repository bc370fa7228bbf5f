"""Settings of text generation and options of `relation-tf generate`. Does not import Keras."""

from __future__ import annotations

from dataclasses import dataclass

from relation_tf.errors import OptionError
from relation_tf.option_fields import check_fields, option

# Options that must not be given with another one.
_EXCLUDED = {"greedy": ("top_k", "top_p", "temperature", "seed", "samples"), "top_k": ("top_p",)}


@dataclass(frozen=True)
class GenerationSettings:
    """Settings of `generate`; the `metadata` of a field contains its help text and bounds.

    Raises:
        OptionError: For a value that is not allowed, or two settings that exclude each other.

    Example:
        >>> GenerationSettings(top_p=0.9).tokens
        50
        >>> GenerationSettings(greedy=True, top_k=5)
        Traceback (most recent call last):
            ...
        relation_tf.errors.OptionError: top_k: must not be given with greedy. Received: 5
    """

    tokens: int = option(50, "Tokens to generate.", "N", least=1)
    greedy: bool = option(False, "Always take the most probable token.")
    top_k: int | None = option(
        None, "Draw from the K most probable tokens.", "K", shown="all", least=1
    )
    top_p: float | None = option(
        None,
        "Draw from the most probable tokens with a total probability of P.",
        "P",
        shown="all",
        above=0,
        most=1,
    )
    temperature: float = option(
        1.0, "Divide the logits by T: below 1, probable tokens are preferred.", "T", above=0
    )
    seed: int = option(1, "Seed of the draws.", "N", least=0)
    samples: int = option(1, "Number of texts.", "N", least=1)

    def __post_init__(self) -> None:
        check_fields(self)
        for name, others in _EXCLUDED.items():
            for other in others if getattr(self, name) else ():
                value = getattr(self, other)
                if value != getattr(GenerationSettings, other):  # its default
                    raise OptionError(other, f"must not be given with {name}. Received: {value}")
