"""One run: a network trained on a task until its stopping rule ends it."""

from __future__ import annotations

import contextlib
import functools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from relation_tf import networks, optimizers
from relation_tf.config.run import RunConfig, higher_is_better
from relation_tf.errors import SuiteError
from relation_tf.registry import METRICS
from relation_tf.tasks.batches import (
    evaluation_batches,
    pad_to_bucket,
    padding_share,
    plan_batches,
    widths,
)
from relation_tf.tasks.encoding import EncodedSplit, EncodedTask
from relation_tf.tasks.generated import Characters
from relation_tf.tasks.glove import Vectors
from relation_tf.tasks.scoring import score
from relation_tf.tasks.task import Task
from relation_tf.training.checkpoint import Checkpoint, State
from relation_tf.training.pretrained import PretrainedEncoder, fill, load_pretrained
from relation_tf.training.replicas import Replicas
from relation_tf.training.stopping import (
    AccuracyReached,
    BestWeights,
    SmoothedCost,
    Stop,
    StoppingRule,
)

_EVALUATION_BATCH = 1024
_FILLED = {"pretrained": "mechanism", "frozen": "contextual"}  # by a pre-trained encoder
_SEED_STATE = "seed_generator_state"  # as Keras's seed generators call it
_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}

Batch = tuple["Part", np.ndarray]
"""A part, and the numbers of some of its training rows."""

EpochCallback = Callable[[int, Mapping[str, float]], None]


@dataclass(frozen=True)
class Trained:
    """What a run gave.

    Attributes:
        history: A row an epoch.
        stop: Why and where it ended.
        predictions: (split, name) to the network's outputs for a scored or answered split, in the
            order of its rows: probabilities `(rows, classes)`, or scores `(rows,)` in [0, 1].
        metrics: For each scored name its metrics.
        seconds: Time spent: `training` (of it `input`, the making of batches), `evaluation` after
            each epoch, and the `total` with what is answered at the end; all without compilation.
        padding: The share of padding in the training batches.
        resumed: The epochs after which the run, interrupted, was taken up again.
    """

    history: list[dict[str, float]]
    stop: Stop
    predictions: Mapping[tuple[str, str], np.ndarray]
    metrics: Mapping[str, Mapping[str, float]]
    seconds: Mapping[str, float]
    padding: float
    resumed: Sequence[int] = ()


class Part:
    """A task's own network and its compiled steps; those of a group have variables in common.

    Args:
        task: The task.
        model: Its network.
        optimizer: What updates the variables.
        replicas: What trains it.
    """

    def __init__(
        self, task: EncodedTask, model: keras.Model, optimizer: Any, replicas: Replicas
    ) -> None:
        self.task = task
        self.model = model
        self._optimizer = optimizer
        self.step = replicas.sum_over_replicas(self._train_step)
        # Traced once for any number of rows and any length.
        self.train_compiled = tf.function(self.step, autograph=False).get_concrete_function(
            *self.signature
        )
        predict = replicas.gather_rows(self._predict_step)
        self._predict = tf.function(predict, autograph=False).get_concrete_function(
            self.signature[0]
        )
        self._first_step()

    @property
    def signature(self) -> tuple[tuple[tf.TensorSpec, ...], tf.TensorSpec]:
        """Of a training step: the texts, and the labels."""
        text = tf.TensorSpec((None,), tf.string)
        ids = tuple(
            text if self.task.vocabulary is None else tf.TensorSpec((None, None), tf.int32)
            for _ in self.task.task.inputs
        )
        return ids, tf.TensorSpec((None,), self.gold(self.train_rows).dtype)

    @property
    def train_rows(self) -> EncodedSplit:
        """What it is trained on."""
        return self.task.splits["train"]

    @property
    def held_out(self) -> EncodedSplit:
        """What stops its training."""
        return self.task.splits[self.task.validation]

    def pad(self, split: EncodedSplit, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        """The texts of some rows."""
        return tuple(column.pad(rows) for column in split.inputs)

    def gold(self, split: EncodedSplit) -> np.ndarray:
        """What a step is given beside the texts: a label for each row."""
        return labels_of(split)

    def train(self, ids: tuple[np.ndarray, ...], labels: np.ndarray) -> tuple[Any, Any]:
        """One step; the mean loss of the batch, and how many rows it had right (of classes)."""
        return self.train_compiled(tuple(map(tf.constant, ids)), tf.constant(labels))

    def predict(self, split: EncodedSplit) -> np.ndarray:
        """Outputs for all rows, in their order: `(rows, classes)`, or `(rows,)` of a regression."""
        classes = 1 if self.task.task.labels is None else len(self.task.task.labels)
        outputs = np.empty((len(split), classes), np.float32)
        for rows in evaluation_batches(split.lengths, _EVALUATION_BATCH):
            outputs[rows] = self._predict(tuple(map(tf.constant, self.pad(split, rows)))).numpy()
        return outputs[:, 0] if self.task.task.labels is None else outputs

    def cost(self, outputs: np.ndarray, split: EncodedSplit) -> float:
        """The mean loss over the rows of a split, of what `predict` gave for it."""
        return _cost(outputs, split)

    def score(self, outputs: np.ndarray, split: EncodedSplit) -> dict[str, float]:
        """The metrics of what `predict` gave for a split."""
        return _score(self.task, outputs, split)

    def _first_step(self) -> None:
        """Run both once: what a first call prepares is compilation. `reset` undoes the step."""
        rows = np.arange(min(2, len(self.train_rows)))
        texts = tuple(map(tf.constant, self.pad(self.train_rows, rows)))
        self.train_compiled(texts, tf.constant(self.gold(self.train_rows)[rows]))
        self._predict(texts)

    def _train_step(self, ids: tuple[Any, ...], labels: Any, share: Any) -> tuple[Any, Any]:
        """A step on some rows: their part of the batch's mean loss, and how many it had right."""
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            loss, right = self._loss(ids, labels)
            if self.model.losses:
                loss = loss + tf.add_n([tf.cast(more, loss.dtype) for more in self.model.losses])
            loss = loss * share
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        self._optimizer.apply(gradients, variables)
        return loss, tf.math.count_nonzero(right & (share > 0))

    def _loss(self, ids: tuple[Any, ...], labels: Any) -> tuple[Any, Any]:
        """The mean loss of some rows in training, and which of them are right."""
        outputs = self.model(ids[0] if len(ids) == 1 else list(ids), training=True)
        if self.task.task.labels is None:
            squares = keras.losses.MeanSquaredError(reduction="sum")(labels[:, None], outputs)
            return squares / tf.cast(tf.shape(labels)[0], squares.dtype), tf.zeros((0,), tf.bool)
        loss = keras.losses.SparseCategoricalCrossentropy(reduction="sum")(labels, outputs)
        chosen = tf.argmax(outputs, axis=1, output_type=labels.dtype)
        return loss / tf.cast(tf.shape(labels)[0], loss.dtype), chosen == labels

    def _predict_step(self, ids: tuple[Any, ...]) -> Any:
        return self.model(ids[0] if len(ids) == 1 else list(ids), training=False)


class WritingPart(Part):
    """A part whose answer is a sequence, written greedily; its loss is of the true beginning.

    What goes in are the sources and the targets, from start to end; targets are padded to one
    width, since a loop over tokens needs their number before it runs.
    """

    @property
    def signature(self) -> tuple[tuple[tf.TensorSpec, ...], tf.TensorSpec]:
        """Of a training step: sources and targets, and nothing."""
        (sources, _), nothing = super().signature
        return (sources, tf.TensorSpec((None, self._longest + 1), tf.int32)), nothing

    def pad(self, split: EncodedSplit, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        """Sources and targets of some rows."""
        sources, targets = super().pad(split, rows)
        return sources, np.pad(targets, ((0, 0), (0, self._longest + 1 - targets.shape[1])))

    @functools.cached_property
    def _longest(self) -> int:
        """The most tokens that are written: those of the longest target, the end among them."""
        splits = self.task.splits.values()
        return int(max(split.inputs[1].lengths.max(initial=2) for split in splits)) - 1

    @functools.cached_property
    def _row_losses(self) -> Any:
        """The mean loss over the tokens of each target."""

        def losses(sources: Any, targets: Any) -> Any:
            return self._losses(sources, targets, training=False)[0]

        return tf.function(losses, autograph=False).get_concrete_function(*self.signature[0])

    def gold(self, split: EncodedSplit) -> np.ndarray:
        """Nothing: the targets are among the texts."""
        return np.zeros(len(split), np.int64)

    def predict(self, split: EncodedSplit) -> np.ndarray:
        """What is written for each source, `(rows, tokens)`, 0 behind the end."""
        outputs = np.zeros((len(split), self._longest), np.int32)
        for rows in evaluation_batches(split.lengths, _EVALUATION_BATCH):
            outputs[rows] = self._predict(tuple(map(tf.constant, self.pad(split, rows)))).numpy()
        return outputs

    def cost(self, outputs: np.ndarray, split: EncodedSplit) -> float:
        """The mean over rows of the mean loss over tokens, each told what is before it."""
        total = 0.0
        for rows in evaluation_batches(split.lengths, _EVALUATION_BATCH):
            texts = map(tf.constant, self.pad(split, rows))
            total += float(tf.reduce_sum(self._row_losses(*texts)))
        return total / len(split)

    def score(self, outputs: np.ndarray, split: EncodedSplit) -> dict[str, float]:
        """The share of targets that are written without a fault."""
        targets = split.inputs[1].pad(np.arange(len(split)))[:, 1:]
        return {"exact_match": networks.exact_match(targets, outputs)}

    def _first_step(self) -> None:
        super()._first_step()
        self._row_losses(*map(tf.constant, self.pad(self.train_rows, np.arange(1))))

    def _losses(self, sources: Any, targets: Any, training: bool) -> tuple[Any, Any]:
        """Of each row the mean loss, and whether each token is the most probable one."""
        logits = self.model([sources, targets[:, :-1]], training=training)
        following = targets[:, 1:]
        kept = following != 0
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(following, logits)
        tokens = tf.math.count_nonzero(kept, axis=1, dtype=losses.dtype)
        right = tf.argmax(logits, axis=2, output_type=tf.int32) == following
        losses = tf.reduce_sum(tf.where(kept, losses, 0.0), axis=1) / tokens
        return losses, tf.reduce_all(right | ~kept, axis=1)

    def _loss(self, ids: tuple[Any, ...], labels: Any) -> tuple[Any, Any]:
        sources, targets = ids
        losses, right = self._losses(sources, targets, training=True)
        return tf.reduce_mean(losses), right

    def _predict_step(self, ids: tuple[Any, ...]) -> Any:
        """As `greedy_decode` does, in one graph; the number of steps is the longest target's."""
        targets = self.task.targets
        assert targets is not None  # of a task that is written
        sources = ids[0]
        state = self.model.initial_state(sources, self._longest)
        last = tf.fill(tf.shape(sources)[:1], targets.start)
        never = tf.constant([0, targets.start])
        written = []
        for _ in range(self._longest):
            logits, state, _ = self.model.step(last[:, None], state)
            barred = tf.reduce_any(tf.range(targets.size)[:, None] == never, axis=1)
            best = tf.argmax(tf.where(barred, -np.inf, logits[:, 0]), axis=1, output_type=tf.int32)
            last = tf.where((last == targets.end) | (last == 0), 0, best)
            written.append(last)
        return tf.stack(written, axis=1)


@dataclass
class CompiledNetwork:
    """A network and its compiled steps, kept for all seeds of a task and a method.

    Building costs tens of milliseconds and tracing a second; a small run's arithmetic costs less.
    So a seed builds a network only to draw its start values, which are then written into this one.

    Attributes:
        parts: For each task of a group its network and steps; a task alone is one part.
        model: All parts as one: it holds the variables.
    """

    config: RunConfig
    task: EncodedTask
    vectors: Vectors | None = None
    quietly: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext  # as XLA compiles
    replicas: Replicas = field(default_factory=Replicas)
    match: networks.Match | None = field(init=False, default=None)
    parts: list[Part] = field(init=False)
    model: keras.Model = field(init=False)
    compile_seconds: float = field(init=False)

    def __post_init__(self) -> None:
        if keras.backend.backend() != "tensorflow":
            raise SuiteError(
                "runs need the TensorFlow backend (layers and networks work on all three). "
                f"Received: KERAS_BACKEND={keras.backend.backend()}"
            )
        start = time.perf_counter()
        members = self.task.members
        if self.config.size is not None:
            self.match = self._match(self.config.size)
        models = self._build(self.config.seed)
        self.model = networks.as_one(models)
        steps = sum(-(-len(each.splits["train"]) // self.config.batch_size) for each in members)
        with self.replicas.scope():
            self._optimizer = _make_optimizer(self.config, steps)
            self._optimizer.build(self.model.trainable_variables)
        self._fresh_optimizer = _values(self._optimizer.variables)
        self._part_seeds = self.replicas.split_seeds(
            [state for state in self.model.variables if state.name == _SEED_STATE]
        )
        make = WritingPart if self.task.task.written else Part
        self.parts = [
            make(member, model, self._optimizer, self.replicas)
            for member, model in zip(members, models, strict=True)
        ]
        self._shapes: set[tuple[int, ...]] = set()
        if self.xla:
            (part,) = self.parts
            step = tf.function(part.step, autograph=False, jit_compile=True)
            self._train_by_xla = step.get_concrete_function(*part.signature)
        self.compile_seconds = time.perf_counter() - start

    @property
    def xla(self) -> bool:
        """Whether XLA compiles the training step, which is that of a whole batch alone.

        Op determinism holds for TensorFlow's own operations, not for what XLA makes of them.
        """
        if not self.config.xla:
            return False
        (part,) = self.parts
        return len(part.train_rows) >= self.config.batch_size and not op_determinism()

    def prepare(self, batches: Sequence[Batch]) -> None:
        """Let XLA compile what shapes of these training batches are new, outside of any epoch.

        Raises:
            SuiteError: Where it cannot.
        """
        if not self.xla:
            return
        start = time.perf_counter()
        (part,) = self.parts
        whole = [rows for _, rows in batches if len(rows) == self.config.batch_size]
        shapes = widths(part.train_rows.lengths, whole, buckets=True)
        new = sorted(set(map(tuple, shapes.T.tolist())) - self._shapes)
        if new:
            self._compile_by_xla(part, new)
            self._shapes.update(new)
            self.compile_seconds += time.perf_counter() - start

    def _compile_by_xla(self, part: Part, shapes: Sequence[tuple[int, ...]]) -> None:
        """Take a step of each shape, and then back what it changed."""
        size = self.config.batch_size
        labels = part.gold(part.train_rows)[:size]
        before = self.state()
        try:
            with self.quietly():
                for shape in shapes:
                    ids = tuple(np.ones((size, width), np.int32) for width in shape)
                    self.train(part, ids, labels)
        except tf.errors.OpError as error:
            raise SuiteError(
                f"method {self.config.method}: XLA cannot compile its training step "
                f"({_unsupported(error)}). Received: xla=True"
            ) from error
        finally:
            self.restore_state(before)

    def reset(self, seed: int) -> None:
        """Start over: the weights and random state that a new network of this seed would have."""
        new = networks.as_one(self._build(seed))
        self.restore_state([*new.variables, *self._fresh_optimizer])

    def train(self, part: Part, ids: tuple[np.ndarray, ...], labels: np.ndarray) -> tuple[Any, Any]:
        """One step of a part's task; as `Part.train`."""
        if self.xla and len(labels) == self.config.batch_size:
            return self._train_by_xla(tuple(map(tf.constant, ids)), tf.constant(labels))
        return part.train(ids, labels)

    def weights(self) -> list[np.ndarray]:
        """A copy of all variables."""
        return _values(self.model.variables)

    def restore(self, weights: list[np.ndarray]) -> None:
        """Take back what `weights` gave."""
        self._assign(self.model.variables, weights)

    def state(self) -> list[np.ndarray]:
        """A copy of all variables, those of the optimizer too."""
        return _values([*self.model.variables, *self._optimizer.variables])

    def state_matches(self, state: list[np.ndarray], kept: list[np.ndarray] | None) -> bool:
        """Whether `restore_state` and `restore` can take these back."""
        variables = [*self.model.variables, *self._optimizer.variables]
        pairs = [(variables, state), (self.model.variables, kept or self.weights())]
        return all(
            len(own) == len(values)
            and all(
                (x.shape, x.dtype) == (y.shape, y.dtype.name)
                for x, y in zip(own, values, strict=True)
            )
            for own, values in pairs
        )

    def restore_state(self, state: Sequence[Any]) -> None:
        """Take back what `state` gave."""
        self._assign([*self.model.variables, *self._optimizer.variables], state)

    def _assign(self, variables: Sequence[Any], values: Sequence[Any]) -> None:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
        self._part_seeds()

    def _build(self, seed: int) -> list[keras.Model]:
        """A network for each task, with the start values of a seed."""
        keras.utils.set_random_seed(seed)
        settings = self._settings()
        if self.match is not None:
            settings = networks.with_size(self.match, settings)
        with self.replicas.scope(), dtype_policy(self.config.precision):
            if self.task.task.members:
                models = networks.multi_task_networks(self.config.mechanism, **settings)
            elif self.task.task.written:
                return [self._encoder_decoder()]
            else:
                models = [self._builder()(self.config.mechanism, **settings)]
        for model in models:
            # The answer: probabilities rounded to 8 bits give no loss worth the name.
            model.layers[-1].dtype_policy = "float32"
        source = _start_of(self.config, seed)
        if source is not None:
            fill(models[0], source, layer=_FILLED[self.config.encoder_weights])
        if self.vectors is not None:
            embedding = models[0].get_layer("embedding")
            embedding.set_weights([self.vectors.fill(embedding.get_weights()[0])])
        return models

    def _encoder_decoder(self) -> keras.Model:
        """A network that writes, of the sizes of the task's characters."""
        vocabulary, targets = self.task.vocabulary, self.task.targets
        assert vocabulary is not None  # of a task that is written
        assert targets is not None
        model = _encoder_decoder(self.config, vocabulary.size, targets.size)
        model.build()
        return model

    def _match(self, size: int) -> networks.Match:
        config = self.config
        return networks.match_parameters(
            config.mechanism, size, config.sized_by, build=self._builder(), **self._settings()
        )

    def _builder(self) -> Callable[..., keras.Model]:
        task = self.task.task
        if len(task.inputs) == 1:
            return networks.sequence_classifier
        return networks.pair_regressor if task.labels is None else networks.pair_classifier

    def _settings(self) -> dict[str, Any]:
        task, vocabulary = self.task.task, self.task.vocabulary
        settings = {
            **_network_settings(self.config),
            "vocabulary_size": None if vocabulary is None else vocabulary.size,
        }
        source = _start_of(self.config)
        if source is not None:
            settings |= _read_by_the_mechanism(self.config, source)
        if task.members:
            settings |= {
                "heads": [_head(member) for member in task.members],
                "sharing": self.config.sharing,
                "adversary_weight": self.config.adversary_weight,
                "orthogonality_weight": self.config.orthogonality_weight,
            }
        elif task.labels is not None:
            settings["num_classes"] = len(task.labels)
        return settings


def _encoder_decoder(config: RunConfig, sources: int, targets: int) -> keras.Model:
    options = {
        "source_vocabulary": sources,
        "target_vocabulary": targets,
        "dropout": config.dropout,
        **config.options,
    }
    entry = networks.find_mechanism(config.mechanism)
    return networks.make_layer(entry, config.units, config.dropout, options)


def _start_of(config: RunConfig, seed: int | None = None) -> PretrainedEncoder | None:
    """The encoder that a run starts from, if it does, or that another seed would."""
    if config.encoder_weights == "random":
        return None
    seed = config.seed if seed is None else seed
    source = load_pretrained(str(config.pretrained), config.mixes, seed)
    learned = source.settings.get("mechanism_digest")
    if config.custom_layer is not None and learned != config.mechanism_digest:
        raise SuiteError(
            f"{source.folder}: {config.mixes} has changed since it was pre-trained. Received: "
            f"source {config.mechanism_digest}, pre-trained with {learned}"
        )
    return source


def _read_by_the_mechanism(config: RunConfig, source: PretrainedEncoder) -> dict[str, Any]:
    """The settings of a network whose mechanism reads contextual embeddings, if it does."""
    if config.encoder_weights != "frozen":
        return {}
    encoder = source.network
    if config.embedding_dim != encoder["embedding_dim"]:
        raise SuiteError(
            f"key 'embedding_dim': expected {encoder['embedding_dim']}, as in {config.pretrained}. "
            f"Received: {config.embedding_dim}"
        )
    with dtype_policy(config.precision):
        return {"contextual": networks.encoder(units=encoder["units"], **encoder["options"])}


def _head(task: Task) -> networks.TaskHead:
    classes = None if task.labels is None else len(task.labels)
    return networks.TaskHead(task.name, len(task.inputs), classes)


def train_run(
    network: CompiledNetwork,
    config: RunConfig,
    on_epoch: EpochCallback | None = None,
    checkpoint: Checkpoint | None = None,
) -> Trained:
    """Train from the start values of the run's seed, and answer all that is scored or answered.

    Args:
        network: The compiled network of the run's task and method.
        config: The run.
        on_epoch: Told each epoch (from 1) and its history row.
        checkpoint: Where the run's state is kept; one that is there is gone on from, to the same
            end.
    """
    network.reset(config.seed)
    rule, watched = _rule(config, network.task.task)
    state = checkpoint.read() if checkpoint is not None else None
    history, resumed = _resume(state, network, rule)
    clock = _Clock(network, state.seconds if state is not None and history else 0.0)
    stop: Stop | None = None
    padding = 0.0
    while stop is None:
        row, padding = _epoch(network, config, history)
        *values, spent = network.replicas.broadcast_from_chief(*row.values(), clock.seconds())
        row = dict(zip(row, values, strict=True))
        history.append(row)
        epoch = len(history)
        if on_epoch is not None:
            on_epoch(epoch, row)
        stop = rule.update(epoch, row[watched], network.weights)
        limit = _limit(config, epoch, spent)
        if stop is None and limit is not None:
            stop = rule.finish(epoch, limit)
        if stop is None and checkpoint is not None and checkpoint.due():
            spent = clock.seconds()
            checkpoint.write(
                State(history, spent, rule.state(), network.state(), rule.kept, resumed)
            )
            clock.set_to(spent)  # what was written is no part of the run
    if stop.weights is not None:
        network.restore(stop.weights)
    predictions, metrics = _answer(network)
    columns = {"training": "seconds", "input": "input_seconds", "evaluation": "evaluation_seconds"}
    seconds = {name: sum(row[column] for row in history) for name, column in columns.items()}
    seconds["total"] = clock.seconds()
    return Trained(history, stop, predictions, metrics, seconds, padding, resumed)


def _resume(
    state: State | None, network: CompiledNetwork, rule: StoppingRule
) -> tuple[list[dict[str, float]], list[int]]:
    """The history so far, and the epochs after which the run was taken up again."""
    if state is None or not network.state_matches(state.variables, state.kept):
        return [], []
    network.restore_state(state.variables)
    rule.restore(state.rule, state.kept)
    return list(state.history), [*state.resumed, len(state.history)]


class _Clock:
    """The seconds since it was made, without those in which the network was compiled.

    Args:
        network: The network.
        spent: Seconds that were spent before.
    """

    def __init__(self, network: CompiledNetwork, spent: float = 0.0) -> None:
        self._network = network
        self._start = self._now() - spent

    def _now(self) -> float:
        return time.perf_counter() - self._network.compile_seconds

    def seconds(self) -> float:
        return self._now() - self._start

    def set_to(self, seconds: float) -> None:
        """Leave out what has passed since it gave these."""
        self._start = self._now() - seconds


def _rule(config: RunConfig, task: Task) -> tuple[StoppingRule, str]:
    """The stopping rule, and the column of the history that it is told."""
    if config.stopping == "accuracy_reached":
        watched = {"validation": "val_accuracy", "running": "running_accuracy"}[
            config.watched_accuracy
        ]
        return AccuracyReached(config.target_accuracy, config.target_epochs), watched
    higher = higher_is_better(config.monitor, task.name, task.metrics)
    kind = {"smoothed_early_stopping": SmoothedCost, "early_stopping": BestWeights}[config.stopping]
    return kind(config.patience, higher), config.monitor


def _limit(config: RunConfig, epoch: int, seconds: float) -> str | None:
    """The limit that a run has come to, in words."""
    if epoch >= config.epochs:
        return f"{config.epochs} epochs"
    if config.time_limit is not None and seconds >= config.time_limit:
        return f"{config.time_limit:g} s"
    return None


def _epoch(
    network: CompiledNetwork, config: RunConfig, history: list[dict[str, float]]
) -> tuple[dict[str, float], float]:
    """Train an epoch and evaluate: its row of the history, and the share of padding."""
    epoch = len(history) + 1
    clock = _Clock(network)
    trained = train_epoch(network, config, epoch)
    seconds = clock.seconds()
    ended = time.perf_counter()
    outputs = [part.predict(part.held_out) for part in network.parts]
    # Of a group's tasks the means: each counts as much as any other.
    costs = [
        part.cost(own, part.held_out) for own, part in zip(outputs, network.parts, strict=True)
    ]
    row = {"epoch": epoch, "loss": trained.loss, "val_loss": float(np.mean(costs))}
    scores = [
        part.score(own, part.held_out) for own, part in zip(outputs, network.parts, strict=True)
    ]
    for name in network.task.task.metrics:
        row[f"val_{name}"] = float(np.mean([own[name] for own in scores]))
    if config.stopping == "accuracy_reached":
        row["accuracy"] = trained.accuracy
        (part,) = network.parts
        rows = len(part.train_rows), len(part.held_out)
        row["running_accuracy"] = _running(history, row, *rows)
    row["seconds"] = seconds
    row["input_seconds"] = trained.input_seconds
    row["evaluation_seconds"] = time.perf_counter() - ended
    return row, trained.padding


def _running(
    history: list[dict[str, float]], row: dict[str, float], train: int, held_out: int
) -> float:
    """The accuracy over all training and validation rows of all epochs so far.

    The original program's metric was never reset, so that this is what its rule was told.
    """
    own = (row["accuracy"] * train + row["val_accuracy"] * held_out) / (train + held_out)
    before = history[-1]["running_accuracy"] if history else 0.0
    return before + (own - before) / (len(history) + 1)


def check_network(config: RunConfig) -> None:
    """Build a small network of a run's method.

    Raises:
        SuiteError: Where it cannot be; the message names the method, the argument and its value.
    """
    settings = _network_settings(config)
    if config.size is not None:
        value = 8 * networks.size_step(config.mechanism, config.sized_by, config.options)
        settings = networks.with_size(
            networks.Match(config.sized_by, value, 0, config.size), settings
        )
    try:
        if networks.find_mechanism(config.mechanism).output_type == "sequence":
            _encoder_decoder(config, 4, 4).build()
            return
        source = _start_of(config)
        if source is not None:
            settings |= _read_by_the_mechanism(config, source)
        size = 2 if source is None else source.vocabulary.size
        with dtype_policy(config.precision):
            model = networks.sequence_classifier(
                config.mechanism, vocabulary_size=size, num_classes=2, **settings
            )
        if source is not None:
            fill(model, source, layer=_FILLED[config.encoder_weights])
    except (TypeError, ValueError, RuntimeError) as error:
        raise SuiteError(f"method {config.method}: {' '.join(str(error).split())}") from error
    finally:
        keras.backend.clear_session()


def words_of(task: Task, outputs: np.ndarray, targets: Characters | None = None) -> np.ndarray:
    """Outputs as the task's label words, as scores in its own range, or as what is written."""
    if targets is not None:
        return np.array(targets.decode(outputs), dtype=object)
    if task.labels is None:
        # A diverged network gives NaN; its score says so, and the file has to hold numbers.
        return np.clip(np.nan_to_num(outputs), 0.0, 1.0) * task.maximum
    return np.array(task.labels)[outputs.argmax(axis=1)]


@dataclass(frozen=True)
class TrainedEpoch:
    """What the training rows of an epoch gave; `accuracy` is of outputs before each step."""

    loss: float
    accuracy: float
    input_seconds: float
    padding: float


def train_epoch(network: CompiledNetwork, config: RunConfig, epoch: int) -> TrainedEpoch:
    """Take the steps of one epoch, from 1."""
    start = time.perf_counter()
    batches = plan_epoch(network.parts, config, epoch)
    own = [[rows for of, rows in batches if of is part] for part in network.parts]
    lengths = [part.train_rows.lengths for part in network.parts]
    padding = padding_share(*zip(lengths, own, strict=True), buckets=network.xla)
    input_seconds = time.perf_counter() - start
    network.prepare(batches)
    steps = []
    for part, rows in batches:
        start = time.perf_counter()
        ids = part.pad(part.train_rows, rows)
        gold = part.gold(part.train_rows)[rows]
        if network.xla:
            ids = tuple(map(pad_to_bucket, ids))
        input_seconds += time.perf_counter() - start
        steps.append(network.train(part, ids, gold))
    # One read at the end, so that no step waits for the one before it.
    losses = [float(loss) for loss, _ in steps]
    weights = [len(rows) for _, rows in batches]
    # A diverged network has nothing right, though it may name a class.
    right = sum(
        int(hits) for loss, (_, hits) in zip(losses, steps, strict=True) if np.isfinite(loss)
    )
    return TrainedEpoch(
        loss=float(np.average(losses, weights=weights)),
        accuracy=right / sum(weights),
        input_seconds=input_seconds,
        padding=padding,
    )


def plan_epoch(parts: Sequence[Part], config: RunConfig, epoch: int) -> list[Batch]:
    """The batches of an epoch, from 1: of all tasks of a group, in an order drawn at random.

    So a task has as many batches as its rows make.
    """
    batches = [
        (part, rows)
        for part in parts
        for rows in plan_batches(
            part.train_rows.lengths, config.batch_size, config.seed, epoch - 1, config.batching
        )
    ]
    if len(parts) == 1:
        return batches
    order = np.random.default_rng([config.seed, epoch - 1, len(parts)]).permutation(len(batches))
    return [batches[i] for i in order]


def _cost(outputs: np.ndarray, split: EncodedSplit) -> float:
    """The mean loss over rows, as Keras computes it."""
    labels = labels_of(split)
    if outputs.ndim == 1:
        return float(np.mean((outputs.astype(np.float64) - labels) ** 2))
    chosen = outputs[np.arange(len(labels)), labels].astype(np.float64)
    return float(np.mean(-np.log(np.clip(chosen, 1e-7, 1 - 1e-7))))


def _score(task: EncodedTask, outputs: np.ndarray, split: EncodedSplit) -> dict[str, float]:
    labels = labels_of(split)
    if not np.isfinite(outputs).all():
        # A diverged network has no predictions.
        return {metric: METRICS[metric].worst for metric in task.task.metrics}
    if task.task.labels is None:
        gold = labels * task.task.maximum
    else:
        gold = np.array(task.task.labels)[labels]
    # All scored splits of a task have its metrics, and its validation rows are scored as they are.
    return score(task.task, next(iter(task.task.scored)), words_of(task.task, outputs), gold)


def labels_of(split: EncodedSplit) -> np.ndarray:
    """The labels of a split that has some."""
    if split.labels is None:
        raise ValueError("this split has no labels")
    return split.labels


def _unsupported(error: tf.errors.OpError) -> str:
    """What XLA says of an operation that it does not have; the names of the graph say nothing."""
    first = str(error).strip().partition("\n")[0]
    return re.sub(r" compatible with node|\{\{node .*?\}\}|graph \S+\] ", "", first).strip()


def _values(variables: list[Any]) -> list[np.ndarray]:
    """Copies: what a backend hands out may be the variable's own memory."""
    return [np.array(keras.ops.convert_to_numpy(variable)) for variable in variables]


def op_determinism() -> bool:
    """Whether TensorFlow's operations are deterministic in this process."""
    # TensorFlow turns it on in public and tells it to itself alone.
    from tensorflow.python.framework.config import is_op_determinism_enabled

    return is_op_determinism_enabled()


def _answer(
    network: CompiledNetwork,
) -> tuple[dict[tuple[str, str], np.ndarray], dict[str, dict[str, float]]]:
    group = network.task.task
    predictions: dict[tuple[str, str], np.ndarray] = {}
    metrics: dict[str, dict[str, float]] = {}
    for part in network.parts:
        task, splits = part.task.task, part.task.splits
        for name, split in task.scored.items():
            outputs = predictions[group.split_of(task, split), name] = part.predict(splits[split])
            metrics[name] = part.score(outputs, splits[split])
        for name, split in task.answered.items():
            if split in splits:
                outputs = part.predict(splits[split])
                predictions[group.split_of(task, split), name] = outputs
    return predictions, metrics


@contextlib.contextmanager
def dtype_policy(precision: str) -> Iterator[None]:
    """Keras's policy while a network is built; its layers keep it."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(_POLICIES[precision])
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _network_settings(config: RunConfig) -> dict[str, Any]:
    names = (
        "embedding_dim", "units", "hidden_units", "hidden_activation", "dropout", "options",
        "compute", "network", "initializer", "embedding_initializer",
    )  # fmt: skip
    return {name: getattr(config, name) for name in names}


def _make_optimizer(config: RunConfig, steps_per_epoch: int) -> keras.optimizers.Optimizer:
    learning_rate: Any = config.learning_rate
    if config.learning_rate_schedule != "constant":
        learning_rate = optimizers.FCSRDecay(
            config.learning_rate,
            config.epochs,
            steps_per_epoch,
            compounding=config.learning_rate_schedule == "fcsr-compounding",
        )
    return optimizers.Adam(
        learning_rate,
        embedding_updates=config.embedding_updates,
        weight_decay=config.weight_decay,
    )
