"""The mechanisms that are known by name. Nothing here loads Keras before a layer is made."""

from __future__ import annotations

import difflib
import importlib
import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


Head = Literal["first", "vector", "feature-attention", "additive-attention"]


@dataclass(frozen=True)
class Mechanism:
    """How a network makes and reads a mechanism.

    Attributes:
        factory: Where the layer's class (or a function that makes one) is, `"module:attribute"`,
            or itself.
        output_type: `"tokens"` for an output `(batch, tokens, width)`, `"vector"` for
            `(batch, width)`, `"sequence"` for an encoder-decoder, which is a network by itself.
        head: What makes the sentence vector: the `"first"` token, the `"vector"` that is there,
            `"feature-attention"` or `"additive-attention"` over the tokens.
        positions: What stands before it: `"sine"` positions are added, `"softmax"` positions
            multiplied; None where it knows the order itself or does not ask for it.
        size: The layer's argument that a network's `units` fills; None where it has none, and then
            they are the width of the head.
        input_type: `"tokens"`, or `"text"` for a sentence encoder that takes strings.
        options: Default options; those of a method come on top. `form="original"` calls the class's
            `original`, `form="paper"` the class.
    """

    factory: str | Callable[..., Any]
    output_type: Literal["tokens", "vector", "sequence"] = "tokens"
    head: Head = "first"
    positions: Literal["sine", "softmax"] | None = "sine"
    size: str | None = "units"
    input_type: Literal["tokens", "text"] = "tokens"
    options: Mapping[str, Any] = field(default_factory=lambda: _NO_OPTIONS)

    def make(
        self,
        units: int,
        dropout: float,
        options: Mapping[str, Any] | None = None,
        name: str = "mechanism",
    ) -> Any:
        """Make the layer.

        Args:
            units: Its width, or what `size` names instead; an option of that name wins.
            dropout: Rate for the forms that have dropout by default (`form="original"`).
            options: Further arguments of the layer, and `form`.
            name: The layer's name.

        Returns:
            A Keras layer.

        Raises:
            ValueError: Where the class does not take the options.
        """
        arguments = {**self.options, **(options or {})}
        form = arguments.pop("form", "paper")
        cls = load(self.factory) if isinstance(self.factory, str) else self.factory
        if form == "original" and hasattr(cls, "original"):
            factory = cls.original
            arguments.setdefault("dropout", dropout)
        elif form == "paper":
            factory = cls
        else:
            allowed = "'paper' or 'original'" if hasattr(cls, "original") else "'paper'"
            raise ValueError(
                f"option 'form' of {cls.__name__} must be {allowed}. Received: {_cut(repr(form))}"
            )
        if self.size is not None:
            arguments = {self.size: units, **arguments}
        try:
            return factory(name=name, **arguments)
        except (TypeError, ValueError) as error:
            given = ", ".join(
                f"{_line(key)}={_cut(repr(value))}" for key, value in arguments.items()
            )
            no_causal = arguments.get("causal") and not _declares(cls, "causal")
            reason = "it has no causal form" if no_causal else _line(str(error), 400)
            raise ValueError(f"{cls.__name__} cannot be made with {given}: {reason}") from error


_ORIGINAL: Mapping[str, Any] = MappingProxyType({"form": "original"})


def _recurrent(cell: str, **options: Any) -> Mechanism:
    return Mechanism(
        "relation_tf.networks.recurrent:RecurrentNetwork",
        output_type="vector",
        head="vector",
        positions=None,
        options=MappingProxyType({"cell": cell, **options}),
    )


MECHANISMS: dict[str, Mechanism] = {
    "baseline": Mechanism("relation_tf.layers:PointwiseMLP", options=_ORIGINAL),
    "attention": Mechanism("relation_tf.layers:Attention", options=_ORIGINAL),
    "linear-attention": Mechanism("relation_tf.layers:LinearAttention", options=_ORIGINAL),
    "relation": Mechanism("relation_tf.layers:Relation", options=_ORIGINAL),
    "contextualizer": Mechanism(
        "relation_tf.layers:Contextualizer",
        output_type="vector",
        head="vector",
        positions="softmax",
        size="rank",
    ),
    "fcsr": Mechanism(
        "relation_tf.layers:FCSR", head="feature-attention", positions=None, size=None
    ),
    "dan": Mechanism(
        "relation_tf.networks.deep_averaging:DeepAveragingNetwork",
        output_type="vector",
        head="vector",
        positions=None,
    ),
    "cnn": Mechanism(
        "relation_tf.networks.convolution:ConvolutionalNetwork",
        output_type="vector",
        head="vector",
        positions=None,
    ),
    "rnn": _recurrent("rnn"),
    "lstm": _recurrent("lstm"),
    "gru": _recurrent("gru"),
    "bilstm": _recurrent("lstm", bidirectional=True),
    "stacked-lstm": _recurrent("lstm", num_layers=2),
    "stacked-bilstm": _recurrent("lstm", num_layers=2, bidirectional=True),
    "bilstm-attention": Mechanism(
        "relation_tf.networks.recurrent:RecurrentNetwork",
        head="additive-attention",
        positions=None,
        options=MappingProxyType({"bidirectional": True, "return_sequences": True}),
    ),
    "s-lstm": Mechanism(
        "relation_tf.networks.sentence_state_lstm:SentenceStateLSTM",
        output_type="vector",
        head="vector",
        positions=None,
    ),
    "multi-head-attention": Mechanism(
        "relation_tf.networks.multi_head_attention:MultiHeadSelfAttention",
        options=MappingProxyType({"num_heads": 4}),
    ),
    "transformer": Mechanism(
        "relation_tf.networks.encoder_stack:transformer",
        options=MappingProxyType({"num_heads": 4}),
    ),
    # Any of the others in blocks: options = { mechanism = "relation", num_layers = 4 }.
    "encoder": Mechanism(
        "relation_tf.networks.encoder_stack:encoder",
        options=MappingProxyType({"mechanism": "attention"}),
    ),
}

ENCODER_DECODERS: dict[str, Mechanism] = {
    "gru-encoder-decoder": Mechanism(
        "relation_tf.networks.bahdanau:recurrent_encoder_decoder",
        output_type="sequence",
        positions=None,
    ),
    # Around any mechanism with a causal form: options = { mechanism = "relation" }.
    "transformer-encoder-decoder": Mechanism(
        "relation_tf.networks.transformer_decoder:transformer_encoder_decoder",
        output_type="sequence",
        positions=None,
        options=MappingProxyType({"mechanism": "attention"}),
    ),
}
"""What writes: networks of their own, for tasks whose answer is a sequence."""

_SAVED_MODEL = "saved-model:"


def find_mechanism(name: str) -> Mechanism:
    """The entry of a name, or one made for `"package.module:Name"` or `"saved-model:PATH"`.

    Raises:
        ValueError: For a name that is not known.

    Example:
        >>> find_mechanism("relation").factory
        'relation_tf.layers:Relation'
        >>> find_mechanism("my_package.my_module:MyLayer").factory
        'my_package.my_module:MyLayer'
    """
    known = MECHANISMS | ENCODER_DECODERS
    if name in known:
        return known[name]
    if name.startswith(_SAVED_MODEL):
        return Mechanism(
            "relation_tf.networks.saved_model:SavedModelEncoder",
            output_type="vector",
            head="vector",
            positions=None,
            size=None,
            input_type="text",
            options={"path": name.removeprefix(_SAVED_MODEL)},
        )
    if ":" in name:
        return Mechanism(name)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(
        f"unknown mechanism {_cut(name)!r}: expected one of {', '.join(known)}, "
        f"'saved-model:PATH', or 'package.module:Name' for a layer of your own.{hint}"
    )


def mixing_mechanism(mechanism: str, options: Mapping[str, Any]) -> str:
    """What mixes the tokens: a mechanism, or that of the blocks of what is made around one.

    Example:
        >>> mixing_mechanism("encoder", {"mechanism": "relation"})
        'relation'
    """
    entry = (MECHANISMS | ENCODER_DECODERS).get(mechanism)
    around = entry.options.get("mechanism") if entry else None
    return mechanism if around is None else str(options.get("mechanism", around))


def custom_layer(mechanism: str, options: Mapping[str, Any]) -> str | None:
    """What a mechanism runs that is not the package's: a layer of one's own, or a saved model.

    Example:
        >>> custom_layer("encoder", {"mechanism": "my_module:MyLayer"})
        'my_module:MyLayer'
        >>> custom_layer("relation", {}) is None
        True
    """
    mechanism = mixing_mechanism(mechanism, options)
    return None if mechanism in MECHANISMS | ENCODER_DECODERS else mechanism


def load(path: str) -> Any:
    """Import what `"package.module:Name"` names.

    Raises:
        ValueError: Where there is no such module or name.
    """
    module_name, _, attribute = path.partition(":")
    try:
        return operator.attrgetter(attribute)(importlib.import_module(module_name))
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"cannot import mechanism {_cut(path)!r}: {_line(str(error), 200)}"
        ) from error


def _declares(factory: Any, argument: str) -> bool:
    """Whether a class or one that it inherits from takes an argument by name, or a function."""
    if not inspect.isclass(factory):
        parameters = inspect.signature(factory).parameters.values()
        return any(each.name == argument or each.kind is each.VAR_KEYWORD for each in parameters)
    functions = [vars(base)["__init__"] for base in factory.__mro__ if "__init__" in vars(base)]
    return any(argument in inspect.signature(each).parameters for each in functions)


def accepts(layer: Any, argument: str) -> bool:
    """Whether the layer's call takes an argument of that name."""
    return argument in inspect.signature(layer.call).parameters


def _cut(text: str, longest: int = 80) -> str:
    """A text for a message, without its middle where it is long: a path ends with the name."""
    tail = longest // 4
    return text if len(text) <= longest else f"{text[: longest - tail - 3]}...{text[-tail:]}"


def _line(text: str, longest: int = 80) -> str:
    """The same on one line, with escapes for what would steer a terminal."""
    text = _cut(" ".join(text.split()), longest)
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
