"""Methods: named configurations of mechanisms. Does not import Keras."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NonNegativeFloat,
    PositiveFloat,
)

from relation_tf.config.training import (
    Embeddings,
    FactoryName,
    Options,
    TrainingSettings,
    can_be_written,
    path_of_class,
)
from relation_tf.faults import Positive, Settings
from relation_tf.networks.config import Sharing
from relation_tf.networks.mechanisms import find_mechanism
from relation_tf.tasks.custom import Name
from relation_tf.tasks.task import Tokens, VocabularySize

TRANSFERRED = ("single-channel", "bi-channel")
"""Sharing with layers that are trained on the other tasks of a group and then frozen."""
EncoderWeights = Literal["random", "pretrained", "frozen"]


def _count(size: Any) -> Any:
    """Convert a size such as `"1.5M"` to a number."""
    pattern = r"(\d{1,12}(?:\.\d{1,12})?)([KM])"
    if isinstance(size, str) and (written := re.fullmatch(pattern, size)):
        return round(float(written[1]) * {"K": 1_000, "M": 1_000_000}[written[2]])
    return size


Size = Annotated[int, Field(ge=1, lt=2**31), BeforeValidator(_count)]
# Short names of options in names of methods; "num_layers" becomes "layers".
_SYMBOLS = {"num_steps": "k", "window": "w"}

# Settings of the suite's tokens that do not apply to other tokens.
_OF_TOKENS = {
    "text": ("vocabulary_size", "embeddings", "start_token", "max_length"),
    "byte": ("vocabulary_size", "embeddings"),
    "word": ("vocabulary_size",),
    "wordpiece": ("vocabulary_size",),
}


def _known(mechanism: str) -> str:
    find_mechanism(mechanism)
    return mechanism


class Method(Settings):
    """A named configuration of a mechanism, or several.

    Attributes:
        mechanism: A name, `"package.module:Name"`, `"saved-model:PATH"`, or a Keras layer class.
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
            `vocabulary_size` then does not apply, nor do its `embeddings` for `"byte"` and
            `"text"`, and its `start_token` and `max_length` for `"text"`.
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
        other = _OF_TOKENS[self.tokens] if self.tokens else ()
        given = {key: value for key in OF_METHODS if (value := getattr(self, key)) is not None}
        return {key: TrainingSettings.model_fields[key].default for key in other} | given

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


def keys_of(method: Method) -> dict[str, Any]:
    """Return what distinguishes an expanded method: its name, mechanism, size and options."""
    return {
        "method": method.name,
        "mechanism": method.mechanism,
        "units": method.units,
        "size": None if method.size is None else size_name(cast(int, method.size)),
        **method.options,
    }


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
