"""The contract of the sentence encoders."""

from __future__ import annotations

import pytest

from relation_tf.networks.additive_attention import AdditiveAttentionPooling
from relation_tf.networks.convolution import ConvolutionalNetwork
from relation_tf.networks.deep_averaging import DeepAveragingNetwork
from relation_tf.networks.encoder_stack import Encoder
from relation_tf.networks.multi_head_attention import MultiHeadSelfAttention
from relation_tf.networks.recurrent import RecurrentNetwork
from relation_tf.networks.sentence_state_lstm import SentenceStateLSTM
from tests.layers.contract import *  # noqa: F403
from tests.layers.contract import Case

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


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param
