"""Methods, named configurations of mechanisms, and sweeps of their settings. Without Keras."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    ValidationError,
    field_validator,
    model_validator,
)

from relation_tf.config.run import (
    Embeddings,
    EncoderWeights,
    FactoryName,
    Options,
    Seed,
    TrainingSettings,
    can_be_written,
    path_of_class,
)
from relation_tf.errors import did_you_mean, join_names
from relation_tf.networks.mechanisms import Sharing, find_mechanism
from relation_tf.settings import Positive, Settings, first_fault, without_alternatives
from relation_tf.tasks.custom import Name
from relation_tf.tasks.task import Tokens, VocabularySize


def _count(size: Any) -> Any:
    """Convert a size such as `"1.5M"` to a number."""
    pattern = r"(\d{1,12}(?:\.\d{1,12})?)([KM])"
    if isinstance(size, str) and (written := re.fullmatch(pattern, size)):
        return round(float(written[1]) * {"K": 1_000, "M": 1_000_000}[written[2]])
    return size


Size = Annotated[int, Field(ge=1, lt=2**31), BeforeValidator(_count)]
# Short names of options in names of methods; "num_layers" becomes "layers".
_SYMBOLS = {"num_steps": "k", "window": "w"}


def _known(mechanism: str) -> str:
    find_mechanism(mechanism)
    return mechanism


class Method(Settings):
    """A named configuration of a mechanism, or several.

    Attributes:
        mechanism: A name, `"package.module:Name"` or a Keras layer class.
        name: Name in tables, by default the mechanism and the options that vary.
        units: Width, or a list of widths, one method per width.
        options: Other arguments of the layer.
        grid: Lists of option values; one method per combination.
        size: Trainable parameters of the network without its embedding, as a number or `"1.5M"`, or
            a list with one method per size. `sized_by` is chosen to come nearest to this size.
        sized_by: Argument to vary for a size: `"units"`, `"width"` (of embedding and layer) or a
            numeric option such as `"rank"`.
        sharing: Layers that the tasks of a group share, see
            `relation_tf.networks.multi_task_networks`: `"shared"` all but the heads;
            `"shared-private"` a shared part next to a private part for each task; `"adversarial"`
            the same, with a shared part that is trained so that the task cannot be predicted;
            `"single-channel"` the shared part of `"adversarial"`, trained on the other tasks of the
            group and frozen; `"bi-channel"` the same next to a new private part.
        feature_projection: If True, classify with the part of the sentence vector that is
            orthogonal to the vector of a second branch, which learns the features that all classes
            share (FP-Net), see `relation_tf.networks.feature_projection`.
        learning_rate: As in the suite, for this method only; so are the next two keys.
        learning_rate_schedule: As in the suite.
        weight_decay: As in the suite.
        encoder_weights: In a suite with `pretrained`, the initial weights: `"pretrained"` trains
            the pre-trained encoder further (only for the mechanism `"encoder"`, its default);
            `"frozen"` reads contextual embeddings from the encoder that was pre-trained with this
            mechanism and does not train it (default of all others); `"random"` ignores it.
        tokens: Tokens of this method, see `TrainingSettings`; by default the suite's. The suite's
            `vocabulary_size` then does not apply.
        vocabulary_size: Size of the vocabulary of this method.
        embeddings: Initial embeddings of this method.

    Example:
        >>> [method.name for method in Method(mechanism="relation", units=[64, 128]).expand()]
        ['relation-64', 'relation-128']
        >>> grid = {"num_steps": [1, 5], "initial_context": ["ones"]}
        >>> [method.name for method in Method(mechanism="contextualizer", grid=grid).expand()]
        ['contextualizer-k1-ones', 'contextualizer-k5-ones']
        >>> [method.name for method in Method(mechanism="transformer", size=["0.5M"]).expand()]
        ['transformer-0.5M']
    """

    mechanism: Annotated[str, BeforeValidator(path_of_class), AfterValidator(_known)]
    name: Name | None = None
    units: Positive | Annotated[list[Positive], Field(min_length=1)] = 64
    options: Options = Field(default_factory=dict)
    grid: Annotated[
        dict[str, Annotated[list[Any], Field(min_length=1)]], AfterValidator(can_be_written)
    ] = Field(default_factory=dict)
    size: Size | Annotated[list[Size], Field(min_length=1)] | None = None
    sized_by: str = "units"
    sharing: Sharing = "shared"
    feature_projection: bool = False
    learning_rate: PositiveFloat | None = None
    learning_rate_schedule: FactoryName | None = None
    weight_decay: NonNegativeFloat | None = None
    encoder_weights: EncoderWeights | None = None
    tokens: Tokens | None = None
    vocabulary_size: VocabularySize | None = None
    embeddings: Embeddings | None = None

    def _faults(self) -> Iterator[str]:
        if twice := sorted(self.options.keys() & self.grid.keys()):
            yield f"option {twice[0]!r} must not be in both 'options' and 'grid'"
        if self.sized_by != "units" and self.size is None:
            yield f"'sized_by' needs 'size'; found sized_by = {self.sized_by!r} without it"
        options = self.options.keys() | self.grid.keys()
        if self.size is not None and self.sized_by in options:
            yield f"option {self.sized_by!r} is set, but 'sized_by' varies it"
        if find_mechanism(self.mechanism).size == "units" and "units" in options:
            yield "option 'units' must be left out; set the key 'units' of the method"
        has_widths = isinstance(self.units, list) and len(self.units) > 1
        if has_widths and self.size is not None and self.sized_by == "units":
            yield "'units' must be one number with 'size', which varies it"

    @property
    def overrides(self) -> dict[str, Any]:
        """Training settings of this method that replace those of the suite.

        Example:
            >>> Method(mechanism="dan", tokens="word").overrides
            {'vocabulary_size': None, 'tokens': 'word'}
        """
        other = ("vocabulary_size",) if self.tokens else ()
        replaced = {key: value for key in OF_METHODS if (value := getattr(self, key)) is not None}
        return {key: TrainingSettings.model_fields[key].default for key in other} | replaced

    @property
    def count(self) -> int:
        """Number of methods that `expand` returns."""
        lists = [self.units, self.size, *self.grid.values()]
        return math.prod(len(values) for values in lists if isinstance(values, list))

    @property
    def stem(self) -> str:
        """Common first part of the names that `expand` gives: the name or the mechanism's."""
        return self.name or re.split(r"[:/\\]", self.mechanism.rstrip("/\\"))[-1]

    def expand(self, *, units_in_name: bool = True) -> list[Self]:
        """Return a named method for each width, size and combination of the grid.

        Args:
            units_in_name: If False, a single width is not part of the name, because a sweep tunes
                it.
        """
        widths = self.units if isinstance(self.units, list) else [self.units]
        sizes = self.size if isinstance(self.size, list) else [self.size]
        methods = []
        for units, size, values in itertools.product(
            widths, sizes, itertools.product(*self.grid.values())
        ):
            varied = dict(zip(self.grid, values, strict=True))
            parts = [self.stem]
            unnamed = not (self.name or self.grid or self.size)
            if len(widths) > 1 or (unnamed and units_in_name):
                parts.append(str(units))
            if size is not None and (len(sizes) > 1 or not self.name):
                parts.append(size_name(size))
            parts += [value_name(option, value) for option, value in varied.items()]
            if self.sharing != "shared" and not self.name:
                parts.append(self.sharing)
            if self.feature_projection and not self.name:
                parts.append("projected")
            if not self.name:
                overrides = (self.encoder_weights, self.tokens, self.embeddings)
                parts += [value for value in overrides if value is not None]
            update = {
                "name": "-".join(parts),
                "units": units,
                "size": size,
                "options": {**self.options, **varied},
                "grid": {},
            }
            methods.append(self.model_copy(update=update))
        return methods


OF_METHODS = tuple(key for key in Method.model_fields if key in TrainingSettings.model_fields)
"""Training settings that a method can replace."""


def size_name(size: int) -> str:
    """Return a number of parameters as in names of methods, such as `"1.5M"`."""
    return f"{size / 1e6:g}M" if size >= 100_000 else f"{size / 1e3:g}K"


def value_name(option: str, value: Any) -> str:
    """Return an option as part of a name: `k5` for `num_steps = 5`."""
    if isinstance(value, str):
        return value
    text = "x".join(map(str, value)) if isinstance(value, list) else str(value).lower()
    return _SYMBOLS.get(option, option.removeprefix("num_")) + text


SWEPT = (
    "learning_rate", "learning_rate_schedule", "weight_decay", "optimizer", "dropout", "batch_size",
    "batching", "epochs", "patience", "initializer", "hidden_units", "hidden_activation",
    "embedding_dim", "embedding_initializer", "positions", "network",
    "short_convolution", "adversary_weight", "orthogonality_weight", "reversal_weight",
    "units", "sharing", "feature_projection", "encoder_weights", "tokens", "vocabulary_size",
    "embeddings",
)  # fmt: skip
"""Keys of `TrainingSettings` and `Method` that a sweep can vary, next to options of layers.

Not those that change the validation rows or the list of methods, nor `size`, which makes methods
equal.
"""

OPTIONS = "options."
"""Start of the name of a swept option, such as `options.num_heads`."""

_KNOWN = (*SWEPT, f"{OPTIONS}NAME")


class Tuned(Settings):
    """Settings of one method on one task, which replace those of the suite.

    Attributes:
        task: The task.
        method: The method.
        settings: Keys of `SWEPT`, or options such as `options.num_heads`, and their values.
    """

    task: str
    method: str
    settings: dict[str, Any]

    @field_validator("settings", mode="before")
    @classmethod
    def _flat(cls, settings: Any) -> Any:
        return flat(settings) if isinstance(settings, dict) else settings

    def _faults(self) -> Iterator[str]:
        for key, value in self.settings.items():
            yield from _faults_of_setting(key, value)


class Sweep(Settings, extra="allow"):
    """Values to try of settings: `learning_rate = [0.0003, 0.001, 0.003]`, or another of `SWEPT`.

    `options.num_heads = [1, 4]` tries values of an option of the layers, `options.options.NAME` of
    an option of the layer inside an encoder. They are added to the options of each method.

    Each method is trained on each task with each combination of the values and each seed of the
    sweep. The runs of the suite use the combination with the best mean validation score.

    Attributes:
        seeds: Seeds of the sweep, other than those of the suite.

    Example:
        >>> sweep = Sweep(learning_rate=[0.001, 0.01], dropout=[0.0, 0.5])
        >>> [*sweep.combinations()][1]
        {'learning_rate': 0.001, 'dropout': 0.5}
        >>> Sweep(options={"num_heads": [1, 4]}).values
        {'options.num_heads': [1, 4]}
    """

    seeds: list[Seed] = Field(default=[1001, 1002], min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, values: Any) -> Any:
        return flat(values) if isinstance(values, dict) else values

    def _faults(self) -> Iterator[str]:
        if not self.values:
            yield f"one or more of {join_names(_KNOWN)}, each with a list of values"
        for key, values in self.values.items():
            yield from _faults_of_key(key)
            if inside := [other for other in self.values if other.startswith(f"{key}.")]:
                yield f"either {key!r} or {inside[0]!r}, not both"
            if not isinstance(values, list) or len(values) < 2:
                yield f"a list of two or more values of {key!r}, not {values!r:.80}"
            for value in values:
                yield from _faults_of_setting(key, value)
                parts = value if isinstance(value, list) and key.startswith(OPTIONS) else [value]
                if not all(isinstance(part, str | int | float) for part in parts):
                    yield f"texts or numbers for {key!r}, not {value!r:.80}"
            if any(value in values[:place] for place, value in enumerate(values)):
                yield f"different values of {key!r}, not {values!r:.80}"
        if len({*self.seeds}) < len(self.seeds):
            yield f"different seeds, not {self.seeds!r:.80}"

    @property
    def values(self) -> dict[str, list[Any]]:
        """The values of each setting."""
        return dict(self.model_extra or {})

    def combinations(self) -> Iterator[dict[str, Any]]:
        """Iterate over the settings to try."""
        for values in itertools.product(*self.values.values()):
            yield dict(zip(self.values, values, strict=True))


def flat(settings: Mapping[str, Any], start: str = "") -> dict[str, Any]:
    """Return settings with options as keys of one level.

    Args:
        settings: Settings with a table `options`, which may contain tables.
        start: Start of the keys.

    Raises:
        ValueError: If a key occurs twice.

    Example:
        >>> flat({"dropout": 0.1, "options": {"num_layers": 2, "options": {"window": 8}}})
        {'dropout': 0.1, 'options.num_layers': 2, 'options.options.window': 8}
    """
    result: dict[str, Any] = {}
    for key, value in settings.items():
        path = f"{start}{key}"
        inside = isinstance(value, dict) and value and f"{path}.".startswith(OPTIONS)
        inner = flat(value, f"{path}.") if inside else {path: value}
        if twice := inner.keys() & result.keys():
            raise ValueError(f"different keys, not {min(twice)!r} twice")
        result |= inner
    return result


def _faults_of_key(key: str) -> Iterator[str]:
    if key in SWEPT or (key.startswith(OPTIONS) and all(key.split("."))):
        return
    hint = did_you_mean(key, [*_KNOWN, "seeds"])
    yield f"keys among {join_names(_KNOWN)}, not {key!r}.{hint}"


def _faults_of_setting(key: str, value: Any) -> Iterator[str]:
    yield from _faults_of_key(key)
    if key.startswith(OPTIONS):  # the layer checks them
        return
    if key == "units" and isinstance(value, list):
        yield f"one number for {key!r}, not {value!r:.80}"
    try:
        if key in Method.model_fields:
            Method.model_validate({"mechanism": "baseline", key: value})
        else:
            TrainingSettings(**{key: value})
    except ValidationError as error:
        reason = without_alternatives(error.errors())[0]["msg"]
        yield f"values that {key!r} allows, not {value!r:.80} ({reason})"


def tuned_method(method: Method, settings: Mapping[str, Any]) -> Method:
    """Return a method with tuned settings; those of the suite's training have no effect on it.

    Args:
        method: The method.
        settings: Settings as in `Tuned`; options are merged into those of the method.

    Raises:
        ValueError: If the method cannot have these settings; one line.

    Example:
        >>> encoder = Method(mechanism="encoder", options={"mechanism": "relation"})
        >>> tuned_method(encoder, {"units": 32, "options.num_layers": 4}).options
        {'mechanism': 'relation', 'num_layers': 4}
    """
    changes = {key: value for key, value in settings.items() if is_of_method(key)}
    if not changes:
        return method
    values = method.model_dump()
    for key, value in changes.items():
        *tables, name = key.split(".")
        table = values
        for inner in tables:
            inside = table.get(inner)
            table[inner] = dict(inside) if isinstance(inside, dict) else {}
            table = table[inner]
        table[name] = value
    try:
        return Method.model_validate(values)
    except ValidationError as error:
        raise ValueError(first_fault(error, Method)) from error


def is_of_method(key: str) -> bool:
    """Return True for a key or option of methods."""
    return key in Method.model_fields or key.startswith(OPTIONS)


def value_of(method: Method, key: str) -> Any:
    """Return the value of a method's key or option; None if it has only the default."""
    value: Any = method.options
    if not key.startswith(OPTIONS):
        value = getattr(method, key)
        return None if value == Method.model_fields[key].default else value
    for name in key.split(".")[1:]:
        value = value.get(name) if isinstance(value, dict) else value
    return value


def combination_name(settings: dict[str, Any]) -> str:
    """Return settings as the end of a method's name, such as `"0.001-adam"`.

    Example:
        >>> combination_name({"learning_rate": 0.001, "options.num_heads": 4})
        '0.001-heads4'
    """
    names = [
        value_name(key.rpartition(".")[2], value) if key.startswith(OPTIONS) else str(value)
        for key, value in settings.items()
    ]
    return "-".join(names).lower().replace("+", "")
