"""Train a language model for a given number of steps, and generate text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from scipy.special import softmax
from tokenizers.decoders import WordPiece

from relation_tf.config.run import dropout_seed_of, seed_of
from relation_tf.config.user_code import custom_digest
from relation_tf.errors import DivergedError, SuiteError, in_one_line
from relation_tf.networks.language_model import LanguageModel, language_model, word_losses
from relation_tf.networks.mechanisms import custom_layers
from relation_tf.tasks.plain_text import (
    PlainText,
    batch_rows,
    mask_tokens,
    masks_of_held_out,
    masks_of_step,
)
from relation_tf.tasks.rows import PADDING, START, UNKNOWN
from relation_tf.tasks.vocabulary import Vocabulary
from relation_tf.training.optimizing import make_optimizer, make_schedule
from relation_tf.training.pretrained import PretrainedEncoder
from relation_tf.training.pretraining_settings import WEIGHTS, PretrainingSettings
from relation_tf.training.session import check_backend
from relation_tf.training.trainer import (
    Checkpoint,
    ProgressCallback,
    State,
    Trainer,
    TrainingResult,
    trace,
    train_step,
)

_CLIP = 1.0  # global norm of the gradients, as in BERT
_OF_MODEL = ("objective", "num_layers", "units", "embedding_dim", "dropout", "norm")


class LanguageModelTrainer(Trainer):
    """Trainer of a language model on plain text.

    Args:
        mechanism: Token-mixing mechanism of the encoder.
        settings: Training settings.
        text: The text.
    """

    model: LanguageModel

    def __init__(self, mechanism: str, settings: PretrainingSettings, text: PlainText) -> None:
        check_backend()
        start = time.perf_counter()
        self.mechanism, self.settings, self.text = mechanism, settings, text
        model = self._build(0)
        super().__init__(model, pretraining_optimizer(settings, model.trainable_variables))
        # One shape for all steps; the last held-out blocks may be fewer.
        self._train = trace(self._train_step, *self._spec(settings.batch_size))
        self._evaluate = trace(self._losses, *self._spec(None))
        # The first call counts as compilation. `reset` undoes the step.
        self.train(0, seed=0)
        self._evaluate(*self._held_out(0))
        self.compile_seconds = time.perf_counter() - start

    def run(
        self,
        seed: int,
        on_progress: ProgressCallback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> TrainingResult:
        """Train for the steps of the settings.

        Raises:
            DivergedError: If the loss is not finite at an evaluation.
        """
        settings = self.settings
        vary = settings.vary.split(",")
        order = seed_of("order", vary, seed)
        self.reset(seed_of("init", vary, seed), dropout_seed_of(vary, seed))
        state = self.resume(checkpoint) or State(rule={"step": 0, "losses": []})
        # The losses and the seconds of the steps since the last evaluation.
        step, losses, seconds = state.rule["step"], list(state.rule["losses"]), state.seconds
        history, resumed = list(state.history), [*state.resumed, *([step] if step else [])]
        while step < settings.steps:
            began = time.perf_counter()
            # The loss is read later, so that steps do not wait for each other.
            losses.append(self.train(step, order))
            step += 1
            due = checkpoint is not None and checkpoint.due()
            evaluated = step % settings.evaluate_every == 0 or step == settings.steps
            if due or evaluated:
                losses = [float(loss) for loss in losses]
            seconds += time.perf_counter() - began
            if evaluated:
                history.append(self._row(step, losses, seconds))
                losses, seconds = [], 0.0
            if on_progress is not None:
                on_progress(step, history[-1] if evaluated else {})
            if due and checkpoint is not None and step < settings.steps:
                rule = {"step": step, "losses": losses}
                checkpoint.write(State(history, seconds, rule, self.state(), resumed=resumed))
        training = sum(row["seconds"] for row in history)
        evaluation = sum(row["evaluation_seconds"] for row in history)
        total = {"training": training, "evaluation": evaluation, "total": training + evaluation}
        return TrainingResult(history, total, resumed=resumed)

    def train(self, step: int, seed: int) -> Any:
        """Take a step, counted from 0, with the batch and masks of a seed.

        Returns:
            Its mean loss, a tensor that may still be pending.
        """
        size = self.settings.batch_size
        blocks = self.text.train[batch_rows(len(self.text.train), size, seed, step)]
        return self._train(*self._inputs(blocks, masks_of_step(seed, step)))

    def held_out_loss(self) -> float:
        """Return the mean loss over the predicted tokens of the held-out text (fixed masks)."""
        total, words = 0.0, 0
        for row in range(0, len(self.text.held_out), self.settings.batch_size):
            losses = self._evaluate(*self._held_out(row)).numpy()
            total += losses.sum(dtype=np.float64)
            words += losses.size
        return float(total / words)

    @property
    def step_tokens(self) -> int:
        """Tokens per step."""
        return self.settings.batch_size * self.settings.length

    def encoder_weights(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the embedding matrix and the weights of the encoder."""
        embedding = self.model.embedding.get_weights()[0] * np.float32(self.model.embedding_scale)
        return embedding[: self.text.vocabulary.size], self.model.encoder.get_weights()

    def output_weights(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the bias of the logits, and the matrix of the projection if there is one."""
        bias, projection = keras.ops.convert_to_numpy(self.model.bias), self.model.projection
        return bias, None if projection is None else projection.get_weights()[0]

    def _build(self, seed: int) -> LanguageModel:
        keras.utils.set_random_seed(seed)
        return build_model(self.mechanism, self.settings, self.text.vocabulary.size)

    def _row(self, step: int, losses: Sequence[float], seconds: float) -> dict[str, float]:
        """Evaluate the model; return the row of the history."""
        began = time.perf_counter()
        loss, held_out = float(np.mean(losses)), self.held_out_loss()
        with np.errstate(over="ignore"):
            perplexity = float(np.exp(held_out))
        if not np.isfinite([loss, perplexity]).all():
            raise DivergedError(
                f"diverged at step {step}: loss is {loss:g}, on held-out text {held_out:g}, "
                f"perplexity is {perplexity:g}"
            )
        return {
            "step": step,
            "loss": loss,
            "held_out_loss": held_out,
            "perplexity": perplexity,
            "tokens_per_second": len(losses) * self.step_tokens / seconds,
            "seconds": seconds,
            "evaluation_seconds": time.perf_counter() - began,
        }

    def _spec(self, blocks: int | None) -> list[tf.TensorSpec]:
        """Return the signature of a step: ids, predicted positions and predicted tokens."""
        inputs = self._inputs(self.text.train[:1], masks_of_held_out(0))
        return [tf.TensorSpec((blocks, *x.shape[1:]), tf.int32) for x in inputs]

    def _held_out(self, row: int) -> list[Any]:
        blocks = self.text.held_out[row : row + self.settings.batch_size]
        return self._inputs(blocks, masks_of_held_out(row))

    def _inputs(self, blocks: np.ndarray, masks: np.random.Generator) -> list[Any]:
        if self.settings.objective == "causal":
            ids = tf.constant(blocks, tf.int32)
            return [ids[:, :-1], ids[:, 1:]]
        return [*map(tf.constant, mask_tokens(blocks, self.text.vocabulary.size, masks))]

    def _train_step(self, *inputs: Any) -> Any:
        def compute() -> tuple[Any, None]:
            return tf.reduce_mean(self._losses(*inputs, training=True)), None

        return train_step(self.model, self.optimizer, compute)[0]

    def _losses(self, ids: Any, *predicted: Any, training: bool = False) -> Any:
        *at, words = predicted
        return word_losses(self.model(ids, *at, training=training), words)


def build_model(
    mechanism: str, settings: PretrainingSettings, vocabulary_size: int
) -> LanguageModel:
    """Build the language model of a run.

    Raises:
        SuiteError: If it cannot be built; the message names the mechanism.
    """
    arguments = {name: getattr(settings, name) for name in _OF_MODEL}
    with in_one_line(f"mechanism {mechanism}"):
        return language_model(mechanism, vocabulary_size, **arguments)


def pretraining_optimizer(
    settings: PretrainingSettings, variables: Sequence[Any] = ()
) -> keras.optimizers.Optimizer:
    """Make the optimizer of a run, with its schedule, clipping and weight decay.

    Args:
        settings: Training settings.
        variables: The weights. Vectors (biases, norms, gates) and embeddings are not decayed.

    Raises:
        SuiteError, UnknownNameError: For an unknown name, or an optimizer without these options.
    """
    schedule = make_schedule(
        "warmup-cosine", settings.learning_rate, 1, settings.steps, {"warmup": settings.warmup}
    )
    optimizer = make_optimizer(
        settings.optimizer,
        schedule,
        {"global_clipnorm": _CLIP},
        weight_decay=settings.weight_decay,
    )
    if settings.weight_decay:
        excluded = [
            variable
            for variable in variables
            if len(variable.shape) < 2 or variable.name == "embeddings"
        ]
        optimizer.exclude_from_weight_decay(excluded, var_names=["bias"])
    return optimizer


def generate(
    model: LanguageModel,
    prompt: str,
    vocabulary: Vocabulary,
    tokens: int = 50,
    *,
    temperature: float = 1.0,
    seed: int = 1,
) -> str:
    """Continue a text with a causal language model. Padding and unknown tokens are not generated.

    Args:
        model: The model, such as that of `make_language_model`.
        prompt: The beginning of the text.
        vocabulary: The word pieces of the model.
        tokens: Number of tokens to generate.
        temperature: Each token is drawn from `softmax(logits / temperature)`; 0 takes the most
            probable token (greedy decoding).
        seed: Seed of the draws.

    Returns:
        The prompt and its continuation.

    Raises:
        ValueError: If the prompt has no token, or `temperature` is negative or not finite.

    Example:
        >>> from relation_tf.networks import language_model
        >>> from relation_tf.tasks import Vocabulary
        >>> vocabulary = Vocabulary.train(["so good so bad"], tokens="wordpiece")
        >>> model = language_model("relation", vocabulary.size, "causal", num_layers=1, units=8)
        >>> generate(model, "so good", vocabulary, tokens=5).startswith("so good")
        True
    """
    if not 0 <= temperature < np.inf:
        raise ValueError(f"`temperature` must be 0 or more. Received: temperature={temperature}")
    ids = vocabulary.encode([prompt]).ids.tolist()
    if not ids:
        raise ValueError(f"`prompt` must contain at least one token. Received: prompt={prompt!r}")
    read = len(ids)
    pieces = {i: piece for piece, i in vocabulary.words.items()}
    special = [i for i, piece in pieces.items() if piece in (PADDING, UNKNOWN, START)]
    generator = np.random.default_rng(seed)
    for _ in range(tokens):
        outputs = model(np.array([ids]), at=np.array([[-1]]))
        logits = ops.convert_to_numpy(outputs)[0, 0].astype(float)
        logits[special] = -np.inf
        best = logits.argmax()
        if temperature:
            best = generator.choice(len(logits), p=softmax((logits - logits[best]) / temperature))
        ids.append(int(best))
    continuation = WordPiece(cleanup=False).decode(["", *(pieces[i] for i in ids[read:])])
    return f"{prompt.strip()}{continuation}"


def make_language_model(pretrained: PretrainedEncoder) -> LanguageModel:
    """Build the language model of a pre-trained causal encoder, with its weights.

    Args:
        pretrained: The encoder.

    Raises:
        SuiteError: If it is not causal, or its mechanism has changed or has other weights.
    """
    settings, path = pretrained.settings, pretrained.folder / WEIGHTS
    if settings["objective"] != "causal":
        raise SuiteError(
            f"{pretrained.folder}: must be pre-trained with --objective causal to generate "
            f"text. Received: {settings['objective']}"
        )
    layers = custom_layers(pretrained.mechanism, {})
    if custom_digest(layers, "mechanism") != settings.get("mechanism_digest"):
        raise SuiteError(
            f"{pretrained.folder}: its layer {pretrained.mechanism} has changed since the "
            "pre-training. Restore the layer, or pre-train again with another --out"
        )
    with in_one_line(f"{path}: mechanism {pretrained.mechanism}"):
        model = language_model(
            pretrained.mechanism,
            pretrained.vocabulary.size,
            "causal",
            settings["embedding_dim"],
            settings["num_layers"],
            settings["units"],
            settings["norm"],
        )
        words = pretrained.embedding / np.float32(model.embedding_scale)
        model.embedding.set_weights([words])
        model.encoder.set_weights(list(pretrained.weights))
        model.bias.assign(pretrained.bias)
        if model.projection is not None:
            model.projection.set_weights([pretrained.projection])
    return model
