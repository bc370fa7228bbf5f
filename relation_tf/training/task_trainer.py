"""Train on a task, or on the tasks of a group together, until a stopping rule ends the run.

The shared layers of a group can also be trained on the other tasks and then frozen.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby, islice
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from relation_tf import networks
from relation_tf.config.run import RunConfig, dropout_seed_of, seed_of
from relation_tf.errors import DivergedError, SuiteError, one_line
from relation_tf.networks.next_token import state_bytes
from relation_tf.tasks.batches import pad_to_bucket, padding_share, plan_batches
from relation_tf.tasks.encoding import EncodedTask
from relation_tf.tasks.glove import Vectors
from relation_tf.tasks.metrics import no_score
from relation_tf.tasks.task import Task, joined
from relation_tf.training.building import build_networks, build_small_network, find_match
from relation_tf.training.callbacks import END_OF_CALLBACK, Callbacks, without_times
from relation_tf.training.optimizing import make_optimizer, make_schedule
from relation_tf.training.session import check_backend, op_determinism
from relation_tf.training.steps import (
    Arrays,
    SequenceSteps,
    TaskSteps,
    TokenClassificationSteps,
    are_finite,
    score_outputs,
)
from relation_tf.training.stopping import Stop, check_losses, make_rule, records_accuracy
from relation_tf.training.trainer import (
    Checkpoint,
    Clock,
    Estimate,
    ProgressCallback,
    State,
    SuiteTrainer,
    TrainingResult,
    trace,
)

_STEPS_AT_ONCE = 32  # of one call: more are not faster and need more memory
_TIMED_STEPS = 12  # steps to estimate the time of an epoch

Batch = tuple[TaskSteps, np.ndarray]
"""Steps of a task, and row numbers of a batch."""


class TaskTrainer(SuiteTrainer):
    """Trainer for a task, or for the tasks of a group together.

    Args:
        config: A run of the task and the method.
        task: The task.
        vectors: Word vectors for the embedding.

    Attributes:
        parts: Network and steps of each task.
        model: One model with the variables of all networks.
        epochs_before: Number of epochs of earlier trainings of the same run.
    """

    epochs_before: int = 0

    def __init__(
        self, config: RunConfig, task: EncodedTask, vectors: Vectors | None = None
    ) -> None:
        check_backend()
        make_rule(config)  # check the options first
        start = time.perf_counter()
        self.config, self.task, self.vectors = config, task, vectors
        self.match = find_match(config, task)
        models = self._networks(config.seed_of("init"))
        rows = [len(member.splits["train"]) for member in task.members]
        self._steps = sum(-(-count // config.batch_size) for count in rows)
        # XLA compiles only full batches. Its operations are not deterministic.
        self.xla = config.xla and max(rows) >= config.batch_size and not op_determinism()
        optimizer = _make_optimizer(config, self._steps)
        if len(models) > 1 and optimizer.gradient_accumulation_steps:
            raise SuiteError(
                "key 'optimizer_options': gradient_accumulation_steps must not be set for a group: "
                "gradients of layers that only some tasks have would be lost"
            )
        super().__init__(networks.as_one(models), optimizer)
        kind = _steps(task.task)
        # The steps of a group take turns, and XLA compiles a step.
        loop = len(models) == 1 and not self.xla
        self.parts = [
            kind(member, model, optimizer, loop)
            for member, model in zip(task.members, models, strict=True)
        ]
        if self.xla:
            (part,) = self.parts
            self._train_by_xla = trace(part.step, *part.signature, jit_compile=True)
        if task.vocabulary is not None:
            self.tokens = sum(part.tokens for part in self.parts)
        self.compile_seconds = time.perf_counter() - start

    @classmethod
    def try_build(cls, config: RunConfig) -> None:
        """Build a small network of a run's method, its optimizer and its stopping rule."""
        build_small_network(config)
        _make_optimizer(config, 1)
        make_rule(config)

    def run(
        self,
        seed: int,
        on_progress: ProgressCallback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> TrainingResult:
        """Train until the stopping rule ends the run, and predict the dev and test sets.

        Raises:
            DivergedError: If the loss of an epoch or an output is not finite.
        """
        vary = self.config.vary
        order = seed_of("order", vary, seed)
        self.reset(seed_of("init", vary, seed), dropout_seed_of(vary, seed))
        rule, column = make_rule(self.config)
        state = self.resume(checkpoint) or State()
        history, resumed = list(state.history), list(state.resumed)
        if history:
            rule.restore(state.rule, state.kept)
            resumed.append(len(history))
        clock = Clock(state.seconds)
        stop: Stop | None = None
        padding = 0.0
        callbacks = Callbacks(self, self._steps, clock)
        callbacks.call("on_train_begin", {})
        while stop is None:
            callbacks.call("on_epoch_begin", len(history), {})
            row, padding = self._epoch(order, history)
            spent = clock.seconds()
            history.append(row)
            epoch = len(history)
            if on_progress is not None:
                on_progress(epoch, row)
                clock.set_to(spent)  # do not count the time of callers
            if column not in row:
                raise SuiteError(
                    f"stopping {self.config.stopping!r} needs the column {column!r}, but the "
                    f"history has {', '.join(row)}"
                )
            try:
                check_losses(row, self.epochs_before)
            except DivergedError:
                callbacks.call("on_epoch_end", epoch - 1, without_times(row))
                callbacks.train_end(row)
                raise
            stop = rule.update(epoch, row[column], self.weights)  # the evaluated weights
            callbacks.call("on_epoch_end", epoch - 1, without_times(row))  # can change weights
            limit = END_OF_CALLBACK if callbacks.ends else _limit(self.config, epoch, spent)
            if stop is None and limit is not None:
                stop = rule.finish(epoch, limit)
            if stop is None and checkpoint is not None and checkpoint.due():
                spent = clock.seconds()
                checkpoint.write(
                    State(history, spent, rule.state(), self.state(), rule.kept, resumed)
                )
                clock.set_to(spent)  # do not count the time for writing
        if stop.weights is not None:
            self.restore(stop.weights)
        callbacks.train_end(history[-1])
        predictions, metrics, unscored = self.predict()
        facts = {**self._facts, **({"unscored": unscored} if unscored else {})}
        if unscored:
            self.warn(f"{self.task.task.name}: {self.config.method} has {no_score(unscored)}")
        seconds = self._seconds(history, clock.seconds())
        return TrainingResult(history, seconds, stop, predictions, metrics, padding, resumed, facts)

    @cached_property
    def _facts(self) -> dict[str, Any]:
        """The state size of the causal form for the longest text, if tokens are classified."""
        config, task = self.config, self.task
        if not task.task.token_labels:
            return {}
        widths = {name: getattr(config, name) for name in ("units", "embedding_dim", "options")}
        if self.match is not None:
            widths = networks.with_size(self.match, widths)
        longest = int(task.splits["train"].lengths.max())
        return {"state_bytes": state_bytes(config.mechanism, max_length=longest, **widths)}

    def train_epoch(self, seed: int, epoch: int) -> dict[str, float]:
        """Train one epoch, counted from 1, with batches in the order of a seed.

        Returns:
            `loss`, `accuracy` of the outputs before each step, `input_seconds`, and the share of
            `padding`.
        """
        start = time.perf_counter()
        batches = self.plan_epoch(seed, epoch)
        batches_of_part = [[rows for of, rows in batches if of is part] for part in self.parts]
        lengths = [part.train_rows.lengths for part in self.parts]
        padding = padding_share(*zip(lengths, batches_of_part, strict=True), buckets=self.xla)
        input_seconds = time.perf_counter() - start
        losses, hits = [], 0
        for part, planned in groupby(batches, key=lambda batch: batch[0]):
            start = time.perf_counter()
            while made := [self._batch(part, rows) for _, rows in islice(planned, _STEPS_AT_ONCE)]:
                input_seconds += time.perf_counter() - start
                of_steps, right = self.train(part, made)
                losses += of_steps.tolist()
                hits += int(right.sum())
                start = time.perf_counter()
        weights = [len(rows) for _, rows in batches]
        return {
            "loss": float(np.average(losses, weights=weights)),
            "accuracy": hits / sum(weights),
            "input_seconds": input_seconds,
            "padding": padding,
        }

    def plan_epoch(self, seed: int, epoch: int) -> list[Batch]:
        """Return the batches of an epoch, counted from 1; batches of a group are shuffled."""
        size, batching = self.config.batch_size, self.config.batching
        batches = [
            (part, rows)
            for part in self.parts
            for rows in plan_batches(part.train_rows.lengths, size, seed, epoch - 1, batching)
        ]
        if len(self.parts) == 1:
            return batches
        generator = np.random.default_rng([seed, epoch - 1, len(self.parts)])
        return [batches[i] for i in generator.permutation(len(batches))]

    def train(self, part: TaskSteps, batches: Sequence[Arrays]) -> tuple[np.ndarray, np.ndarray]:
        """Take training steps of a task, see `TaskSteps.train`."""
        if not self.xla:
            return part.train(batches)
        taken = [
            self._train_by_xla(tuple(map(tf.constant, ids)), tf.constant(labels))
            if len(labels) == self.config.batch_size
            else part.train([(ids, labels)])
            for ids, labels in batches
        ]
        losses, right = zip(*taken, strict=True)
        return np.concatenate([*map(np.ravel, losses)]), np.concatenate([*map(np.ravel, right)])

    def estimate(self) -> Estimate:
        """Measure steps of different widths, an evaluation, and what each run does once."""
        batches = self.plan_epoch(self.config.seed_of("order"), 1)
        tokens = [part.train_rows.lengths[:, rows].max(axis=1).sum() for part, rows in batches]
        order = np.argsort(tokens, kind="stable")
        count = min(_TIMED_STEPS, len(order))
        chosen = order[np.linspace(0, len(order) - 1, count).round().astype(int)]
        seconds = []
        # XLA compiles the step of each new width: the first round is not counted.
        for part, rows in (batches[number] for number in [*chosen] * (1 + self.xla)):
            start = time.perf_counter()
            self.train(part, [self._batch(part, rows)])
            seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
        for part in self.parts:
            part.predict(part.held_out)
        epoch = float(np.mean(seconds[-count:])) * len(batches) + time.perf_counter() - start
        start = time.perf_counter()
        self.reset(self.config.seed_of("init"))
        self.predict()
        once = time.perf_counter() - start
        return Estimate(epoch, once)

    def predict(
        self,
    ) -> tuple[dict[tuple[str, str], np.ndarray], dict[str, dict[str, float]], dict[str, str]]:
        """Predict all scored and answered splits.

        A layer can refuse longer texts than those of the training. Then further test sets of the
        task (`Task.diagnostics`) have no score.

        Returns:
            The outputs by (split, name), the metrics of each scored name, see `TrainingResult`, and
            the reason for each further test set without a score.

        Raises:
            DivergedError: If an output of another set is not finite.
        """
        group = self.task.task
        predictions: dict[tuple[str, str], np.ndarray] = {}
        metrics: dict[str, dict[str, float]] = {}
        unscored: dict[str, str] = {}
        for part in self.parts:
            task, splits = part.task.task, part.task.splits
            for name, split in [*task.scored.items(), *task.answered.items()]:
                if split not in splits:
                    continue
                try:
                    outputs = part.predict(splits[split])
                except tf.errors.InvalidArgumentError as error:  # such as a wrong shape
                    if name not in task.diagnostics or name not in task.scored:
                        raise
                    longest, line = int(splits[split].inputs[0].lengths.max()), one_line(error)
                    unscored[name] = f"cannot predict texts of up to {longest:,} tokens ({line})"
                    continue
                if are_finite(outputs):
                    predictions[group.split_of(task, split), name] = outputs
                elif name in task.diagnostics and name in task.scored:
                    unscored[name] = "outputs that are not finite"
                else:
                    raise DivergedError(f"diverged: outputs for {name} are not finite")
            for name, split in part.task.scored.items():
                if name not in unscored:
                    outputs = predictions[group.split_of(task, split), name]
                    metrics[name] = part.score(outputs, splits[split], name)
        return predictions, metrics, unscored

    def _networks(self, seed: int) -> list[keras.Model]:
        return build_networks(self.config, self.task, seed, self.match, self.vectors)

    def _build(self, seed: int) -> keras.Model:
        return networks.as_one(self._networks(seed))

    def _batch(
        self, part: TaskSteps, rows: np.ndarray
    ) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Return the texts and the labels of some training rows."""
        ids = part.pad(part.train_rows, rows)
        if self.xla:
            ids = tuple(map(pad_to_bucket, ids))
        return ids, part.labels(part.train_rows)[rows]

    def _epoch(
        self, seed: int, history: Sequence[Mapping[str, float]]
    ) -> tuple[dict[str, float], float]:
        """Train an epoch and evaluate; return the history row and the share of padding."""
        began = time.perf_counter()
        trained = self.train_epoch(seed, len(history) + 1)
        ended = time.perf_counter()
        outputs = [(part, part.predict(part.held_out)) for part in self.parts]
        # The values of a group are means over its tasks.
        finite = all(are_finite(values) for _, values in outputs)
        losses = [part.loss(values, part.held_out) for part, values in outputs]
        row = {
            "epoch": len(history) + 1,
            "loss": trained["loss"],
            "val_loss": float(np.mean(losses)) if finite else math.nan,
        }
        scores = [part.score(values, part.held_out) for part, values in outputs] if finite else []
        for name in self.task.task.metrics:
            row[f"val_{name}"] = float(np.mean([values[name] for values in scores] or math.nan))
        if records_accuracy(self.config) and len(self.parts) == 1:
            row["accuracy"] = trained["accuracy"]
            row["running_accuracy"] = self._running_accuracy(history, row)
        row["seconds"] = ended - began
        row["input_seconds"] = trained["input_seconds"]
        row["evaluation_seconds"] = time.perf_counter() - ended
        return row, trained["padding"]

    def _running_accuracy(
        self, history: Sequence[Mapping[str, float]], row: Mapping[str, float]
    ) -> float:
        """Return the accuracy over all training and validation rows of all epochs so far.

        The stopping rule of the Relation paper's program used this value, because the program never
        reset its metric.
        """
        (part,) = self.parts
        train, held_out = len(part.train_rows), len(part.held_out)
        accuracy = (row["accuracy"] * train + row["val_accuracy"] * held_out) / (train + held_out)
        before = history[-1]["running_accuracy"] if history else 0.0
        return before + (accuracy - before) / (len(history) + 1)

    def _seconds(self, history: Sequence[Mapping[str, float]], total: float) -> dict[str, float]:
        epoch = statistics.median_high(row["seconds"] for row in history)
        return {
            "training": sum(row["seconds"] for row in history),
            "input": sum(row["input_seconds"] for row in history),
            "evaluation": sum(row["evaluation_seconds"] for row in history),
            "total": total,
            "epoch": epoch,
            "batch": epoch / self._steps,
        }


def _make_optimizer(config: RunConfig, steps_per_epoch: int) -> keras.optimizers.Optimizer:
    schedule = make_schedule(
        config.learning_rate_schedule,
        config.learning_rate,
        config.epochs,
        steps_per_epoch,
        config.schedule_options,
    )
    return make_optimizer(
        config.optimizer, schedule, config.optimizer_options, weight_decay=config.weight_decay
    )


def _steps(task: Task) -> type[TaskSteps]:
    if task.written:
        return SequenceSteps
    return TokenClassificationSteps if task.token_labels else TaskSteps


def _limit(config: RunConfig, epoch: int, seconds: float) -> str | None:
    """Return the limit that a run has reached, in words, or None."""
    if epoch >= config.epochs:
        return f"{config.epochs} epochs"
    if config.time_limit is not None and seconds >= config.time_limit:
        return f"{config.time_limit:g} s"
    return None


class TransferTrainer(SuiteTrainer):
    """Trainer of the transfer models of Liu, Qiu and Huang 2017, section 5.5.

    A run has two trainings for each task of the group, with the settings and the seed of the run.
    The first one trains the networks of `sharing = "adversarial"` on all other tasks. The second
    one trains a new network on the task; its embedding and its shared encoder are those of the
    first one, frozen. The vocabulary is that of the group: words of this task alone keep their
    initial vectors.

    Args:
        config: A run of the group and the method.
        task: The group.
        vectors: Word vectors for the embedding.

    Attributes:
        model: Network of the first task.
    """

    def __init__(
        self, config: RunConfig, task: EncodedTask, vectors: Vectors | None = None
    ) -> None:
        check_backend()
        self.config, self.task, self.vectors = config, task, vectors
        super().__init__(self._build(config.seed_of("init")))

    @classmethod
    def try_build(cls, config: RunConfig) -> None:
        """Build a small network of a run's method, its optimizer and its stopping rule."""
        TaskTrainer.try_build(config)

    def run(
        self,
        seed: int,
        on_progress: ProgressCallback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> TrainingResult:
        """Train for each task, first on the other tasks, then on the task, and predict its rows.

        Epochs are counted over all trainings; `training` in the history is the number of the
        training, odd on the other tasks. There are no checkpoints.
        """
        history: list[dict[str, float]] = []
        predictions: dict[tuple[str, str], np.ndarray] = {}
        total, self.compile_seconds = 0.0, 0.0

        def train_part(trainer: TaskTrainer, number: int) -> TrainingResult:
            nonlocal total
            before = trainer.epochs_before = len(history)

            def progress(epoch: int, row: Mapping[str, float]) -> None:
                if on_progress is not None:
                    on_progress(before + epoch, {**row, "epoch": before + epoch})

            trained = trainer.run(seed, progress)
            history.extend({"training": number, **row} for row in trained.history)
            total += trained.seconds["total"]
            self.compile_seconds += trainer.compile_seconds
            return trained

        for number, task in enumerate(self.task.task.members):
            keras.backend.clear_session()  # frees the memory of the previous training
            source = self._source(task)
            train_part(source, 2 * number + 1)
            shared = self._shared(task, source.model)
            keras.backend.clear_session()
            target = self._target(task)
            target.shared = shared
            trained = train_part(target, 2 * number + 2)
            for (_, name), outputs in trained.predictions.items():
                predictions[self.task.task.scored[name], name] = outputs
        return TrainingResult(
            history=self._history(history),
            seconds=self._seconds(history, total),
            stop=Stop(f"{2 * len(self.task.task.members)} trainings ended", len(history)),
            predictions=predictions,
            metrics={name: self._score(name, output) for (_, name), output in predictions.items()},
            padding=trained.padding,
        )

    def estimate(self) -> Estimate:
        """Measure both trainings of the first task; those of the others are assumed to be equal."""
        first, count = self.task.task.members[0], len(self.task.task.members)
        source, target = self._source(first), self._target(first)
        target.shared = self._shared(first, source.model)
        of_source, of_target = source.estimate(), target.estimate()
        self.compile_seconds = count * (source.compile_seconds + target.compile_seconds)
        epoch, once = of_source.epoch + of_target.epoch, of_source.once + of_target.once
        return Estimate(count * epoch, count * once)

    def _build(self, seed: int) -> keras.Model:
        return self._network(self.task.task.members[0], seed)

    def _network(self, task: Task, seed: int) -> keras.Model:
        models = build_networks(self.config, self._only([task]), seed, vectors=self.vectors)
        return networks.as_one(models)

    def _source(self, task: Task) -> TaskTrainer:
        """Return the trainer of the shared layers, which does not have the rows of the task."""
        config = self.config.model_copy(update={"sharing": "adversarial"})
        others = [member for member in self.task.task.members if member is not task]
        return TaskTrainer(config, self._only(others), self.vectors)

    def _target(self, task: Task) -> _FrozenTrainer:
        rows = self._only([task])
        return _FrozenTrainer(self.config, rows, self.vectors)

    def _only(self, tasks: Sequence[Task]) -> EncodedTask:
        """Return the group with some of its tasks and only their rows."""
        group = self.task.task
        names = tuple(group.split_of(task, "") for task in tasks)
        splits = {name: rows for name, rows in self.task.splits.items() if name.startswith(names)}
        some, source = joined(group.name, tasks), self.task.source
        members = tuple(member for member in source.members if member.task in tasks)
        source = replace(source, task=some, members=members)
        return replace(self.task, task=some, splits=splits, source=source)

    def _shared(self, task: Task, source: keras.Model) -> list[np.ndarray]:
        """Return the weights of a network for the layers that are frozen for a task."""
        frozen = networks.frozen_layers(self._network(task, self.config.seed_of("init")))
        layers = [source.get_layer(layer.name) for layer in frozen]
        return [np.array(weight) for layer in layers for weight in layer.get_weights()]

    def _score(self, name: str, outputs: np.ndarray) -> dict[str, float]:
        group = self.task.task
        labels = self.task.splits[group.scored[name]].labels
        assert labels is not None  # of a scored split
        return score_outputs(group.of(name), outputs, labels, name)

    def _history(self, history: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
        """Return the columns that all trainings have."""
        metrics = [f"val_{metric}" for metric in self.task.task.metrics]
        columns = ("training", "loss", "val_loss", *metrics, *_TIMES.values())
        return [
            {"epoch": epoch, **{column: row[column] for column in columns}}
            for epoch, row in enumerate(history, 1)
        ]

    def _seconds(self, history: Sequence[Mapping[str, float]], total: float) -> dict[str, float]:
        """Return the sums of all trainings, and an epoch and a batch on the other tasks."""
        tasks = self.task.members
        steps = sum(-(-len(task.splits["train"]) // self.config.batch_size) for task in tasks)
        epoch = statistics.median_high(row["seconds"] for row in history if row["training"] % 2)
        return {
            **{name: sum(row[key] for row in history) for name, key in _TIMES.items()},
            "total": total,
            "epoch": epoch,
            "batch": epoch / (steps * (len(tasks) - 1) / len(tasks)),
        }


_TIMES = {"training": "seconds", "input": "input_seconds", "evaluation": "evaluation_seconds"}


class _FrozenTrainer(TaskTrainer):
    """Trainer of a network with frozen layers.

    Attributes:
        shared: Weights of these layers.
    """

    shared: Sequence[np.ndarray] = ()

    def _build(self, seed: int) -> keras.Model:
        model = super()._build(seed)
        frozen = [weight for layer in networks.frozen_layers(model) for weight in layer.weights]
        for weight, value in zip(frozen, self.shared, strict=True):
            weight.assign(value)
        return model
