"""One run of pre-training: a language model trained for a given number of steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from relation_tf import optimizers
from relation_tf.errors import SuiteError
from relation_tf.networks.language_model import LanguageModel, language_model, word_losses
from relation_tf.tasks.plain_text import (
    PlainText,
    batch_rows,
    mask_tokens,
    masks_of_held_out,
    masks_of_step,
)
from relation_tf.training.checkpoint import Checkpoint, State
from relation_tf.training.pretraining_settings import PretrainingSettings

StepCallback = Callable[[int], None]

_CLIP = 1.0  # the norm of all gradients together, as in BERT
_NOT_DECAYED = ["bias", "beta", "embeddings", "gamma"]


@dataclass(frozen=True)
class TrainedModel:
    """What a run gave.

    Attributes:
        history: A row an evaluation.
        seconds: Time spent: `training`, `evaluation` and the `total`; all without compilation.
        resumed: The steps after which the run, interrupted, was taken up again.
    """

    history: list[dict[str, float]]
    seconds: Mapping[str, float]
    resumed: Sequence[int] = ()


@dataclass
class CompiledLanguageModel:
    """A language model and its compiled steps.

    `reset` builds another model only to draw a seed's start values, which are then written into
    this one.
    """

    mechanism: str
    settings: PretrainingSettings
    text: PlainText
    model: LanguageModel = field(init=False)
    compile_seconds: float = field(init=False)

    def __post_init__(self) -> None:
        if keras.backend.backend() != "tensorflow":
            raise SuiteError(
                "pre-training needs the TensorFlow backend (layers and networks work on all "
                f"three). Received: KERAS_BACKEND={keras.backend.backend()}"
            )
        start = time.perf_counter()
        self.model = self._build(0)
        self._optimizer = _make_optimizer(self.settings)
        self._optimizer.build(self.model.trainable_variables)
        self._fresh_optimizer = _values(self._optimizer.variables)
        # One shape for all steps; the last held-out blocks may be fewer.
        whole = self._spec(self.settings.batch_size)
        self._train = tf.function(self._train_step, autograph=False).get_concrete_function(*whole)
        self._evaluate = tf.function(self._losses, autograph=False).get_concrete_function(
            *self._spec(None)
        )
        # What a first call prepares is compilation. `reset` undoes the step.
        self.train(0, seed=0)
        self._evaluate(*self._held_out(0))
        self.compile_seconds = time.perf_counter() - start

    def reset(self, seed: int) -> None:
        """Start over: the weights and random state that a new model of this seed would have."""
        self.restore_state([*self._build(seed).variables, *self._fresh_optimizer])

    def train(self, step: int, seed: int) -> Any:
        """Take a step, from 0; its mean loss, a tensor that need not be there yet."""
        size = self.settings.batch_size
        blocks = self.text.train[batch_rows(len(self.text.train), size, seed, step)]
        return self._train(*self._given(blocks, masks_of_step(seed, step)))

    def held_out_loss(self) -> float:
        """The mean loss of the predicted words of the held-out text, the same words each time."""
        total, words = 0.0, 0
        for row in range(0, len(self.text.held_out), self.settings.batch_size):
            losses = self._evaluate(*self._held_out(row)).numpy()
            total += losses.sum(dtype=np.float64)
            words += losses.size
        return float(total / words)

    @property
    def step_tokens(self) -> int:
        """The tokens of a step's blocks."""
        return self.settings.batch_size * self.settings.length

    def weights(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """The vectors of the words as they go in, and the weights of the encoder."""
        embedding = self.model.embedding.get_weights()[0] * np.float32(self.model.embedding_scale)
        return embedding[: self.text.vocabulary.size], self.model.encoder.get_weights()

    def state(self) -> list[np.ndarray]:
        """A copy of all variables, those of the optimizer too."""
        return _values(self._variables())

    def state_matches(self, state: Sequence[np.ndarray]) -> bool:
        """Whether `restore_state` can take these back."""
        return [(x.shape, x.dtype.name) for x in state] == [
            (tuple(variable.shape), variable.dtype) for variable in self._variables()
        ]

    def restore_state(self, state: Sequence[Any]) -> None:
        """Take back what `state` gave."""
        for variable, value in zip(self._variables(), state, strict=True):
            variable.assign(value)

    def _variables(self) -> list[Any]:
        return [*self.model.variables, *self._optimizer.variables]

    def _build(self, seed: int) -> LanguageModel:
        keras.utils.set_random_seed(seed)
        return build_model(self.mechanism, self.settings, self.text.vocabulary.size)

    def _spec(self, blocks: int | None) -> list[tf.TensorSpec]:
        """What a step is given: ids, and the places and words of what is predicted."""
        given, *rest = self._given(self.text.train[:1], masks_of_held_out(0))
        return [tf.TensorSpec((blocks, *x.shape[1:]), tf.int32) for x in (given, *rest)]

    def _held_out(self, row: int) -> list[Any]:
        blocks = self.text.held_out[row : row + self.settings.batch_size]
        return self._given(blocks, masks_of_held_out(row))

    def _given(self, blocks: np.ndarray, masks: np.random.Generator) -> list[Any]:
        if self.settings.objective == "causal":
            ids = tf.constant(blocks, tf.int32)
            return [ids[:, :-1], ids[:, 1:]]
        return [*map(tf.constant, mask_tokens(blocks, self.text.vocabulary.size, masks))]

    def _train_step(self, *given: Any) -> Any:
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self._losses(*given, training=True))
            if self.model.losses:
                loss = loss + tf.add_n(self.model.losses)
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        self._optimizer.apply(gradients, variables)
        return loss

    def _losses(self, ids: Any, *predicted: Any, training: bool = False) -> Any:
        *at, words = predicted
        return word_losses(self.model(ids, *at, training=training), words)


def build_model(
    mechanism: str, settings: PretrainingSettings, vocabulary_size: int
) -> LanguageModel:
    """The language model of a run.

    Raises:
        SuiteError: Where it cannot be; the message names the mechanism.
    """
    try:
        return language_model(
            mechanism,
            vocabulary_size,
            objective=settings.objective,  # type: ignore[arg-type]
            num_layers=settings.num_layers,
            units=settings.units,
            embedding_dim=settings.embedding_dim,
            dropout=settings.dropout,
            norm=settings.norm,  # type: ignore[arg-type]
        )
    except (TypeError, ValueError, RuntimeError) as error:
        raise SuiteError(f"mechanism {mechanism}: {' '.join(str(error).split())}") from error


def train_model(
    network: CompiledLanguageModel,
    seed: int,
    on_step: StepCallback | None = None,
    checkpoint: Checkpoint | None = None,
) -> TrainedModel:
    """Train from the start values of a seed.

    Args:
        network: The compiled model.
        seed: Of the run.
        on_step: Told each step that is done.
        checkpoint: Where the run's state is kept; one that is there is gone on from, to the same
            end.

    Raises:
        SuiteError: Where the loss is no number any more.
    """
    settings = network.settings
    network.reset(seed)
    run = _TrainingState.after(checkpoint.read() if checkpoint is not None else None, network)
    while run.step < settings.steps:
        began = time.perf_counter()
        # Read when it is needed, so that no step waits for the one before it.
        run.losses.append(network.train(run.step, seed))
        run.step += 1
        due = checkpoint is not None and checkpoint.due()
        evaluated = run.step % settings.evaluate_every == 0 or run.step == settings.steps
        if due or evaluated:
            run.losses = [float(loss) for loss in run.losses]
        run.seconds += time.perf_counter() - began
        if evaluated:
            run.evaluate(network)
        if on_step is not None:
            on_step(run.step)
        if due and checkpoint is not None and run.step < settings.steps:
            checkpoint.write(run.state(network))
    training = sum(row["seconds"] for row in run.history)
    evaluation = sum(row["evaluation_seconds"] for row in run.history)
    seconds = {"training": training, "evaluation": evaluation, "total": training + evaluation}
    return TrainedModel(run.history, seconds, run.resumed)


@dataclass
class _TrainingState:
    """How far a run is.

    Attributes:
        step: Steps that are done.
        losses: Of the steps since the last evaluation.
        seconds: Of the same steps.
        history: A row an evaluation.
        resumed: As in `TrainedModel`.
    """

    step: int = 0
    losses: list[Any] = field(default_factory=list)
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)
    resumed: list[int] = field(default_factory=list)

    @classmethod
    def after(cls, state: State | None, network: CompiledLanguageModel) -> _TrainingState:
        """Where a run goes on, its network as it was; at its beginning without a state."""
        if state is None or not network.state_matches(state.variables):
            return cls()
        network.restore_state(state.variables)
        step, losses = state.rule["step"], list(state.rule["losses"])
        return cls(step, losses, state.seconds, list(state.history), [*state.resumed, step])

    def state(self, network: CompiledLanguageModel) -> State:
        rule = {"step": self.step, "losses": self.losses}
        return State(self.history, self.seconds, rule, network.state(), resumed=self.resumed)

    def evaluate(self, network: CompiledLanguageModel) -> None:
        """Add a row to the history."""
        began = time.perf_counter()
        loss, held_out = float(np.mean(self.losses)), network.held_out_loss()
        with np.errstate(over="ignore"):
            perplexity = float(np.exp(held_out))
        if not np.isfinite([loss, perplexity]).all():
            raise SuiteError(
                f"the loss must be finite up to step {self.step}. Received: {loss:g}, of held-out "
                f"text {held_out:g}; a lower learning rate may help"
            )
        tokens = len(self.losses) * network.step_tokens
        self.history.append(
            {
                "step": self.step,
                "loss": loss,
                "held_out_loss": held_out,
                "perplexity": perplexity,
                "tokens_per_second": tokens / self.seconds,
                "seconds": self.seconds,
                "evaluation_seconds": time.perf_counter() - began,
            }
        )
        self.losses, self.seconds = [], 0.0


def _make_optimizer(settings: PretrainingSettings) -> keras.optimizers.Optimizer:
    warmup = int(settings.warmup * settings.steps)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0 if warmup else settings.learning_rate,
        settings.steps - warmup,
        warmup_target=settings.learning_rate if warmup else None,
        warmup_steps=warmup,
    )
    optimizer = optimizers.Adam(
        rate, weight_decay=settings.weight_decay or None, global_clipnorm=_CLIP
    )
    if settings.weight_decay:
        optimizer.exclude_from_weight_decay(var_names=_NOT_DECAYED)
    return optimizer


def _values(variables: Sequence[Any]) -> list[np.ndarray]:
    """Copies: what a backend hands out may be the variable's own memory."""
    return [np.array(keras.ops.convert_to_numpy(variable)) for variable in variables]
