"""minLSTM: a gated recurrence with normalized forget and input gates."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.masking import to_float32
from relation_tf.layers.min_gru import MinGRU
from relation_tf.layers.token_mixer import affine


@keras.saving.register_keras_serializable(package="relation_tf")
class MinLSTM(MinGRU):
    """minLSTM: an LSTM without output gate.

    Its gates depend only on the token, and their sum is one.

    With `f = sigmoid(value W_f)`, `i = sigmoid(value W_i)` and the candidate `c` as in `MinGRU`:

    - state of each feature, and output: `h_t = f_t / (f_t + i_t) h_{t-1} + i_t / (f_t + i_t) c_t`,
      with `h_0 = 0`

    The use of the query and the state of `step` are those of `MinGRU`. Time and memory are linear
    in the number of tokens.

    Args:
        units: Width of the state and the output.
        variant: `"equations"`, or `"released_code"` for the defaults of the Relation paper's code;
            sets the defaults of `dropout` and `output_projection`.
        use_bias: If True, the projections have biases. Default: True.
        dropout: Dropout rate in [0, 1), on the output and before the output projection. Default: 0,
            or 0.5 for the released code.
        output_projection: If True, the layer ends with `dropout(relu(y)) W_output`. Default: True
            for the released code, else False.
        algorithm: `"direct"` or `"auto"`, which are the same.
        causal: If True, query i sees tokens 1 to i only.
        seed: Random seed of the dropout.
        kernel_initializer: Initializer of the matrices.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: Regularizer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens are absent.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import MinLSTM
        >>> MinLSTM(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Feng et al. 2024, "Were RNNs All We Needed?", arXiv 2410.01201, sections 3.2 and B.2.
    """

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_f, W_i and W_c."""
        self.forget_kernel, self.forget_bias = self.add_projection("forget", value_width)
        self.input_kernel, self.input_bias = self.add_projection("input", value_width)
        self.candidate_kernel, self.candidate_bias = self.add_projection("candidate", value_width)

    def log_gates(self, value: Any) -> tuple[Any, Any]:
        """Return the logarithms of `f / (f + i)` and `i / (f + i)`."""
        forget = ops.log_sigmoid(to_float32(affine(value, self.forget_kernel, self.forget_bias)))
        own = ops.log_sigmoid(to_float32(affine(value, self.input_kernel, self.input_bias)))
        return ops.log_sigmoid(forget - own), ops.log_sigmoid(own - forget)
