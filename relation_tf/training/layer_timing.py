"""Time the forward and backward pass of a mechanism."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from relation_tf.config.run import RunConfig
from relation_tf.errors import in_one_line
from relation_tf.networks.mechanisms import find_mechanism, make_layer
from relation_tf.networks.mixing import mix_all
from relation_tf.networks.next_token import state_bytes
from relation_tf.networks.precision import dtype_policy
from relation_tf.tasks.generated import length_of
from relation_tf.training.pass_timing import PASSES, PassTimer
from relation_tf.training.session import memory_of
from relation_tf.training.trainer import trace


class LayerTimer(PassTimer):
    """Timer of the forward and backward pass of a mechanism alone, over all tokens.

    The tokens are random vectors of width `embedding_dim`. Gradients are for the weights and the
    tokens, as for a layer inside a network. There is no dropout and no update of the weights.

    Raises:
        SuiteError: If the mechanism cannot be built.
    """

    extra_passes = PASSES

    @classmethod
    def check(cls, config: RunConfig) -> None:
        """Build the mechanism of a run's method."""
        with in_one_line(f"method {config.method}"):
            _build(config)

    def _build(self, seed: int) -> keras.Model:
        keras.utils.set_random_seed(seed)
        return _build(self.config)

    def _compile(self, ids: np.ndarray) -> None:
        shape = (*ids.shape, self.config.embedding_dim)
        self._tokens = tf.random.stateless_normal(shape, seed=(0, 0))
        # As in training, the number of tokens is unknown when the pass is compiled.
        self._pass = trace(self._gradients, tf.TensorSpec((shape[0], None, shape[2]), tf.float32))
        self._compute()  # the first pass is slower

    def _compute(self) -> None:
        self._pass(self._tokens)
        tf.test.experimental.sync_devices()

    def _facts(self) -> dict[str, Any]:
        """Return the peak memory of a pass and the state size of the causal form, in bytes."""
        config = self.config
        passes = [memory_of(self._compute) for _ in range(self.extra_passes)]
        return {
            "pass_bytes": max((each for each in passes if each is not None), default=None),
            "state_bytes": state_bytes(
                config.mechanism, config.units, config.embedding_dim, config.options,
                length_of(self.task.task),
            ),
        }  # fmt: skip

    def _gradients(self, tokens: Any) -> Any:
        weights = [variable.value for variable in self.model.trainable_variables]
        with tf.GradientTape() as tape:
            tape.watch(tokens)
            loss = tf.reduce_sum(tf.square(self.model(tokens, training=False)))
        return tape.gradient(loss, [tokens, *weights])


def _build(config: RunConfig) -> keras.Model:
    with dtype_policy("float32"):  # a notebook may have set another policy
        tokens = keras.Input((None, config.embedding_dim))
        mechanism = find_mechanism(config.mechanism)
        layer = make_layer(mechanism, config.units, 0.0, config.options)
        return keras.Model(tokens, mix_all(layer, tokens, None))
