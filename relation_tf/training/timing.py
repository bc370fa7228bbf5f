"""Time untrained networks: passes over a text, tokens one at a time, a mechanism alone."""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import replace
from statistics import median
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from relation_tf.config.run import RunConfig
from relation_tf.errors import SuiteError, in_one_line
from relation_tf.networks.mechanisms import find_mechanism, make_layer
from relation_tf.networks.mixing import mix_all
from relation_tf.networks.next_token import NextTokenNetwork, bytes_of, state_bytes
from relation_tf.networks.precision import dtype_policy
from relation_tf.tasks.encoding import EncodedSplit, EncodedTask
from relation_tf.tasks.generated import length_of, one_text
from relation_tf.training.session import check_backend, memory_of
from relation_tf.training.stopping import Stop
from relation_tf.training.trainer import (
    Checkpoint,
    Estimate,
    ProgressCallback,
    SuiteTrainer,
    TrainingResult,
    trace,
)

SECONDS = 1.0
"""Minimum seconds for all passes of a run."""

PASSES = 3
"""Minimum number of passes."""


class PassTimer(SuiteTrainer):
    """Timer of a network whose weights are the initial weights of the run's seed.

    A subclass builds the network in `_build`, compiles a pass in `_compile`, and computes one in
    `_compute`.

    Args:
        config: The run; uses the training settings `batch_size`, `embedding_dim` and `threads`.
        task: The text.
        unused: Arguments of other trainers, such as word vectors.
    """

    extra_passes = 0  # after the timed ones

    def __init__(self, config: RunConfig, task: EncodedTask, *unused: Any) -> None:
        check_backend()
        start = time.perf_counter()
        self.config = config
        rows = np.arange(config.batch_size)
        (texts,) = one_text(length_of(task.task), len(rows)).encode("train")
        self.tokens: int = int(texts.lengths.sum())
        self.task = replace(task, splits={"train": EncodedSplit((texts,), None, rows)})
        super().__init__(self._start())
        self._compile(texts.pad(rows))
        self.compile_seconds = time.perf_counter() - start

    def _start(self) -> keras.Model:
        """Return the model that is timed."""
        return self._build(self.config.seed)

    @abstractmethod
    def _compile(self, ids: np.ndarray) -> None:
        """Prepare passes over the ids, `(batch, tokens)`."""

    @abstractmethod
    def _compute(self) -> None:
        """Compute one pass and wait for its result."""

    def _facts(self) -> dict[str, Any]:
        """Return measured facts other than the time."""
        return {}

    def run(
        self,
        seed: int,
        on_progress: ProgressCallback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> TrainingResult:
        """Compute passes and measure the speed."""
        self.reset(seed)
        passes: list[float] = []
        while len(passes) < PASSES or sum(passes) < SECONDS:
            passes.append(self._time_pass())
        typical, total = median(passes), sum(passes)
        (metric,) = self.task.task.metrics
        return TrainingResult(
            history=[{"pass": i, "seconds": spent} for i, spent in enumerate(passes, 1)],
            seconds={
                "training": 0.0,
                "evaluation": total,
                "total": total,
                "epoch": typical,
                "batch": typical / length_of(self.task.task),
            },
            stop=Stop("timed", len(passes)),
            metrics={name: {metric: self.tokens / typical} for name in self.task.task.scored},
            facts=self._facts(),
        )

    def estimate(self) -> Estimate:
        """Measure one pass; an epoch is all passes and the compilation."""
        one_pass = self._time_pass()
        seconds = (
            max(SECONDS, PASSES * one_pass) + self.extra_passes * one_pass + self.compile_seconds
        )
        return Estimate(seconds, once=0.0)

    def _time_pass(self) -> float:
        start = time.perf_counter()
        self._compute()
        return time.perf_counter() - start


_FIRST_TOKENS = 128  # tokens to check before the timing
_TOLERANCE = 1e-2  # relative to the largest logit; a GPU multiplies with 10-bit precision


class StepTimer(PassTimer):
    """Timer of a causal network that computes next-token logits after each token.

    The next token comes from the text, so that all networks read the same text; choosing the most
    probable token instead would cost almost no time.

    Raises:
        ValueError: If the mechanism cannot read one token at a time.
        SuiteError: If the logits of the steps differ from those of the whole text.
    """

    @classmethod
    def try_build(cls, config: RunConfig) -> None:
        """Build the network of a run's method with a small vocabulary."""
        with in_one_line(f"method {config.method}"):
            _next_token_network(config, vocabulary_size=2)

    def read(self) -> np.ndarray:
        """Return the logits after the last token, `(batch, vocabulary)`."""
        logits: np.ndarray = self._pass(self._text).numpy()
        return logits

    def _start(self) -> keras.Model:
        self._network = self._build_network(self.config.seed)
        return self._network.model

    def _build_network(self, seed: int) -> NextTokenNetwork:
        keras.utils.set_random_seed(seed)
        return _next_token_network(self.config, self.task.vocabulary.size)

    def _build(self, seed: int) -> keras.Model:
        return self._build_network(seed).model

    def _compile(self, ids: np.ndarray) -> None:
        self._text = tf.constant(ids)
        self._positions = self._network.positions(ids.shape[1])
        self._pass = trace(self._read, tf.TensorSpec((len(ids), None), tf.int32))
        self._check_steps()

    def _compute(self) -> None:
        self.read()

    def _facts(self) -> dict[str, Any]:
        return {"state_bytes": bytes_of(self._state())}

    def _check_steps(self) -> None:
        """Check that the steps give the same logits as the whole text."""
        first = self._text[:, :_FIRST_TOKENS]
        by_steps, at_once = self._pass(first).numpy(), self.model(first)[:, -1].numpy()
        difference = float(np.abs(by_steps - at_once).max())
        if not difference <= _TOLERANCE * max(1e-6, float(np.abs(at_once).max())):
            raise SuiteError(
                f"method {self.config.method}: the steps must give the same logits as the whole "
                f"text. Received: a difference of {difference:.3g} at token {_FIRST_TOKENS}"
            )

    def _state(self) -> Any:
        return self._network.initial_state(*self._text.shape)

    def _read(self, ids: Any) -> Any:
        def advance(place: Any, state: Any, _: Any) -> tuple[Any, Any, Any]:
            position = self._positions[:, place]
            logits, state = self._network.step(ids[:, place], position, state)
            return place + 1, state, logits

        logits = tf.zeros((self._text.shape[0], self.model.output_shape[-1]))
        start = (tf.constant(0), self._state(), logits)
        length = tf.shape(ids)[1]
        _, _, logits = tf.while_loop(
            lambda place, *_: place < length, advance, start, parallel_iterations=1
        )
        return logits


def _next_token_network(config: RunConfig, vocabulary_size: int) -> NextTokenNetwork:
    width = config.embedding_dim
    with dtype_policy("float32"):  # a notebook may have set another policy
        return NextTokenNetwork(
            config.mechanism, vocabulary_size, config.units, width, config.options
        )


class LayerTimer(PassTimer):
    """Timer of the forward and backward pass of a mechanism alone, over all tokens.

    The tokens are random vectors of width `embedding_dim`. Gradients are for the weights and the
    tokens, as for a layer inside a network. There is no dropout and no update of the weights.

    Raises:
        SuiteError: If the mechanism cannot be built.
    """

    extra_passes = PASSES

    @classmethod
    def try_build(cls, config: RunConfig) -> None:
        """Build the mechanism of a run's method."""
        with in_one_line(f"method {config.method}"):
            _layer_model(config)

    def _build(self, seed: int) -> keras.Model:
        keras.utils.set_random_seed(seed)
        return _layer_model(self.config)

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
            "pass_bytes": max((used for used in passes if used is not None), default=None),
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


def _layer_model(config: RunConfig) -> keras.Model:
    with dtype_policy("float32"):  # a notebook may have set another policy
        tokens = keras.Input((None, config.embedding_dim))
        mechanism = find_mechanism(config.mechanism)
        layer = make_layer(mechanism, config.units, 0.0, config.options)
        return keras.Model(tokens, mix_all(layer, tokens, None))
