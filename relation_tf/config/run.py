"""Configuration of one run. Does not import Keras."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from relation_tf.config.method import TRANSFERRED, EncoderWeights
from relation_tf.config.plugins import Plugin
from relation_tf.config.training import RandomSource, Seed, TrainingSettings
from relation_tf.faults import Positive
from relation_tf.files import expand_home
from relation_tf.networks.config import Sharing
from relation_tf.networks.mechanisms import (
    block_mechanism,
    custom_layers,
    is_built_in,
    mixing_mechanism,
)
from relation_tf.registry import OPTIMIZERS
from relation_tf.tasks.catalogue import Entry, find_task
from relation_tf.tasks.custom import CustomTask, Name, TaskGroup
from relation_tf.tasks.task import MeasuredTask, Reading

RunKey = tuple[str, str, int]
"""Task, method and seed of a run."""

FIXED_SEED = 1
"""Seed of a random source that does not vary."""


def seed_of(source: RandomSource, vary: Collection[str], seed: int) -> int:
    """Return the seed of a random source of a run.

    Args:
        source: The source.
        vary: Sources that differ between seeds.
        seed: Seed of the run.

    Example:
        >>> [seed_of(source, ["order"], 7) for source in ("init", "order")]
        [1, 7]
    """
    return seed if source in vary else FIXED_SEED


def dropout_seed_of(vary: Collection[str], seed: int) -> int | None:
    """Return the seed of dropout of a run; None if initial weights and order vary together.

    Args:
        vary: Sources that differ between seeds.
        seed: Seed of the run.

    Example:
        >>> [dropout_seed_of(vary, 7) for vary in (["init"], ["order"], ["init", "order"])]
        [1, 7, None]
    """
    return None if {"init", "order"} <= {*vary} else seed_of("order", vary, seed)


class RunConfig(TrainingSettings):
    """One run: a task, a method, a seed and training settings."""

    task: str
    method: Name
    mechanism: str
    custom_task: CustomTask | None = None
    group: TaskGroup | None = None
    metrics: list[str] | None = None  # instead of those of the task
    data_digests: dict[str, str] | None = None  # by split; None in runs of older versions
    glove_digest: str | None = None
    mechanism_digest: str | None = None  # of the source of custom layers, or a saved model
    units: Positive
    options: dict[str, Any] = Field(default_factory=dict)
    size: Positive | None = None
    sized_by: str = "units"
    sharing: Sharing = "shared"
    feature_projection: bool = False
    encoder_weights: EncoderWeights = "random"
    pretrained_digest: str | None = None
    callbacks_digest: str | None = None  # of the source of the callbacks
    plugins: list[Plugin] = Field(default_factory=list)
    plugins_digest: str | None = None  # see `relation_tf.config.plugins`
    seed: Seed

    @property
    def custom_layers(self) -> list[str]:
        """Custom layers or saved models of the run."""
        return custom_layers(self.mechanism, self.options)

    @property
    def user_parts(self) -> list[str]:
        """Custom layers, saved models and callbacks of the run."""
        return [*self.custom_layers, *(entry.callback for entry in self.callbacks)]

    @property
    def has_built_in_layer(self) -> bool:
        """If False, the layer comes from a user's module, a plugin or a saved model."""
        return is_built_in(self.mechanism, self.options)

    @property
    def has_state_only_in_variables(self) -> bool:
        """If False, a layer, optimizer or callback of a user may have other state."""
        own_parts = OPTIMIZERS.is_of_user(self.optimizer) or self.callbacks
        return self.has_built_in_layer and not own_parts

    @property
    def shares_network(self) -> bool:
        """If True, one compiled network serves all seeds of a task and a method.

        False if seeds have other rows, if a run has state outside of the variables, or several
        networks, or is timed: compilation is then part of its cost.
        """
        differs = "split" in self.vary or self.transfers or find_task(self.entry).timed
        return self.has_state_only_in_variables and not differs

    @property
    def transfers(self) -> bool:
        """If True, each task of the group gets layers that were trained on the other tasks."""
        return self.sharing in TRANSFERRED

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> Self:
        """Return the configuration in a `config.json`; keys of other versions are ignored."""
        return cls(**{key: value for key, value in written.items() if key in cls.model_fields})

    @property
    def entry(self) -> Entry:
        """Task for `load_task`: a name, with or without metrics, a custom task or a group."""
        if self.metrics is not None:
            return MeasuredTask(self.task, tuple(self.metrics))
        return self.custom_task or self.group or self.task

    @property
    def mixer(self) -> str:
        """Token-mixing mechanism; for an encoder, the innermost one of its blocks."""
        return mixing_mechanism(self.mechanism, self.options)

    @property
    def block_mechanism(self) -> str:
        """Mechanism of the blocks of an encoder, under which pre-trained encoders are stored."""
        return block_mechanism(self.mechanism, self.options)

    def seed_of(self, source: RandomSource) -> int:
        """Return the seed of a random source: the run's, or `FIXED_SEED` if it does not vary."""
        return seed_of(source, self.vary, self.seed)

    @property
    def key(self) -> RunKey:
        """(task, method, seed)."""
        return self.task, self.method, self.seed

    def reading(self) -> dict[str, Any]:
        """Return the arguments of `relation_tf.tasks.load_task` for this run."""
        settings = {key: getattr(self, key) for key in Reading.model_fields}
        if "split" in self.vary:
            settings["split_seed"] = self.seed
        if self.pretrained is not None:
            settings["vocabulary"] = vocabulary_of(self.pretrained)
        return settings

    def __str__(self) -> str:
        return f"{self.task}/{self.method}/seed-{self.seed}"


def vocabulary_of(pretrained: str | Path) -> Path:
    """Return the path of the vocabulary in a folder of pre-training."""
    return expand_home(pretrained) / "vocabulary.json"
