"""Training settings, and their overrides for single tasks. Does not import Keras."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, get_args

import tomli_w
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    model_validator,
)

from relation_tf.faults import Positive, Settings, Share
from relation_tf.networks.config import Compute, Network, Positions
from relation_tf.registry import SOURCES, STOPPING_RULES, Registry
from relation_tf.tasks.task import Reading, VocabularySize

Seed = Annotated[int, Field(ge=0, lt=2**31)]
Margin = PositiveFloat  # in the unit of the tables, such as points
FactoryName = Annotated[str, Field(pattern=r"^[A-Za-z][\w.-]{0,79}$")]
RandomSource = Literal["init", "order", "split"]

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


def without_former_keys(values: Any) -> Any:
    """Return settings of an earlier version without keys that no longer change anything.

    These are `layout`, and `embedding_updates` with the value that is now the only one.
    """
    if not isinstance(values, dict):
        return values
    former = {"layout"} | ({"embedding_updates"} & {k for k, x in values.items() if x == "dense"})
    return {key: value for key, value in values.items() if key not in former}


class TrainingSettings(Reading):
    """Settings of training; the same for all methods of a suite.

    Attributes:
        source: `"auto"` for files or saved Hugging Face datasets under `--data`, else prepared TFDS
            datasets; `"files"` or `"tfds"` for only one of them; `"datasets"` for Hugging Face
            datasets under `--data`; `"miniglue"` for built-in data; or a registered source.
        tokens: `"word"`: lower case, words and punctuation apart; `"wordpiece"`: pieces of words;
            `"byte"`: the bytes of the text in UTF-8; `"text"`: strings, for saved sentence
            encoders.
        start_token: If True, each text begins with a special token.
        vocabulary: Rows whose words are the vocabulary: `"train"`, or `"all"` for those of all
            splits, without their labels: words of dev and test rows then have vectors, too.
        vocabulary_size: Size of the vocabulary, by default every word of these rows, or 8,000
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
