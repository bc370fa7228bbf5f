"""What is wrong with a token-mixing layer of one's own, before a suite spends hours on it."""

from __future__ import annotations

import inspect
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import keras
import numpy as np
from keras import ops

from relation_tf.layers.masking import zero_masked
from relation_tf.networks.mechanisms import accepts, load, make_layer
from relation_tf.networks.mixing import (
    accepted,
    copy_of,
    entry_of,
    is_layer,
    mix_all,
    refuse_options,
)
from relation_tf.networks.next_token import state_change
from relation_tf.networks.sentence_encoder import positive_integer
from relation_tf.registry import Mechanism

Status = Literal["ok", "failed", "warning", "not applicable"]

_SEED = 0
_DROPOUT = 0.5  # of our own mechanisms in the form that has dropout
_BATCH, _TOKENS = 4, 6  # not alike: a layer that mixes the axes up is seen
_KEPT = np.arange(_TOKENS) < np.array([[6], [3], [1], [4]])
_EVERYTHING = np.ones_like(_KEPT)
_LENGTHS = (1, 2, 7)
_PADDING = 100.0  # how large the other values in the padding are, beside tokens around 1
# Of the largest entry. Matrix products of another shape differ so much in TensorFloat-32.
_TOLERANCE = 1e-3
_NOTHING_TO_COMPARE = "NaN, infinity or another shape"
_LONGEST = 300  # characters of an exception
_HALF_TOLERANCE = 0.1  # bfloat16 has 8 bits, and some dozen roundings follow each other


@dataclass(frozen=True)
class LayerCheck:
    """The outcome of one check.

    Attributes:
        name: What was checked.
        status: `"ok"`; `"failed"`, which a suite must not run with; `"warning"`, which it can; or
            `"not applicable"`.
        message: What was expected, what came and how to mend it; or why it does not apply.
    """

    name: str
    status: Status
    message: str


@dataclass(frozen=True)
class LayerReport:
    """What `check_layer` found.

    Attributes:
        layer: What was checked, and how it was made.
        checks: The checks in their order.

    Example:
        >>> checks = (LayerCheck("padding", "warning", "Expected one thing, got another."),)
        >>> print(LayerReport("my_layer:Mine", checks))
        my_layer:Mine
        warning         padding  Expected one thing, got another.
        passed: a suite can run it; 1 warning
    """

    layer: str
    checks: tuple[LayerCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether a suite can run the layer: nothing failed; there may be warnings."""
        return self._count("failed") == 0

    def _count(self, status: Status) -> int:
        return sum(check.status == status for check in self.checks)

    def __str__(self) -> str:
        width = max(len(check.name) for check in self.checks)
        lines = [f"{check.status:14}  {check.name:{width}}  {check.message}"
                 for check in self.checks]  # fmt: skip
        failed, warned = self._count("failed"), self._count("warning")
        verdict = "passed: a suite can run it"
        if failed:
            verdict = f"failed: {failed} to mend before a suite"
        if warned:
            verdict += f"; {warned} warning{'s' if warned > 1 else ''}"
        return "\n".join([self.layer, *lines, verdict])


def check_layer(
    layer_or_name: Any,
    units: int = 8,
    width: int = 6,
    options: Mapping[str, Any] | None = None,
) -> LayerReport:
    """Check a token-mixing layer as networks and suites use it.

    The layer takes `(batch, tokens, width)` and gives `(batch, tokens, units)` or `(batch, units)`.
    It is made with `units`, and is given a `mask` where its call takes one (`query_mask` and
    `value_mask` where it takes `value`). It is called on small random sentences, and its outputs
    are compared with one another; a layer that raises is reported, not raised. Random seeds of
    Python, NumPy and Keras are set on the way.

    Args:
        layer_or_name: `"package.module:Name"`, a name of `MECHANISMS`, a Keras layer class, or an
            instance (a template, cloned by `from_config`).
        units: Width that is asked of the layer, at least 1; an instance has its own.
        width: Width of its input, at least 1.
        options: Further arguments of the layer.

    Returns:
        A report: `.checks`, `.passed`, and a table as `str()`.

    Raises:
        ValueError: For a name that cannot be imported or is no layer, sizes that are no positive
            integers, or options for an instance.

    Example:
        >>> from relation_tf.networks import check_layer
        >>> report = check_layer("relation")
        >>> report.passed
        True
        >>> report.checks[0].name
        'made'
    """
    subject = _Subject(
        layer_or_name,
        _entry(layer_or_name),
        positive_integer("units", units),
        positive_integer("width", width),
        dict(options or {}),
    )
    refuse_options(layer_or_name, options)
    outcomes: dict[str, LayerCheck] = {}
    # Keras's warnings speak of the networks that are made here, not of the layer.
    with warnings.catch_warnings(action="ignore"), _dtype_policy("float32"):
        for check in _CHECKS:
            outcomes[check.name] = check.outcome(subject, outcomes)
    return LayerReport(str(subject), tuple(outcomes.values()))


def _entry(layer_or_name: Any) -> Mechanism:
    """How to make the layer; what it names is imported."""
    entry = entry_of(layer_or_name)
    if entry.input_type == "text":
        raise ValueError(f"expected a layer that reads tokens, not text. Received: {layer_or_name}")
    if not isinstance(entry.factory, str):
        return entry
    try:
        factory = load(entry.factory)
    except ValueError:
        raise
    # A module of one's own may raise anything when it is imported.
    except Exception as error:
        raise ValueError(f"cannot import mechanism {layer_or_name!r}: {_told(error)}") from error
    if not callable(factory):
        raise ValueError(
            f"expected {layer_or_name!r} to name a Keras layer class. Received: {factory!r}"
        )
    return entry


@dataclass(frozen=True)
class _Subject:
    """The layer that is checked, and what it is called with."""

    mechanism: Any
    entry: Mechanism
    units: int
    width: int
    options: dict[str, Any]

    def __str__(self) -> str:
        name = self.mechanism
        if isinstance(name, type):
            name = f"{name.__module__}:{name.__qualname__}"
        elif is_layer(name):
            name = f"{type(name).__name__} {name.name!r}"
        asked = {} if is_layer(self.mechanism) else {"units": self.units}
        settings = {**asked, "width": self.width, **self.options}
        told = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        return f"{name} with {told} ({keras.backend.backend()})"

    @property
    def own(self) -> bool:
        """Whether it is a class of one's own, which has to be as wide as it is asked to be."""
        return self.entry.factory == self.mechanism and not is_layer(self.mechanism)

    def layer(self) -> Any:
        """The layer, made anew from the same seed."""
        keras.utils.set_random_seed(_SEED)
        if is_layer(self.mechanism):
            layer = copy_of(self.mechanism, name="mechanism")
        else:
            layer = make_layer(self.entry, self.units, _DROPOUT, self.options)
        if not is_layer(layer):
            raise _FaultError(
                f"Expected a Keras layer, got {type(layer).__name__}.",
                "name a subclass of keras.layers.Layer.",
            )
        layer.supports_masking = True  # as networks do: masks go by name
        return layer

    def model(self, tokens: int | None = _TOKENS) -> keras.Model:
        """A network of the layer alone, from tokens and a mask."""
        x = keras.Input((tokens, self.width), name="x")
        mask = keras.Input((tokens,), dtype="bool", name="mask")
        return keras.Model([x, mask], mix_all(self.layer(), x, mask))

    @cached_property
    def x(self) -> np.ndarray:
        """Tokens."""
        return self.tokens(_BATCH, _TOKENS)

    def tokens(self, batch: int, tokens: int) -> np.ndarray:
        """Random tokens, as large as embeddings are after some training."""
        rng = np.random.default_rng(tokens)
        return rng.normal(size=(batch, tokens, self.width)).astype("float32")

    @cached_property
    def _mixer(self) -> Any:
        return self.layer()

    def mixed(self, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """The output of one and the same layer, not in training."""
        return _array(mix_all(self._mixer, _tensor(x), _tensor(mask)))

    def read(self, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Its read-out of the first token."""
        tokens, kept = _tensor(x), _tensor(mask)
        masks = {"query_mask": kept[:, :1], "value_mask": kept}
        layer = self._mixer
        return _array(layer(tokens[:, :1], value=tokens, **accepted(layer, masks)))

    @property
    def masks(self) -> list[str]:
        """The arguments of its call that a network hands a mask to."""
        names = ["query_mask", "value_mask"] if accepts(self._mixer, "value") else ["mask"]
        return [name for name in names if accepts(self._mixer, name)]


class _FaultError(Exception):
    """What was expected and came, and how to mend it."""

    def __init__(self, found: str, mend: str) -> None:
        super().__init__(f"{found} To mend: {mend}")


class _NotApplicableError(Exception):
    """Why a check does not apply."""


@dataclass(frozen=True)
class _Check:
    """A check.

    Attributes:
        name: What it is called.
        run: The check: gives what it found right, or raises what it found wrong.
        mend: What to do where the layer raises.
        needed: Whether a suite needs it; the others are advice.
        after: The checks without which this one has nothing to say.
    """

    name: str
    run: Callable[[_Subject], str]
    mend: str
    needed: bool = True
    after: Sequence[str] = ("made", "output shape")

    def outcome(self, subject: _Subject, earlier: Mapping[str, LayerCheck]) -> LayerCheck:
        for name in self.after:
            before = earlier[name]
            if before.status == "not applicable":
                return LayerCheck(self.name, "not applicable", before.message)
            if before.status != "ok":
                return LayerCheck(self.name, "not applicable", f"It needs {name!r} to be ok first.")
        bad: Status = "failed" if self.needed else "warning"
        try:
            return LayerCheck(self.name, "ok", self.run(subject))
        except _NotApplicableError as reason:
            return LayerCheck(self.name, "not applicable", str(reason))
        except _FaultError as fault:
            return LayerCheck(self.name, bad, str(fault))
        # The layer may raise anything, and that is what is looked for.
        except Exception as error:
            found = f"Expected no exception, got {_told(error)}"
            return LayerCheck(self.name, bad, f"{found} To mend: {self.mend}")


def _made(subject: _Subject) -> str:
    return f"{type(subject.layer()).__name__} is made."


def _output_shape(subject: _Subject) -> str:
    shape = subject.mixed(subject.x, _KEPT).shape
    last = subject.units if subject.own else shape[-1]
    allowed = [(_BATCH, _TOKENS, last), (_BATCH, last)]
    if shape not in allowed:
        raise _FaultError(
            f"Expected an output of shape {allowed[0]} or {allowed[1]} for an input of shape "
            f"{subject.x.shape}, got {shape}.",
            "give each token, or each row, `units` values.",
        )
    symbolic = subject.model().output.shape
    if tuple(symbolic[1:]) != shape[1:]:
        raise _FaultError(
            f"Expected Keras to be told of the output's shape {(None, *shape[1:])}, got "
            f"{tuple(symbolic)}.",
            "correct `compute_output_shape`, or leave it out.",
        )
    return f"{subject.x.shape} gives {shape}."


def _lengths(subject: _Subject) -> str:
    model = subject.model(None)
    for length in _LENGTHS:
        x, mask = subject.tokens(_BATCH, length), np.ones((_BATCH, length), bool)
        output = _array(model([x, mask]))
        tokens = (length,) if output.ndim == 3 else ()
        expected = (_BATCH, *tokens, output.shape[-1])
        if len(model.output.shape) != output.ndim or output.shape != expected:
            raise _FaultError(
                f"Expected an output of shape {expected} for {length} tokens, got {output.shape}.",
                "take the number of tokens from keras.ops.shape(x)[1].",
            )
        if not np.isfinite(output).all():
            raise _FaultError(
                f"Expected finite outputs for {length} tokens, got {_unsound(output)}.",
                "look for a division by the number of tokens less one, or for a variance of one.",
            )
    return f"built for any number of tokens, called with {', '.join(map(str, _LENGTHS))}."


def _padding(subject: _Subject) -> str:
    if not subject.masks:
        asked = "query_mask=None and value_mask" if accepts(subject._mixer, "value") else "mask"
        raise _FaultError(
            "Expected a call that takes a mask, got none: padded networks see the padding.",
            f"give `call` the argument {asked}=None, True where a token is kept.",
        )
    names = " and ".join(f"`{name}`" for name in subject.masks)
    mend = f"replace masked tokens by zero first: ops.where({subject.masks[-1]}[..., None], x, 0.)."
    expected = _kept(subject.mixed(subject.x, _KEPT))
    other = np.where(_KEPT[..., None], subject.x, _PADDING * subject.x[::-1])
    changed = _difference(_kept(subject.mixed(other, _KEPT)), expected)
    if changed > _TOLERANCE:
        raise _FaultError(
            f"Expected the same outputs at kept tokens whatever masked tokens hold ({names}), got "
            f"{_apart(changed)}.",
            mend,
        )
    longer = np.pad(other, ((0, 0), (0, 3), (0, 0)), constant_values=_PADDING)
    output = subject.mixed(longer, np.pad(_KEPT, ((0, 0), (0, 3))))
    longest = _difference(_kept(output[:, :_TOKENS] if output.ndim == 3 else output), expected)
    if longest > _TOLERANCE:
        raise _FaultError(
            f"Expected the same outputs with 3 more padded tokens ({names}), got "
            f"{_apart(longest)}.",
            "divide by the number of kept tokens, not by that of all.",
        )
    return f"{names}: neither what it holds nor how long it is changes an output."


def _nan_padding(subject: _Subject) -> str:
    mend = (
        "replace masked tokens by zero before anything else, "
        f"ops.where({subject.masks[-1]}[..., None], x, 0.): NaN * 0 is NaN."
    )
    expected = _kept(subject.mixed(subject.x, _KEPT))
    for value in (np.nan, np.inf):
        x = np.where(_KEPT[..., None], subject.x, np.float32(value))
        changed = _difference(_kept(subject.mixed(x, _KEPT)), expected)
        if changed > _TOLERANCE:
            raise _FaultError(
                f"Expected the same outputs at kept tokens with {value} at masked ones, got "
                f"{_apart(changed)}.",
                mend,
            )
    holding = np.where(_KEPT[..., None], subject.x, np.float32(np.nan))
    _, gradients = _gradients(subject, holding)
    for name, gradient in gradients.items():
        if not np.isfinite(gradient).all():
            raise _FaultError(
                f"Expected finite gradients with NaN at masked tokens, got "
                f"{_unsound(gradient)} for {name}.",
                mend,
            )
    return "NaN and inf at masked tokens change no output and no gradient."


def _empty_row(subject: _Subject) -> str:
    mask = _KEPT.copy()
    mask[1] = False
    row = subject.mixed(subject.x, mask)[1]
    if not np.isfinite(row).all():
        raise _FaultError(
            f"Expected finite outputs for a row without a kept token, got {_unsound(row)}.",
            "divide by ops.maximum(count, 1); mask a softmax by -1e9, not by -inf.",
        )
    return "a row without a kept token gives finite values."


def _batch_order(subject: _Subject) -> str:
    expected = subject.mixed(subject.x, _KEPT)
    order = np.array([2, 0, 3, 1])
    permuted = _difference(subject.mixed(subject.x[order], _KEPT[order]), expected[order])
    alone = _difference(subject.mixed(subject.x[1:2], _KEPT[1:2]), expected[1:2])
    if max(permuted, alone) > _TOLERANCE:
        raise _FaultError(
            f"Expected each row by itself, got {_apart(permuted)} in another order "
            f"and {_apart(alone)} for a row alone.",
            "let no sum, mean or norm run over axis 0, the batch.",
        )
    return "rows in another order, and one alone, give the same."


def _training_batch(subject: _Subject) -> str:
    model = subject.model()
    alone, again = (_array(model([subject.x[:1], _KEPT[:1]], training=True)) for _ in range(2))
    if _difference(again, alone) > _TOLERANCE:
        raise _NotApplicableError("Outputs in training are random: rows cannot be compared.")
    # Made anew: training may have changed what it keeps.
    together = _array(subject.model()([subject.x, _KEPT], training=True))
    changed = _difference(alone, together[:1])
    if changed > _TOLERANCE:
        raise _FaultError(
            f"Expected a row alone as in a batch with training=True, got {_apart(changed)}: "
            "padding and other rows have a part in it.",
            "use LayerNormalization instead of BatchNormalization, if that is not meant.",
        )
    return "a row alone gives the same as in a batch, in training too."


def _read_out(subject: _Subject) -> str:
    if not accepts(subject._mixer, "value"):
        raise _NotApplicableError("`call` takes no `value`: networks compute all tokens.")
    if subject.entry.head != "first":
        raise _NotApplicableError("Networks read all tokens of it.")
    first, all_tokens = subject.read(subject.x, _KEPT), subject.mixed(subject.x, _KEPT)
    expected = all_tokens[:, :1] if all_tokens.ndim == 3 else all_tokens
    if first.shape != expected.shape:
        raise _FaultError(
            f"Expected layer(x[:, :1], value=x) of shape {expected.shape}, got {first.shape}.",
            "give one output for each token of the first argument.",
        )
    changed = _difference(first, expected)
    if changed > _TOLERANCE:
        raise _FaultError(
            "Expected layer(x[:, :1], value=x) to equal the first token of layer(x), got "
            f"{_apart(changed)}.",
            "let `value` be the tokens that are mixed, or give that argument another name.",
        )
    return "layer(x[:, :1], value=x) equals the first token of layer(x)."


def _causal(subject: _Subject) -> str:
    if not getattr(subject._mixer, "causal", False):
        raise _NotApplicableError("The layer is not `causal`.")
    seen = _TOKENS // 2
    other = np.concatenate([subject.x[:, :seen], subject.x[::-1, seen:]], axis=1)
    outputs = [subject.mixed(x, _EVERYTHING) for x in (other, subject.x)]
    if outputs[0].ndim != 3:
        raise _NotApplicableError("It gives no output for each token.")
    changed = _difference(*(output[:, :seen] for output in outputs))
    if changed > _TOLERANCE:
        raise _FaultError(
            f"Expected later tokens to change no output of a causal layer, got {_apart(changed)}.",
            "let the output at position i depend on x[:, : i + 1] alone, or set causal=False.",
        )
    return "later tokens change no output."


def _steps(subject: _Subject) -> str:
    layer = subject._mixer
    missing = [name for name in ("initial_state", "step") if not hasattr(layer, name)]
    if missing:
        raise _NotApplicableError(f"It goes through whole texts: it has no `{missing[0]}`.")
    if grown := state_change(layer, subject.width):
        mend = "make room in `initial_state` for what comes."
        raise _FaultError(f"{grown[0].upper()}{grown[1:]}.", mend)
    state, outputs = layer.initial_state(_BATCH, _TOKENS), []
    for place in range(_TOKENS):
        output, state = layer.step(_tensor(subject.x[:, place : place + 1]), state)
        outputs.append(_array(output))
    by_steps = np.concatenate(outputs, axis=1)
    changed = _difference(by_steps, subject.mixed(subject.x, _EVERYTHING))
    if changed > _TOLERANCE:
        raise _FaultError(
            f"Expected steps to give what the whole text gives, got {_apart(changed)}.",
            "let `step` take (batch, 1, width) and give (batch, 1, units) and the next state.",
        )
    return "one token at a time gives what the whole text gives."


def _gradient(subject: _Subject) -> str:
    weights, gradients = _gradients(subject, subject.x)
    for name, gradient in gradients.items():
        if not np.isfinite(gradient).all():
            raise _FaultError(
                f"Expected finite gradients, got {_unsound(gradient)} for {name}.",
                "look for a square root or a norm at zero, a logarithm or a division.",
            )
    dead = [name for name in weights if not gradients[name].any()]
    if dead:
        raise _FaultError(
            f"Expected a gradient for each of {len(weights)} trainable weights, got none for "
            f"{', '.join(dead)}.",
            "use it in `call` without rounding or stop_gradient, or set trainable=False.",
        )
    return f"finite for all {len(weights)} trainable weights, and none is without."


def _determinism(subject: _Subject) -> str:
    models, outputs = [], []
    for _ in range(2):
        models.append(subject.model())
        outputs.append(_array(models[-1]([subject.x, _KEPT], training=True)))
    for one, other in zip(*(model.weights for model in models), strict=True):
        changed = _difference(_array(other), _array(one))
        if changed > 0:
            raise _FaultError(
                f"Expected the same seed to give the same weights, got {_apart(changed)} in "
                f"{one.path}.",
                "draw with Keras initializers.",
            )
    changed = _difference(*outputs)
    if changed > _TOLERANCE:
        raise _FaultError(
            "Expected the same seed to give the same outputs with training=True, got "
            f"{_apart(changed)}.",
            "draw with keras.random and a keras.random.SeedGenerator made in __init__.",
        )
    return "the same seed gives the same weights and the same outputs in training."


def _saving(subject: _Subject) -> str:
    layer = subject.layer()
    cls = type(layer)
    name = keras.saving.get_registered_name(cls)
    registered = ">" in name or cls.__module__.startswith("keras.")
    register = "put @keras.saving.register_keras_serializable() before the class"
    known = keras.saving.get_registered_object(name)
    if known not in (None, cls):
        raise _FaultError(
            f"Expected Keras to know this class by the name {name!r}, which is taken by that of "
            f"{known.__module__}: a saved model would load with it.",
            "put @keras.saving.register_keras_serializable(package=...) with a package of your own "
            "before the class.",
        )
    config = layer.get_config()
    missing = [name for name in _arguments(cls) if name not in config]
    if missing:
        raise _FaultError(
            f"Expected all arguments of {cls.__name__} in get_config(), got none of: "
            f"{', '.join(missing)}.",
            f"return {{**super().get_config(), {missing[0]!r}: self.{missing[0]}, ...}}.",
        )
    model = subject.model()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        try:
            again = keras.saving.load_model(path)
        except Exception as error:
            mend = "take in __init__ what get_config gives, and build children in build()."
            raise _FaultError(
                f"Expected a saved model to load, got {_told(error)}",
                mend if registered else f"{register}.",
            ) from error
    changed = _difference(_array(again([subject.x, _KEPT])), _array(model([subject.x, _KEPT])))
    if changed > _TOLERANCE:
        raise _FaultError(
            f"Expected the same outputs from a saved model, got {_apart(changed)}.",
            "keep all that outputs depend on in weights or in get_config().",
        )
    hint = "" if registered else f" (elsewhere too, if you {register})"
    return f"a saved model loads and gives the same{hint}."


def _mixed_precision(subject: _Subject) -> str:
    if is_layer(subject.mechanism):
        raise _NotApplicableError("An instance keeps the policy that it was made with.")
    exact = subject.mixed(subject.x, _KEPT)
    with _dtype_policy("mixed_bfloat16"):
        layer = subject.layer()
        output = mix_all(layer, _tensor(subject.x), _tensor(_KEPT))
        if len(layer.weights) == len(subject._mixer.weights):
            layer.set_weights(subject._mixer.get_weights())
            output = mix_all(layer, _tensor(subject.x), _tensor(_KEPT))
    dtype = keras.backend.standardize_dtype(output.dtype)
    if dtype != "bfloat16":
        raise _FaultError(
            f"Expected bfloat16 outputs under mixed_bfloat16, got {dtype}.",
            "cast constants to x.dtype, and hand dtype=self.dtype_policy to children.",
        )
    changed = _difference(_kept(_array(output)), _kept(exact))
    if changed > _HALF_TOLERANCE:
        raise _FaultError(
            f"Expected outputs under mixed_bfloat16 within {_percent(_HALF_TOLERANCE)} of "
            f"float32's, got {_apart(changed)}.",
            "sum over tokens, and take exponentials, in float32.",
        )
    return f"under mixed_bfloat16 within {_percent(changed)} of float32."


def _xla(subject: _Subject) -> str:
    expected = subject.mixed(subject.x, _KEPT)
    call = _compiled(lambda x, mask: mix_all(subject._mixer, x, mask))
    changed = _difference(_array(call(_tensor(subject.x), _tensor(_KEPT))), expected)
    if changed > _TOLERANCE:
        raise _FaultError(
            f"Expected the same outputs compiled by XLA, got {_apart(changed)}.",
            "look for what depends on Python's state, or for a division by zero that is masked.",
        )
    return "compiles, and gives the same."


_CHECKS = (
    _Check("made", _made, "let __init__ take `units`, your options and **kwargs.", after=()),
    _Check(
        "output shape",
        _output_shape,
        "let `call` take tokens of shape (batch, tokens, width), in a keras.Model too.",
        after=("made",),
    ),
    _Check("lengths", _lengths, "use keras.ops.shape(x)[1], and no Python `if` on it."),
    _Check(
        "padding",
        _padding,
        "let `call` take a boolean mask of shape (batch, tokens).",
        after=("made", "output shape", "lengths"),
    ),
    _Check("gradients", _gradient, "use operations that have gradients, with training=True too."),
    _Check(
        "NaN padding",
        _nan_padding,
        "replace masked tokens by zero with ops.where.",
        # The padding of a suite is an embedding, and as finite as all others.
        needed=False,
        after=("made", "output shape", "padding", "gradients"),
    ),
    _Check("empty row", _empty_row, "let a row without a kept token give anything finite."),
    _Check("batch order", _batch_order, "take any number of rows."),
    _Check(
        "determinism",
        _determinism,
        "let training=True do what the constructor allows.",
        needed=False,
        after=("made", "output shape", "gradients"),
    ),
    _Check(
        "batch in training",
        _training_batch,
        "take any number of rows.",
        needed=False,
        after=("made", "output shape", "gradients", "batch order", "determinism"),
    ),
    _Check("read-out", _read_out, "let `call` take x[:, :1] and value=x."),
    _Check("causality", _causal, "let a causal layer take any tokens."),
    _Check(
        "steps",
        _steps,
        "give `initial_state(batch_size, max_length)` and `step(x, state, mask=None)`, as Relation "
        "has them.",
        # A suite of `decode` needs it, and no other; outputs that see later tokens have no steps.
        needed=False,
        after=("made", "output shape", "causality"),
    ),
    _Check("saving", _saving, "return the constructor's arguments in get_config().", needed=False),
    _Check(
        "mixed precision",
        _mixed_precision,
        "cast constants to x.dtype, and hand dtype=self.dtype_policy to children.",
        needed=False,
    ),
    _Check("XLA", _xla, "use keras.ops, and shapes that are known.", needed=False),
)


def _gradients(subject: _Subject, x: np.ndarray) -> tuple[list[str], dict[str, np.ndarray]]:
    """The names of the trainable weights, and the gradients of the input and of them."""
    steps = {"tensorflow": _by_tensorflow, "jax": _by_jax, "torch": _by_torch}
    backend = keras.backend.backend()
    if backend not in steps:
        raise _NotApplicableError(f"No gradients on the backend {backend}.")
    model = subject.model()
    variables = model.trainable_weights
    rng = np.random.default_rng(_SEED)
    for variable in variables:
        # A product of weights that start at zero would hide each other's gradient.
        if not _array(variable).any():
            variable.assign(rng.normal(scale=0.1, size=variable.shape))
    cotangent = rng.normal(size=tuple(subject.mixed(subject.x, _KEPT).shape)).astype("float32")
    mask, weighting = _tensor(_KEPT), _tensor(cotangent)

    def loss(x: Any) -> Any:
        y = ops.cast(model([x, mask], training=True), "float32")
        # Networks read kept tokens.
        return ops.sum((zero_masked(y, mask) if len(y.shape) == 3 else y) * weighting)

    gradients = steps[backend](loss, _tensor(x), variables)
    names = ["the input", *(variable.path for variable in variables)]
    arrays = [np.zeros(1) if g is None else ops.convert_to_numpy(g) for g in gradients]
    return names[1:], dict(zip(names, arrays, strict=True))


def _by_tensorflow(loss: Any, x: Any, variables: Any) -> Any:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(x)
        value = loss(x)
    gradients = tape.gradient(value, [x, *(variable.value for variable in variables)])
    return [None if gradient is None else tf.convert_to_tensor(gradient) for gradient in gradients]


def _by_jax(loss: Any, x: Any, variables: Any) -> Any:
    import jax

    def stateless(x: Any, values: Any) -> Any:
        with keras.StatelessScope(state_mapping=zip(variables, values, strict=True)):
            return loss(x)

    values = [variable.value for variable in variables]
    for_x, for_values = jax.jit(jax.grad(stateless, argnums=(0, 1)))(x, values)
    return [for_x, *for_values]


def _by_torch(loss: Any, x: Any, variables: Any) -> Any:
    import torch

    x = x.requires_grad_()
    sources = [x, *(variable.value for variable in variables)]
    return torch.autograd.grad(loss(x), sources, allow_unused=True)


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.function(function, autograph=False, jit_compile=True)
    if backend == "jax":
        import jax

        return jax.jit(function)
    raise _NotApplicableError(f"No XLA on the backend {backend}.")


@contextmanager
def _dtype_policy(name: str) -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _arguments(cls: Any) -> list[str]:
    """The constructor's own arguments; those of a class without get_config Keras keeps itself."""
    if cls.get_config is keras.layers.Layer.get_config:
        return []
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    return [parameter.name for parameter in parameters if parameter.kind in named]


def _kept(output: np.ndarray) -> np.ndarray:
    """What is given for kept tokens, or all of a vector."""
    return output[_KEPT] if output.ndim == 3 else output


def _difference(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference as a share of the largest entry; infinite where none can be told."""
    finite = np.isfinite(actual).all() and np.isfinite(expected).all()
    if not finite or actual.shape != expected.shape:
        return float("inf")
    scale = np.abs(expected).max(initial=0.0)
    return float(np.abs(actual - expected).max(initial=0.0) / (scale or 1.0))


def _apart(share: float) -> str:
    return f"a difference of {_percent(share)}" if np.isfinite(share) else _NOTHING_TO_COMPARE


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _unsound(x: np.ndarray) -> str:
    return f"{np.count_nonzero(~np.isfinite(x))} of {x.size} NaN or infinite"


def _told(error: BaseException) -> str:
    """An exception as one sentence, without what Keras wraps around it."""
    wrapped = re.search(r"\x1b\[1m(.*?)\x1b\[0m", str(error), re.DOTALL)
    text = wrapped[1] if wrapped else str(error)
    text = re.split(r"(?:Error|Exception) encountered: ?", text)[-1]
    text = " ".join(text.split())
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f"{type(error).__name__}: {short.rstrip('.')}."


def _array(x: Any) -> np.ndarray:
    return np.asarray(ops.convert_to_numpy(ops.cast(x, "float32")))


def _tensor(x: np.ndarray) -> Any:
    return ops.convert_to_tensor(x)
