"""Training settings, and the configuration of one run. Does not import Keras."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import tomli_w
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    model_validator,
)

from relation_tf.config.user_code import Plugin
from relation_tf.files import expand_home
from relation_tf.networks.mechanisms import (
    Compute,
    Network,
    Positions,
    Sharing,
    block_mechanism,
    custom_layers,
    is_built_in,
    mixing_mechanism,
)
from relation_tf.registry import OPTIMIZERS, SOURCES, STOPPING_RULES, Registry
from relation_tf.settings import Positive, Settings, Share
from relation_tf.tasks.catalogue import Entry, find_task
from relation_tf.tasks.custom import CustomTask, Name, TaskGroup
from relation_tf.tasks.task import MeasuredTask, Reading, VocabularySize

Seed = Annotated[int, Field(ge=0, lt=2**31)]
Margin = PositiveFloat  # in the unit of the tables, such as points
FactoryName = Annotated[str, Field(pattern=r"^[A-Za-z][\w.-]{0,79}$")]
RandomSource = Literal["init", "order", "split"]
EncoderWeights = Literal["random", "pretrained", "frozen"]
TRANSFERRED = ("single-channel", "bi-channel")
"""Sharing with layers that are trained on the other tasks of a group and then frozen."""

OF_TIMED = frozenset({"batch_size", "embedding_dim", "threads"})
"""Keys of `TrainingSettings` that timed tasks use."""


def name_in(registry: Registry[Any]) -> AfterValidator:
    """Return a validator that refuses names that are not registered."""

    def find(name: str) -> str:
        registry.find(name)
        return name

    return AfterValidator(find)


def can_be_written(options: dict[str, Any]) -> dict[str, Any]:
    """Check that TOML can represent a table."""
    try:
        tomli_w.dumps(options)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"values that TOML can represent ({error})") from error
    return options


def _each_once(sources: list[RandomSource]) -> list[RandomSource]:
    """Sort random sources, so that equal sets are equal lists."""
    if not sources or len({*sources}) < len(sources):
        raise ValueError("one or more of 'init', 'order' and 'split', without repetition")
    return [source for source in get_args(RandomSource) if source in sources]


def path_of_class(value: Any) -> Any:
    """Return the path `"package.module:Name"` of a class; other values are returned unchanged.

    Raises:
        ValueError: If the class cannot be imported by its path.
    """
    if not isinstance(value, type):
        return value
    if "<locals>" in value.__qualname__:
        raise ValueError("an importable class, not one defined inside a function")
    return f"{value.__module__}:{value.__qualname__}"


def _without_none(value: Any) -> Any:
    """Remove None, the default, from nested tables: TOML cannot represent it."""
    if not isinstance(value, dict):
        return value
    return {key: _without_none(inner) for key, inner in value.items() if inner is not None}


Options = Annotated[dict[str, Any], AfterValidator(can_be_written)]
# A Keras initializer: a name, or a table with class_name and config.
Initializer = Annotated[str | Options, BeforeValidator(_without_none)]


def _path(callback: str) -> str:
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*", callback):
        raise ValueError("'package.module:Name' of a Keras callback")
    return callback


class CallbackEntry(Settings):
    """A Keras callback of all runs of a suite.

    Attributes:
        callback: `"package.module:Name"` of a subclass of `keras.callbacks.Callback`.
        options: Arguments of its constructor.

    Example:
        >>> CallbackEntry.model_validate("my_module:MyCallback").options
        {}
    """

    callback: Annotated[str, BeforeValidator(path_of_class), AfterValidator(_path)]
    options: Options = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _without_options(cls, value: Any) -> Any:
        return {"callback": value} if isinstance(value, str | type) else value


_KEY_OF_OPTION = {
    "learning_rate": "learning_rate",
    "initial_learning_rate": "learning_rate",
    "weight_decay": "weight_decay",
}

Embeddings = Literal["random", "glove"]


def _without_keys(options: dict[str, Any]) -> dict[str, Any]:
    """Refuse a second place for the value of a key: a sweep of the key would have no effect."""
    for name in options.keys() & _KEY_OF_OPTION.keys():
        raise ValueError(f"options without {name!r}. Set the key {_KEY_OF_OPTION[name]!r}")
    return options


OtherOptions = Annotated[Options, AfterValidator(_without_keys)]


class TrainingSettings(Reading):
    """Settings of training; the same for all methods of a suite.

    Attributes:
        source: `"auto"` for files or saved Hugging Face datasets under `--data`, else prepared TFDS
            datasets; `"files"` or `"tfds"` for only one of them; `"datasets"` for Hugging Face
            datasets under `--data`; `"miniglue"` for built-in data; or a registered source.
        tokens: `"word"`: lower case, words and punctuation apart; `"wordpiece"`: pieces of words.
        start_token: If True, each text begins with a special token.
        vocabulary: Texts whose words are the vocabulary: `"train"`, or `"all"` for the rows of all
            splits, without their labels (words of dev and test rows then have vectors, too); or a
            list of other text files under `--data`.
        vocabulary_size: Size of the vocabulary, by default every word of these texts, or 8,000
            pieces.
        max_length: Maximum number of tokens of a text, including the start token; by default all.
        validation_split: Share of the training rows for validation, in (0, 1); by default the
            validation rows of the task, or 0.1 if it has none.
        embeddings: `"random"`, or `"glove"` for the file given with `--glove`.
        embedding_dim: Width of the embedding.
        embedding_initializer: Keras initializer of the embedding.
        positions: `"sine"`, `"softmax"`, or `"learned"` (needs `max_length`) position encodings; by
            default those of each mechanism.
        segments: If True, each text of a pair has a learned vector that is added to its tokens.
        short_convolution: Number of tokens of a causal convolution of each feature before the
            mechanism, added to its input, see `relation_tf.layers.ShortConvolution`; by default
            none. With it, a mechanism without an order can compare neighbours.
        pretrained: Folder of `relation-tf pretrain`, relative to the current folder: its vocabulary
            encodes the texts, and methods use its encoders, see `encoder_weights` of `Method`.
        network: `"benchmark"` or `"plain"`, see `relation_tf.networks`.
        initializer: Keras initializer of the Dense layers and the head.
        hidden_units: Width of the hidden Dense layer, by default the mechanism's units.
        hidden_activation: Activation of this layer: `"leaky_relu"`, a Keras name or `"linear"`.
        dropout: Dropout rate, in [0, 1).
        compute: `"readout"` computes the mechanism only for the token of the readout, `"all"` for
            all tokens.
        precision: `"float32"`, or `"bfloat16"` for computations; weights, probabilities and losses
            are always float32.
        xla: If True, XLA compiles the training step once per shape. Texts are then padded to few
            widths, see `relation_tf.tasks.batches.bucket`.
        optimizer: A registered optimizer, by default the package's `"adam"`, or a class of
            `keras.optimizers`, such as `"SGD"`.
        optimizer_options: Other arguments of the optimizer, by name.
        learning_rate: Initial step size.
        learning_rate_schedule: A registered schedule or a class of `keras.optimizers.schedules`:
            `"constant"`, `"warmup-cosine"` (linear warmup, then cosine decay to 0; option
            `warmup`), or `"fcsr"` and `"fcsr-compounding"` for the two interpretations of the FCSR
            paper's equation 16, see `relation_tf.optimizers.FCSRDecay`.
        schedule_options: Other arguments of the schedule, by name.
        weight_decay: Decoupled weight decay, by default that of the optimizer: none, but .004 for
            `"AdamW"` and `"Muon"`.
        adversary_weight: Weight of the adversarial loss, which removes task information from the
            shared part of a group's network (`sharing = "adversarial"`, `"single-channel"` and
            `"bi-channel"`).
        orthogonality_weight: Weight of the penalty on common features of shared and private parts.
        reversal_weight: Factor of the reversed gradient into the common features of methods with
            `feature_projection`.
        batch_size: Rows of a batch.
        batching: `"length"` for batches of rows with similar length, `"random"` for random batches.
        epochs: Maximum number of epochs of a run.
        time_limit: Maximum training time of a run in seconds, checked after each epoch; by default
            none.
        stopping: A registered stopping rule: `"smoothed_early_stopping"`, `"early_stopping"`,
            `"accuracy_reached"` or a custom rule, see `relation_tf.training.stopping`.
        stopping_options: Other arguments of the stopping rule, by name.
        patience: Epochs without improvement before a run stops (early stopping of either kind).
        monitor: `"val_loss"`, or `"val_<metric>"` with a metric of each task (early stopping of
            either kind).
        watched_accuracy: The accuracy for `"accuracy_reached"`: `"validation"` on the validation
            rows of the epoch, or `"running"` over all training and validation rows of all epochs so
            far, as in the Relation paper's program, which never reset its metric.
        target_accuracy: The accuracy to exceed, a fraction in (0, 1).
        target_epochs: Number of consecutive epochs above the target accuracy.
        callbacks: Keras callbacks, `"package.module:Name"` or tables with their arguments:
            `{ callback = "package.module:Name", options = {} }`.
        vary: Random sources that differ between seeds: `"init"` (initial weights, and the
            pre-trained encoder if there are several), `"order"` (order of the batches, dropout) and
            `"split"` (training and validation rows, and so the vocabulary). Other sources are the
            same for all seeds. `"split"` needs `validation_split`, or tasks without validation
            rows.
        threads: Threads per operation. Results are reproducible only with the same number.
    """

    source: Annotated[str, name_in(SOURCES)] = "auto"
    embeddings: Embeddings = "random"
    embedding_dim: Positive = 100
    embedding_initializer: Initializer = "uniform"
    positions: Positions | None = None
    segments: bool = False
    short_convolution: Positive | None = None
    pretrained: str | None = None
    network: Network = "benchmark"
    initializer: Initializer = "glorot_uniform"
    hidden_units: Positive | None = None
    hidden_activation: str = "leaky_relu"
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.5
    compute: Compute = "readout"
    precision: Literal["float32", "bfloat16"] = "float32"
    xla: bool = False
    optimizer: FactoryName = "adam"
    optimizer_options: OtherOptions = Field(default_factory=dict)
    learning_rate: PositiveFloat = 0.001
    learning_rate_schedule: FactoryName = "constant"
    schedule_options: OtherOptions = Field(default_factory=dict)
    weight_decay: NonNegativeFloat | None = None
    adversary_weight: NonNegativeFloat = 0.05
    orthogonality_weight: NonNegativeFloat = 0.01
    reversal_weight: NonNegativeFloat = 1.0
    batch_size: Positive = 256
    batching: Literal["length", "random"] = "length"
    epochs: Positive = 100
    time_limit: PositiveFloat | None = None
    stopping: Annotated[str, name_in(STOPPING_RULES)] = "smoothed_early_stopping"
    stopping_options: Options = Field(default_factory=dict)
    patience: Positive = 5
    monitor: Annotated[str, Field(pattern=r"^val_[\w-]+$")] = "val_loss"
    watched_accuracy: Literal["validation", "running"] = "validation"
    target_accuracy: Share = 0.8
    target_epochs: Positive = 10
    callbacks: list[CallbackEntry] = Field(default_factory=list)
    vary: Annotated[list[RandomSource], AfterValidator(_each_once)] = Field(
        default=["init", "order"]
    )
    threads: Positive = 1


class Override(Settings):
    """Settings of one task, see `TrainingSettings`, and its `margin`, see `Suite`.

    For None, the suite's value applies. `metrics` are the metrics of a sequence task, instead of
    its own: `"exact_match"`, `"bleu"` or registered ones.
    """

    batch_size: Positive | None = None
    start_token: bool | None = None
    vocabulary_size: VocabularySize | None = None
    max_length: Positive | None = None
    validation_split: Share | None = None
    epochs: Positive | None = None
    time_limit: PositiveFloat | None = None
    margin: Margin | None = None
    metrics: Annotated[list[str], Field(min_length=1)] | None = None


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
    data_digests: dict[str, str] | None = None  # by split
    glove_digest: str | None = None
    mechanism_digest: str | None = None  # of the source of custom layers
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
    plugins_digest: str | None = None  # see `relation_tf.config.user_code`
    seed: Seed

    @property
    def custom_layers(self) -> list[str]:
        """Custom layers of the run."""
        return custom_layers(self.mechanism, self.options)

    @property
    def user_parts(self) -> list[str]:
        """Custom layers and callbacks of the run."""
        return [*self.custom_layers, *(entry.callback for entry in self.callbacks)]

    @property
    def has_built_in_layer(self) -> bool:
        """If False, the layer comes from a user's module or a plugin."""
        return is_built_in(self.mechanism, self.options)

    @property
    def has_state_only_in_variables(self) -> bool:
        """If False, a layer, optimizer or callback of a user may have other state."""
        has_custom_parts = OPTIMIZERS.is_of_user(self.optimizer) or self.callbacks
        return self.has_built_in_layer and not has_custom_parts

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
