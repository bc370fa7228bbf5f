"""Train shared layers on the other tasks of a group, then each task with these layers frozen."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

import keras
import numpy as np

from relation_tf import networks
from relation_tf.config.run import RunConfig
from relation_tf.tasks.encoding import EncodedTask
from relation_tf.tasks.glove import Vectors
from relation_tf.tasks.task import Task, joined
from relation_tf.training.building import build_networks
from relation_tf.training.checkpoint import Checkpoint
from relation_tf.training.replicas import Replicas
from relation_tf.training.session import check_backend
from relation_tf.training.steps import score_outputs
from relation_tf.training.stopping import Stop
from relation_tf.training.task_trainer import TaskTrainer
from relation_tf.training.trainer import (
    Estimate,
    ProgressCallback,
    SuiteTrainer,
    TrainingResult,
)


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
        replicas: The devices that share each step.

    Attributes:
        model: Network of the first task.
    """

    def __init__(
        self,
        config: RunConfig,
        task: EncodedTask,
        vectors: Vectors | None = None,
        replicas: Replicas | None = None,
    ) -> None:
        check_backend()
        self.config, self.task, self.vectors = config, task, vectors
        self.replicas = replicas or Replicas()
        super().__init__(self._build(config.seed_of("init")), replicas=self.replicas)

    @classmethod
    def check(cls, config: RunConfig) -> None:
        """Build a small network of a run's method, its optimizer and its stopping rule."""
        TaskTrainer.check(config)

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

        def train(trainer: TaskTrainer, number: int) -> TrainingResult:
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
            train(source, 2 * number + 1)
            shared = self._shared(task, source.model)
            keras.backend.clear_session()
            target = self._target(task)
            target.shared = shared
            trained = train(target, 2 * number + 2)
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
        """Measure both trainings of the first task; those of others cost the same per token."""
        first, count = self.task.task.members[0], len(self.task.task.members)
        source, target = self._source(first), self._target(first)
        target.shared = self._shared(first, source.model)
        of_source, of_target = source.estimate(), target.estimate()
        rows = [part.tokens for part in (*source.parts, *target.parts)]
        on_others = of_source.epoch * (count - 1) * sum(rows) / sum(rows[:-1])
        self.compile_seconds = count * (source.compile_seconds + target.compile_seconds)
        return Estimate(
            on_others + of_target.epoch * sum(rows) / rows[-1],
            count * (of_source.once + of_target.once),
        )

    def _build(self, seed: int) -> keras.Model:
        return self._network(self.task.task.members[0], seed)

    def _network(self, task: Task, seed: int) -> keras.Model:
        with self.replicas.scope():
            models = build_networks(self.config, self._only([task]), seed, vectors=self.vectors)
        return networks.as_one(models)

    def _source(self, task: Task) -> TaskTrainer:
        """Return the trainer of the shared layers, which does not have the rows of the task."""
        config = self.config.model_copy(update={"sharing": "adversarial"})
        others = [member for member in self.task.task.members if member is not task]
        return TaskTrainer(config, self._only(others), self.vectors, self.replicas)

    def _target(self, task: Task) -> _FrozenTrainer:
        rows = self._only([task])
        return _FrozenTrainer(self.config, rows, self.vectors, self.replicas)

    def _only(self, tasks: Sequence[Task]) -> EncodedTask:
        """Return the group with some of its tasks and only their rows."""
        group = self.task.task
        names = tuple(group.split_of(task, "") for task in tasks)
        splits = {name: rows for name, rows in self.task.splits.items() if name.startswith(names)}
        return replace(self.task, task=joined(group.name, tasks), splits=splits)

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
