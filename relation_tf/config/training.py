"""Settings of training, and what tasks may override. Free of Keras."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import tomli_w
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from relation_tf.registry import SOURCES, STOPPING_RULES, Registry

Positive = Annotated[int, Field(ge=1, lt=2**31)]
FactoryName = Annotated[str, Field(pattern=r"^[A-Za-z][\w.-]{0,79}$")]
Initializer = str | dict[str, Any]  # of Keras: a name, or a table with class_name and config


OF_TIMED = frozenset({"batch_size", "embedding_dim", "threads"})
"""The keys of `TrainingSettings` that runs of timed tasks read."""


def name_in(registry: Registry[Any]) -> AfterValidator:
    """Return a validator that refuses names that are not registered."""

    def find(name: str) -> str:
        registry.find(name)
        return name

    return AfterValidator(find)


def can_be_written(options: dict[str, Any]) -> dict[str, Any]:
    """Refuse a table that TOML cannot hold."""
    try:
        tomli_w.dumps(options)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"values that TOML can hold ({error})") from error
    return options


Options = Annotated[dict[str, Any], AfterValidator(can_be_written)]


class TrainingSettings(BaseModel):
    """Settings of training; the same for all methods of a suite.

    Attributes:
        source: `"auto"` for files under `--data`, or else what TFDS has prepared; `"files"` or
            `"tfds"` for one of them; `"miniglue"` for the embedded set; or a registered source.
        tokens: `"word"`: lower case, words and punctuation apart; `"wordpiece"`: pieces of words;
            `"text"`: strings, for saved sentence encoders.
        start_token: If True, each text begins with a token that carries no meaning.
        vocabulary_size: Size of the vocabulary, by default every word of the training text, or
            8,000 pieces.
        max_length: Tokens kept of a text, a start token among them, by default all.
        validation_split: Share of the training rows that validates, in (0, 1); by default the
            task's own validation rows do, or 0.1 where it has none.
        embeddings: `"random"`, or `"glove"` for the file given with `--glove`.
        embedding_dim: Width of the embedding.
        embedding_updates: `"dense"` or `"rows"`, see `relation_tf.optimizers.Adam`.
        embedding_initializer: Keras initializer of the embedding.
        pretrained: A folder that `relation-tf pretrain` has made, looked for where the command is
            called: texts are then read with its vocabulary, and methods start from its encoders as
            their `encoder_weights` says.
        network: `"benchmark"` or `"plain"`, see `relation_tf.networks`.
        initializer: Keras initializer of the Dense layers and the head.
        hidden_units: Width of the hidden Dense, by default the mechanism's units.
        hidden_activation: Activation after it, `"leaky_relu"`, a Keras name or `"linear"`.
        dropout: Rate, in [0, 1).
        compute: `"readout"` computes the mechanism only for the token that is read, `"all"` for
            all tokens.
        precision: `"float32"`, or `"bfloat16"` to compute in it; weights, probabilities and losses
            are float32 in either.
        xla: If True, XLA compiles the training step. It compiles once for each shape, so texts are
            then padded to few widths, see `relation_tf.tasks.batches.bucket`.
        optimizer: A registered optimizer, by default the package's `"adam"`, or a class of
            `keras.optimizers`, such as `"SGD"`.
        optimizer_options: Further arguments of the optimizer, by name.
        learning_rate: Initial step size.
        learning_rate_schedule: A registered schedule or a class of `keras.optimizers.schedules`:
            `"constant"`, or `"fcsr"` and `"fcsr-compounding"` for the two
            readings of the FCSR paper's equation 16, see `relation_tf.optimizers.FCSRDecay`.
        schedule_options: Further arguments of the schedule, by name.
        weight_decay: Decoupled weight decay, by default none.
        adversary_weight: Weight of the adversarial loss, by which the shared part of a group's
            network learns not to tell the tasks apart (`sharing = "adversarial"`).
        orthogonality_weight: Weight of the penalty on what shared and private parts have in common.
        batch_size: Rows of a batch.
        batching: `"length"` forms batches of rows of similar length, `"random"` of any rows.
        epochs: Maximum number of epochs of a run.
        time_limit: Maximum training time of a run in seconds, checked after each epoch; by default
            none.
        stopping: A registered stopping rule: `"smoothed_early_stopping"`, `"early_stopping"`,
            `"accuracy_reached"` or a user's own, see `relation_tf.training.stopping`.
        stopping_options: Further arguments of the stopping rule, by name.
        patience: Epochs without improvement before a run stops (early stopping of either kind).
        monitor: `"val_loss"`, or `"val_<metric>"` with a metric of each task (these two as well).
        watched_accuracy: The accuracy that `"accuracy_reached"` watches: `"validation"`, that of
            the epoch on the validation rows, or `"running"`, that of all training and validation
            rows of all epochs so far, as in the Relation paper's program, which never reset it.
        target_accuracy: The accuracy to exceed, a fraction in (0, 1).
        target_epochs: Number of consecutive epochs in which it must be exceeded.
        threads: Threads of one operation. The same seed gives the same bits only with the same
            number.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    source: Annotated[str, name_in(SOURCES)] = "auto"
    tokens: Literal["word", "wordpiece", "text"] = "word"
    start_token: bool = False
    vocabulary_size: Annotated[int, Field(ge=3, lt=2**31)] | None = None
    max_length: Positive | None = None
    validation_split: Annotated[float, Field(gt=0, lt=1)] | None = None
    embeddings: Literal["random", "glove"] = "random"
    embedding_dim: Positive = 100
    embedding_updates: Literal["dense", "rows"] = "dense"
    embedding_initializer: Initializer = "uniform"
    pretrained: str | None = None
    network: Literal["benchmark", "plain"] = "benchmark"
    initializer: Initializer = "glorot_uniform"
    hidden_units: Positive | None = None
    hidden_activation: str = "leaky_relu"
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.5
    compute: Literal["readout", "all"] = "readout"
    precision: Literal["float32", "bfloat16"] = "float32"
    xla: bool = False
    optimizer: FactoryName = "adam"
    optimizer_options: Options = Field(default_factory=dict)
    learning_rate: Annotated[float, Field(gt=0)] = 0.001
    learning_rate_schedule: FactoryName = "constant"
    schedule_options: Options = Field(default_factory=dict)
    weight_decay: Annotated[float, Field(gt=0)] | None = None
    adversary_weight: Annotated[float, Field(ge=0)] = 0.05
    orthogonality_weight: Annotated[float, Field(ge=0)] = 0.01
    batch_size: Positive = 256
    batching: Literal["length", "random"] = "length"
    epochs: Positive = 100
    time_limit: Annotated[float, Field(gt=0)] | None = None
    stopping: Annotated[str, name_in(STOPPING_RULES)] = "smoothed_early_stopping"
    stopping_options: Options = Field(default_factory=dict)
    patience: Positive = 5
    monitor: Annotated[str, Field(pattern=r"^val_[\w-]+$")] = "val_loss"
    watched_accuracy: Literal["validation", "running"] = "validation"
    target_accuracy: Annotated[float, Field(gt=0, lt=1)] = 0.8
    target_epochs: Positive = 10
    threads: Positive = 1


class Override(BaseModel):
    """Settings of one task; see `TrainingSettings`. A key that is None stays the suite's."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    batch_size: Positive | None = None
    start_token: bool | None = None
    vocabulary_size: Annotated[int, Field(ge=3, lt=2**31)] | None = None
    max_length: Positive | None = None
    validation_split: Annotated[float, Field(gt=0, lt=1)] | None = None
    epochs: Positive | None = None
    time_limit: Annotated[float, Field(gt=0)] | None = None
