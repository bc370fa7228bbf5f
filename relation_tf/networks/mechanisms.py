"""Registry of built-in mechanisms and creation of their layers.

Importing this module does not import Keras.
"""

from __future__ import annotations

import importlib
import inspect
import operator
import sys
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, Literal

from relation_tf.errors import (
    SuiteError,
    UnknownNameError,
    did_you_mean,
    escape,
    no_such_module,
    quote,
)
from relation_tf.registry import MECHANISMS, Mechanism, options_of

__all__ = ["MECHANISMS", "Mechanism"]

Compute = Literal["readout", "all"]
Positions = Literal["sine", "softmax", "learned"]
Network = Literal["benchmark", "plain"]
Sharing = Literal["shared", "shared-private", "adversarial", "single-channel", "bi-channel"]

_RELEASED_CODE = {"variant": "released_code"}


def _layer(name: str, **declaration: Any) -> Mechanism:
    return Mechanism(f"relation_tf.layers:{name}", **declaration)


def _ordered(name: str) -> Mechanism:
    """Return a mechanism that depends on the order of tokens."""
    return _layer(name, positions=None)


def _network(path: str, **declaration: Any) -> Mechanism:
    return Mechanism(f"relation_tf.networks.{path}", **declaration)


def _vector(path: str, **declaration: Any) -> Mechanism:
    """Return a mechanism that depends on the order of tokens and returns one vector."""
    vector: dict[str, Any] = {"output_type": "vector", "head": "vector", "positions": None}
    return _network(path, **(vector | declaration))


def _recurrent(cell: str, **options: Any) -> Mechanism:
    return _vector("sentence_encoders:RecurrentNetwork", options={"cell": cell, **options})


_BUILT_IN = {
    "baseline": _layer("PointwiseMLP", options=_RELEASED_CODE),
    "attention": _layer("Attention", options=_RELEASED_CODE),
    # Without a normalizer, outputs grow with the number of tokens and from block to block.
    "linear-attention": _layer(
        "LinearAttention", options=_RELEASED_CODE, block_options={"normalization": "sum"}
    ),
    "relation": _layer("Relation", options=_RELEASED_CODE),
    "contextualizer": _layer(
        "Contextualizer", output_type="vector", head="vector", positions="softmax", size="rank"
    ),
    "fcsr": _layer("FCSR", head="feature-attention", positions=None, size=None),
    "summary-mixing": _layer("SummaryMixing"),
    "aft-simple": _layer("AFTSimple"),
    "aft-local": _layer("AFTLocal"),
    "fastformer": _layer("Fastformer"),
    "hypermixer": _layer("HyperMixer"),
    "fourier-mixing": _layer("FourierMixing"),
    "gmlp": _layer("GMLP"),
    # The output at the first token is read.
    "local-attention": _layer("LocalAttention", options={"global_tokens": 1}),
    "retention": _ordered("Retention"),
    "mamba2": _ordered("Mamba2"),
    "mlstm": _ordered("MLSTM"),
    "delta-net": _ordered("DeltaNet"),
    "gated-delta-net": _ordered("GatedDeltaNet"),
    "gated-linear-attention": _ordered("GatedLinearAttention"),
    "hgrn2": _ordered("HGRN2"),
    "min-gru": _ordered("MinGRU"),
    "min-lstm": _ordered("MinLSTM"),
    # A causal mechanism, also over the reversed text: options = { mechanism = "mamba2" }.
    "two-directions": _network(
        "mixing:two_directions", positions=None, options={"mechanism": "mamba2"}
    ),
    "dan": _vector("sentence_encoders:DeepAveragingNetwork"),
    "cnn": _vector("sentence_encoders:ConvolutionalNetwork"),
    "rnn": _recurrent("rnn"),
    "lstm": _recurrent("lstm"),
    "gru": _recurrent("gru"),
    "bilstm": _recurrent("lstm", bidirectional=True),
    "stacked-lstm": _recurrent("lstm", num_layers=2),
    "stacked-bilstm": _recurrent("lstm", num_layers=2, bidirectional=True),
    "bilstm-attention": _network(
        "sentence_encoders:RecurrentNetwork",
        head="additive-attention",
        positions=None,
        options={"bidirectional": True, "return_sequences": True},
    ),
    "s-lstm": _vector("sentence_encoders:SentenceStateLSTM"),
    "multi-head-attention": _network("encoders:MultiHeadSelfAttention", options={"num_heads": 4}),
    "transformer": _network("encoders:transformer", options={"num_heads": 4}),
    # Blocks of another mechanism: options = { mechanism = "relation", num_layers = 4 }.
    "encoder": _network("encoders:encoder", options={"mechanism": "attention"}, pretrainable=True),
    # Causal blocks for each direction, for pre-training with the objective "both".
    "bidirectional-encoder": _network(
        "encoders:bidirectional_encoder", options={"mechanism": "attention"}, pretrainable=True
    ),
    "gru-encoder-decoder": _network(
        "decoders:recurrent_encoder_decoder", output_type="sequence", positions=None
    ),
    # Other attention: options = { attention = "dot" }, or "none".
    "lstm-encoder-decoder": _network(
        "decoders:recurrent_encoder_decoder",
        output_type="sequence",
        positions=None,
        options={"cell": "lstm", "attention": "general"},
    ),
    # Any mechanism with a causal form: options = { mechanism = "relation" }.
    "transformer-encoder-decoder": _network(
        "decoders:transformer_encoder_decoder",
        output_type="sequence",
        positions=None,
        options={"mechanism": "attention"},
    ),
}
for _name, _entry in _BUILT_IN.items():
    MECHANISMS.add(_name, _entry, __name__)


def find_mechanism(name: str) -> Mechanism:
    """Return the entry of a registered name or `"package.module:Name"`.

    Raises:
        UnknownNameError: If the name is neither.
        SuiteError: If a custom layer is given without the colon.

    Example:
        >>> find_mechanism("relation").factory
        'relation_tf.layers:Relation'
        >>> find_mechanism("my_package.my_module:MyLayer").factory
        'my_package.my_module:MyLayer'
    """
    if name not in MECHANISMS:
        if ":" in name:
            return Mechanism(name)
        package, dot, layer = name.rpartition(".")
        if dot and package.replace(".", "").isidentifier():
            hint = "" if layer == "py" else f" Did you mean {quote(f'{package}:{layer}')}?"
            raise SuiteError(
                f"unknown mechanism {quote(name)}.{hint} A custom layer must be "
                f"'package.module:Name', such as {quote(f'{package}:Name')}."
            )
    return MECHANISMS.find(name, "or 'package.module:Name' for a custom layer")


def make_layer(
    entry: Mechanism,
    units: int,
    dropout: float,
    options: Mapping[str, Any] | None = None,
    name: str = "mechanism",
) -> Any:
    """Create the layer of a mechanism.

    Args:
        entry: The mechanism.
        units: Value of the size argument `entry.size`, usually the width; an option of that name
            overrides it.
        dropout: Dropout rate of layers with dropout by default (`variant="released_code"`).
        options: Further arguments of the layer; they override the options of the entry.
        name: Name of the layer.

    Returns:
        A Keras layer.

    Raises:
        UnknownNameError: If the class does not know an option; the message suggests the nearest.
        ValueError: If the class rejects the options.
    """
    arguments = {**entry.options, **(options or {})}
    if arguments.get("variant") == _RELEASED_CODE["variant"]:
        arguments.setdefault("dropout", dropout)
    if entry.size is not None:
        arguments = {entry.size: units, **arguments}
    factory = factory_of(entry)
    try:
        return factory(name=name, **arguments)
    except (TypeError, ValueError) as error:
        known = options_of(factory)
        for option in options or {}:
            if option not in known and f"'{option}'" in str(error):
                raise UnknownNameError(f"{factory.__name__} option", option, known) from error
        values = ", ".join(f"{_line(key)}={_cut(repr(value))}" for key, value in arguments.items())
        reason = _line(str(error), 400)
        raise ValueError(f"cannot create {factory.__name__} with {values}: {reason}") from error


def factory_of(entry: Mechanism) -> Callable[..., Any]:
    """Return the class of a mechanism's layer, or the function that makes it."""
    return load(entry.factory) if isinstance(entry.factory, str) else entry.factory


def in_blocks(
    entry: Mechanism, options: Mapping[str, Any] | None, equations: bool
) -> dict[str, Any]:
    """Return the options of a mechanism inside Transformer blocks.

    Args:
        entry: The mechanism.
        options: Options of the user, which override all others.
        equations: If True, select the equations of a mechanism with variants: the released code has
            no causal form.

    Example:
        >>> in_blocks(find_mechanism("linear-attention"), {"use_bias": True}, equations=True)
        {'normalization': 'sum', 'variant': 'equations', 'use_bias': True}
        >>> in_blocks(find_mechanism("linear-attention"), {}, equations=False)
        {}
    """
    selected = {"variant": "equations"} if equations and "variant" in entry.options else {}
    variant = {**entry.options, **selected, **(options or {})}.get("variant")
    defaults = {} if variant == _RELEASED_CODE["variant"] else entry.block_options
    return {**defaults, **selected, **(options or {})}


def block_mechanism(mechanism: str, options: Mapping[str, Any]) -> str:
    """Return the mechanism in the blocks of a stack, or the argument if it is no stack.

    Example:
        >>> gru = {"mechanism": "two-directions", "options": {"mechanism": "min-gru"}}
        >>> block_mechanism("encoder", gru), mixing_mechanism("encoder", gru)
        ('two-directions', 'min-gru')
    """
    return str(_inside(mechanism, options).get("mechanism", mechanism))


def mixing_mechanism(mechanism: str, options: Mapping[str, Any]) -> str:
    """Return the mechanism that mixes tokens: the argument, or the innermost one of a stack.

    Example:
        >>> mixing_mechanism("encoder", {"mechanism": "relation"})
        'relation'
    """
    inside = _inside(mechanism, options)
    if not inside:
        return mechanism
    return mixing_mechanism(str(inside["mechanism"]), _table(inside.get("options")))


def nested_mechanisms(mechanism: str, options: Mapping[str, Any]) -> list[str]:
    """Return a mechanism and all inside: of encoders, of both directions and of a decoder.

    Example:
        >>> gru = {"mechanism": "two-directions", "options": {"mechanism": "min-gru"}}
        >>> nested_mechanisms("encoder", gru)
        ['encoder', 'two-directions', 'min-gru']
        >>> both = {"mechanism": "relation", "decoder_mechanism": "attention"}
        >>> nested_mechanisms("transformer-encoder-decoder", both)
        ['transformer-encoder-decoder', 'relation', 'attention']
    """
    names, entry = [mechanism], MECHANISMS.get(mechanism)
    if inside := _inside(mechanism, options):
        names += nested_mechanisms(str(inside["mechanism"]), _table(inside.get("options")))
    if entry is not None and entry.output_type == "sequence" and options.get("decoder_mechanism"):
        decoder_options = _table(options.get("decoder_options"))
        names += nested_mechanisms(str(options["decoder_mechanism"]), decoder_options)
    return [*dict.fromkeys(names)]


def width_step(mechanism: Any, options: Mapping[str, Any]) -> int:
    """Return a divisor of all valid widths: the number of heads.

    An encoder sets the heads of the mechanism inside it. Two directions that are concatenated have
    half of the width each.

    Args:
        mechanism: Name, or a layer's class.
        options: Its options.

    Example:
        >>> width_step("encoder", {"mechanism": "multi-head-attention"})
        4
        >>> width_step("two-directions", {"mechanism": "min-gru", "merge": "concatenate"})
        2
    """
    inside: Mapping[str, Any] = {}
    factory, declared = mechanism, options
    if isinstance(mechanism, str):
        inside, entry = _inside(mechanism, options), find_mechanism(mechanism)
        factory, declared = factory_of(entry), {**entry.options, **options}
    parts = 2 if inside.get("merge") == "concatenate" else 1
    default = inspect.signature(factory).parameters.get("num_heads")
    for heads in (declared.get("num_heads"), default and default.default):
        if isinstance(heads, Integral):
            return parts * int(heads)
    return parts * (width_step(inside["mechanism"], _table(inside.get("options"))) if inside else 1)


def _inside(mechanism: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return all options of a mechanism around another one; empty for other mechanisms."""
    entry = MECHANISMS.get(mechanism)
    if entry is None or entry.options.get("mechanism") is None:
        return {}
    return {**entry.options, **options}


def _table(options: Any) -> Mapping[str, Any]:
    """Return options, or none if they are not a table; building the layer reports them."""
    return options if isinstance(options, Mapping) else {}


def custom_layers(mechanism: str, options: Mapping[str, Any]) -> list[str]:
    """Return the custom layers that a mechanism uses: names not registered.

    Example:
        >>> custom_layers("encoder", {"mechanism": "my_module:MyLayer"})
        ['my_module:MyLayer']
        >>> custom_layers("relation", {})
        []
    """
    return [name for name in nested_mechanisms(mechanism, options) if name not in MECHANISMS]


def is_built_in(mechanism: str, options: Mapping[str, Any]) -> bool:
    """Return True if the mechanism, and the mechanisms inside its blocks, are built-in.

    Example:
        >>> is_built_in("encoder", {"mechanism": "relation"})
        True
        >>> is_built_in("encoder", {"mechanism": "my_module:MyLayer"})
        False
    """
    names = nested_mechanisms(mechanism, options)
    return all(name in MECHANISMS and MECHANISMS.origin(name) == __name__ for name in names)


def load(path: str, kind: str = "mechanism") -> Any:
    """Import the object at `"package.module:Name"`.

    Args:
        path: The path.
        kind: Kind of the object, for messages.

    Raises:
        ValueError: If the module or the name does not exist.
    """
    module_name, _, attribute = path.rpartition(":")  # a path may begin with C:
    try:
        return operator.attrgetter(attribute)(importlib.import_module(module_name))
    except (ImportError, AttributeError) as error:
        reason = _line(str(error), 200)
        if module_name in sys.modules:
            hint = did_you_mean(attribute, dir(sys.modules[module_name]))
            reason += hint and f".{hint}"
        elif f"{module_name}.".startswith(f"{getattr(error, 'name', None)}."):
            reason = no_such_module(module_name)
        raise ValueError(f"cannot import {kind} {_cut(path)!r}: {reason}") from error


def accepts(layer: Any, argument: str) -> bool:
    """Return True if the layer's `call` has an argument of that name."""
    return argument in inspect.signature(layer.call).parameters


def _cut(text: str, longest: int = 80) -> str:
    """Shorten a long text in the middle, because a path ends with the name."""
    tail = longest // 4
    return text if len(text) <= longest else f"{text[: longest - tail - 3]}...{text[-tail:]}"


def _line(text: str, longest: int = 80) -> str:
    """Return the text on one line, shortened and escaped."""
    return escape(_cut(" ".join(text.split()), longest))
