"""The sentence encoders in the forms that the shared tests go through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from relation_tf.networks.additive_attention import AdditiveAttentionPooling
from relation_tf.networks.convolution import ConvolutionalNetwork
from relation_tf.networks.deep_averaging import DeepAveragingNetwork
from relation_tf.networks.encoder_stack import Encoder
from relation_tf.networks.multi_head_attention import MultiHeadSelfAttention
from relation_tf.networks.recurrent import RecurrentNetwork
from relation_tf.networks.sentence_state_lstm import SentenceStateLSTM

WIDTH = 4


@dataclass(frozen=True, eq=False)
class Case:
    """One form of a layer, for inputs of width 4."""

    layer: Callable[..., Any]
    arguments: Mapping[str, Any]
    output_width: int
    output_type: str = "vector"
    empty_is_zero: bool = True

    def __str__(self) -> str:
        values = (f"{name}={value}" for name, value in self.arguments.items())
        return "-".join([self.layer.__name__, *values])

    def make(self, **arguments: Any) -> Any:
        return self.layer(**{**self.arguments, **arguments})

    def shape(self, batch: int | None, length: int | None) -> tuple[int | None, ...]:
        """The output's."""
        tokens = (length,) if self.output_type == "tokens" else ()
        return (batch, *tokens, self.output_width)


CASES = (
    Case(DeepAveragingNetwork, {"units": 3}, 3, empty_is_zero=False),
    Case(ConvolutionalNetwork, {"units": 2, "widths": [2, 3], "num_layers": 2}, 4),
    Case(RecurrentNetwork, {"units": 3}, 3),
    Case(RecurrentNetwork, {"units": 3, "cell": "gru", "num_layers": 2}, 3),
    Case(
        RecurrentNetwork,
        {"units": 3, "cell": "rnn", "bidirectional": True, "return_sequences": True},
        6,
        output_type="tokens",
    ),
    Case(AdditiveAttentionPooling, {"units": 3}, 4),
    Case(SentenceStateLSTM, {"units": 3, "num_steps": 2}, 3),
    Case(
        SentenceStateLSTM,
        {"units": 3, "num_steps": 2, "window": 2, "return_sequences": True},
        3,
        output_type="tokens",
    ),
    Case(MultiHeadSelfAttention, {"units": 4, "num_heads": 2}, 4, output_type="tokens"),
    Case(
        Encoder,
        {"mechanism": "relation", "units": 3, "norm": "pre"},
        3,
        output_type="tokens",
    ),
    Case(
        Encoder,
        {"mechanism": "multi-head-attention", "num_heads": 2, "num_layers": 2},
        4,
        output_type="tokens",
    ),
)
