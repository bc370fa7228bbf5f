"""The checks of a layer, in their order: each returns what is right or raises what is wrong."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from relation_tf.networks.layer_check.report import LayerCheck, Status
from relation_tf.networks.layer_check.subject import (
    BATCH,
    EVERYTHING,
    KEPT,
    TOKENS,
    FaultError,
    NotApplicableError,
    Subject,
    array,
    compiled,
    dtype_policy,
    gradients_of,
    tensor,
    told,
)
from relation_tf.networks.mechanisms import accepts
from relation_tf.networks.mixing import is_layer, mix_all
from relation_tf.networks.next_token import state_change

_LENGTHS = (1, 2, 7)
_PADDING = 100.0  # Size of the other values in the padding, next to tokens around 1.
# Of the largest entry. Matrix products of another shape differ so much in TensorFloat-32.
_TOLERANCE = 1e-3
_HALF_TOLERANCE = 0.1  # bfloat16 has 8 bits, and some dozen roundings follow each other.


@dataclass(frozen=True)
class Check:
    """A check.

    Attributes:
        name: Its name.
        run: The function that checks.
        mend: What to do where the layer raises.
        needed: If True, a suite needs it; the others are advice.
        after: The checks without which this one has nothing to say.
    """

    name: str
    run: Callable[[Subject], str]
    mend: str
    needed: bool = True
    after: Sequence[str] = ("made", "output shape")

    def outcome(self, subject: Subject, earlier: Mapping[str, LayerCheck]) -> LayerCheck:
        """Run the check, unless one that it needs has failed."""
        for name in self.after:
            before = earlier[name]
            if before.status == "not applicable":
                return LayerCheck(self.name, "not applicable", before.message)
            if before.status != "ok":
                return LayerCheck(self.name, "not applicable", f"It needs {name!r} to be ok first.")
        bad: Status = "failed" if self.needed else "warning"
        try:
            return LayerCheck(self.name, "ok", self.run(subject))
        except NotApplicableError as reason:
            return LayerCheck(self.name, "not applicable", str(reason))
        except FaultError as fault:
            return LayerCheck(self.name, bad, str(fault))
        # The layer may raise anything, and that is what is looked for.
        except Exception as error:
            found = f"Expected no exception, got {told(error)}"
            return LayerCheck(self.name, bad, f"{found} To mend: {self.mend}")


CHECKS: list[Check] = []


def _check(name: str, mend: str, **declaration: Any) -> Callable[[Any], Any]:
    """Add a function to the checks."""

    def add(run: Callable[[Subject], str]) -> Callable[[Subject], str]:
        CHECKS.append(Check(name, run, mend, **declaration))
        return run

    return add


@_check("made", "let __init__ take `units`, your options and **kwargs.", after=())
def _made(subject: Subject) -> str:
    return f"{type(subject.layer()).__name__} is made."


@_check(
    "output shape",
    "let `call` take tokens of shape (batch, tokens, width), in a keras.Model too.",
    after=("made",),
)
def _output_shape(subject: Subject) -> str:
    shape = subject.mixed(subject.x, KEPT).shape
    last = subject.units if subject.own else shape[-1]
    allowed = [(BATCH, TOKENS, last), (BATCH, last)]
    if shape not in allowed:
        raise FaultError(
            f"Expected an output of shape {allowed[0]} or {allowed[1]} for an input of shape "
            f"{subject.x.shape}, got {shape}.",
            "give each token, or each row, `units` values.",
        )
    symbolic = tuple(subject.model().output.shape)
    if symbolic[1:] != shape[1:]:
        raise FaultError(
            f"Expected Keras to be told of the output's shape {(None, *shape[1:])}, got "
            f"{symbolic}.",
            "correct `compute_output_shape`, or leave it out.",
        )
    return f"{subject.x.shape} gives {shape}."


@_check("lengths", "use keras.ops.shape(x)[1], and no Python `if` on it.")
def _lengths(subject: Subject) -> str:
    model = subject.model(None)
    for length in _LENGTHS:
        x, mask = subject.tokens(BATCH, length), np.ones((BATCH, length), bool)
        output = array(model([x, mask]))
        expected = (BATCH, *((length,) if output.ndim == 3 else ()), output.shape[-1])
        if len(model.output.shape) != output.ndim or output.shape != expected:
            raise FaultError(
                f"Expected an output of shape {expected} for {length} tokens, got {output.shape}.",
                "take the number of tokens from keras.ops.shape(x)[1].",
            )
        mend = "look for a division by the number of tokens less one, or for a variance of one."
        _expect_finite(output, f"outputs for {length} tokens", mend)
    return f"built for any number of tokens, called with {', '.join(map(str, _LENGTHS))}."


@_check(
    "padding",
    "let `call` take a boolean mask of shape (batch, tokens).",
    after=("made", "output shape", "lengths"),
)
def _padding(subject: Subject) -> str:
    if not subject.masks:
        asked = "query_mask=None and value_mask" if accepts(subject.mixer, "value") else "mask"
        raise FaultError(
            "Expected a call that takes a mask, got none: padded networks see the padding.",
            f"give `call` the argument {asked}=None, True where a token is kept.",
        )
    names = " and ".join(f"`{name}`" for name in subject.masks)
    expected = _kept(subject.mixed(subject.x, KEPT))
    other = np.where(KEPT[..., None], subject.x, _PADDING * subject.x[::-1])
    what = f"the same outputs at kept tokens whatever masked tokens hold ({names})"
    mend = f"replace masked tokens by zero first: ops.where({subject.masks[-1]}[..., None], x, 0.)."
    _expect_same(_kept(subject.mixed(other, KEPT)), expected, what, mend)
    longer = np.pad(other, ((0, 0), (0, 3), (0, 0)), constant_values=_PADDING)
    output = subject.mixed(longer, np.pad(KEPT, ((0, 0), (0, 3))))
    kept = _kept(output[:, :TOKENS] if output.ndim == 3 else output)
    what = f"the same outputs with 3 more padded tokens ({names})"
    _expect_same(kept, expected, what, "divide by the number of kept tokens, not by that of all.")
    return f"{names}: neither what it holds nor how long it is changes an output."


@_check("gradients", "use operations that have gradients, with training=True too.")
def _gradient(subject: Subject) -> str:
    weights, gradients = gradients_of(subject, subject.x)
    mend = "look for a square root or a norm at zero, a logarithm or a division."
    for name, gradient in gradients.items():
        _expect_finite(gradient, "gradients", mend, f" for {name}")
    dead = [name for name in weights if not gradients[name].any()]
    if dead:
        raise FaultError(
            f"Expected a gradient for each of {len(weights)} trainable weights, got none for "
            f"{', '.join(dead)}.",
            "use it in `call` without rounding or stop_gradient, or set trainable=False.",
        )
    return f"finite for all {len(weights)} trainable weights, and none is without."


@_check(
    "NaN padding",
    "replace masked tokens by zero with ops.where.",
    # The padding of a suite is an embedding, and as finite as all others.
    needed=False,
    after=("made", "output shape", "padding", "gradients"),
)
def _nan_padding(subject: Subject) -> str:
    mend = (
        "replace masked tokens by zero before anything else, "
        f"ops.where({subject.masks[-1]}[..., None], x, 0.): NaN * 0 is NaN."
    )
    expected = _kept(subject.mixed(subject.x, KEPT))
    holding = [np.where(KEPT[..., None], subject.x, np.float32(v)) for v in (np.nan, np.inf)]
    for value, x in zip(("nan", "inf"), holding, strict=True):
        what = f"the same outputs at kept tokens with {value} at masked ones"
        _expect_same(_kept(subject.mixed(x, KEPT)), expected, what, mend)
    for name, gradient in gradients_of(subject, holding[0])[1].items():
        _expect_finite(gradient, "gradients with NaN at masked tokens", mend, f" for {name}")
    return "NaN and inf at masked tokens change no output and no gradient."


@_check("empty row", "let a row without a kept token give anything finite.")
def _empty_row(subject: Subject) -> str:
    mask = KEPT.copy()
    mask[1] = False
    mend = "divide by ops.maximum(count, 1); mask a softmax by -1e9, not by -inf."
    what = "outputs for a row without a kept token"
    _expect_finite(subject.mixed(subject.x, mask)[1], what, mend)
    return "a row without a kept token gives finite values."


@_check("batch order", "take any number of rows.")
def _batch_order(subject: Subject) -> str:
    expected = subject.mixed(subject.x, KEPT)
    order = [2, 0, 3, 1]
    permuted = _difference(subject.mixed(subject.x[order], KEPT[order]), expected[order])
    alone = _difference(subject.mixed(subject.x[1:2], KEPT[1:2]), expected[1:2])
    if max(permuted, alone) > _TOLERANCE:
        raise FaultError(
            f"Expected each row by itself, got {_apart(permuted)} in another order "
            f"and {_apart(alone)} for a row alone.",
            "let no sum, mean or norm run over axis 0, the batch.",
        )
    return "rows in another order, and one alone, give the same."


@_check(
    "determinism",
    "let training=True do what the constructor allows.",
    needed=False,
    after=("made", "output shape", "gradients"),
)
def _determinism(subject: Subject) -> str:
    models, outputs = [], []
    for _ in range(2):
        models.append(subject.model())
        outputs.append(array(models[-1]([subject.x, KEPT], training=True)))
    what, mend = "the same seed to give the same weights", "draw with Keras initializers."
    for one, other in zip(*(model.weights for model in models), strict=True):
        _expect_same(array(other), array(one), what, mend, tolerance=0, more=f" in {one.path}")
    what = "the same seed to give the same outputs with training=True"
    mend = "draw with keras.random and a keras.random.SeedGenerator made in __init__."
    _expect_same(outputs[1], outputs[0], what, mend)
    return "the same seed gives the same weights and the same outputs in training."


@_check(
    "batch in training",
    "take any number of rows.",
    needed=False,
    after=("made", "output shape", "gradients", "batch order", "determinism"),
)
def _training_batch(subject: Subject) -> str:
    model = subject.model()
    alone, again = (array(model([subject.x[:1], KEPT[:1]], training=True)) for _ in range(2))
    if _difference(again, alone) > _TOLERANCE:
        raise NotApplicableError("Outputs in training are random: rows cannot be compared.")
    # A new model: training may have changed the state of the first.
    together = array(subject.model()([subject.x, KEPT], training=True))
    what = "a row alone as in a batch with training=True"
    mend = "use LayerNormalization instead of BatchNormalization, if that is not meant."
    more = ": padding and other rows have a part in it"
    _expect_same(alone, together[:1], what, mend, more=more)
    return "a row alone gives the same as in a batch, in training too."


@_check("read-out", "let `call` take x[:, :1] and value=x.")
def _read_out(subject: Subject) -> str:
    if not accepts(subject.mixer, "value"):
        raise NotApplicableError("`call` takes no `value`: networks compute all tokens.")
    if subject.entry.head != "first":
        raise NotApplicableError("Networks read all tokens of it.")
    first, all_tokens = subject.read(subject.x, KEPT), subject.mixed(subject.x, KEPT)
    expected = all_tokens[:, :1] if all_tokens.ndim == 3 else all_tokens
    if first.shape != expected.shape:
        raise FaultError(
            f"Expected layer(x[:, :1], value=x) of shape {expected.shape}, got {first.shape}.",
            "give one output for each token of the first argument.",
        )
    what = "layer(x[:, :1], value=x) to equal the first token of layer(x)"
    mend = "let `value` be the tokens that are mixed, or give that argument another name."
    _expect_same(first, expected, what, mend)
    return "layer(x[:, :1], value=x) equals the first token of layer(x)."


@_check("causality", "let a causal layer take any tokens.")
def _causal(subject: Subject) -> str:
    if not getattr(subject.mixer, "causal", False):
        raise NotApplicableError("The layer is not `causal`.")
    seen = TOKENS // 2
    other = np.concatenate([subject.x[:, :seen], subject.x[::-1, seen:]], axis=1)
    changed, expected = (subject.mixed(x, EVERYTHING) for x in (other, subject.x))
    if expected.ndim != 3:
        raise NotApplicableError("It gives no output for each token.")
    what = "later tokens to change no output of a causal layer"
    mend = "let the output at position i depend on x[:, : i + 1] alone, or set causal=False."
    _expect_same(changed[:, :seen], expected[:, :seen], what, mend)
    return "later tokens change no output."


@_check(
    "steps",
    "give `initial_state(batch_size, max_length)` and `step(x, state, mask=None)`, as Relation "
    "has them.",
    # A suite of `decode` needs it, and no other; outputs that see later tokens have no steps.
    needed=False,
    after=("made", "output shape", "causality"),
)
def _steps(subject: Subject) -> str:
    layer = subject.mixer
    missing = [name for name in ("initial_state", "step") if not hasattr(layer, name)]
    if missing:
        raise NotApplicableError(f"It goes through whole texts: it has no `{missing[0]}`.")
    if grown := state_change(layer, subject.width):
        mend = "make room in `initial_state` for what comes."
        raise FaultError(f"{grown[0].upper()}{grown[1:]}.", mend)
    mend = "let `step` take (batch, 1, width) and give (batch, 1, units) and the next state."
    state, outputs = layer.initial_state(BATCH, TOKENS), []
    for place in range(TOKENS):
        output, state = layer.step(tensor(subject.x[:, place : place + 1]), state)
        outputs.append(array(output))
    whole = subject.mixed(subject.x, EVERYTHING)
    what = "steps to give what the whole text gives"
    _expect_same(np.concatenate(outputs, axis=1), whole, what, mend)
    return "one token at a time gives what the whole text gives."


@_check("saving", "return the constructor's arguments in get_config().", needed=False)
def _saving(subject: Subject) -> str:
    layer = subject.layer()
    cls = type(layer)
    name = keras.saving.get_registered_name(cls)
    registered = ">" in name or cls.__module__.startswith("keras.")
    register = "put @keras.saving.register_keras_serializable() before the class"
    known = keras.saving.get_registered_object(name)
    if known not in (None, cls):
        raise FaultError(
            f"Expected Keras to know this class by the name {name!r}, which is taken by that of "
            f"{known.__module__}: a saved model would load with it.",
            "put @keras.saving.register_keras_serializable(package=...) with a package of your own "
            "before the class.",
        )
    config = layer.get_config()
    missing = [argument for argument in _arguments(cls) if argument not in config]
    if missing:
        raise FaultError(
            f"Expected all arguments of {cls.__name__} in get_config(), got none of: "
            f"{', '.join(missing)}.",
            f"return {{**super().get_config(), {missing[0]!r}: self.{missing[0]}, ...}}.",
        )
    model = subject.model()
    load_fault = "take in __init__ what get_config gives, and build children in build()."
    again = _saved_and_loaded(model, load_fault if registered else f"{register}.")
    loaded, expected = (array(one([subject.x, KEPT])) for one in (again, model))
    mend = "keep all that outputs depend on in weights or in get_config()."
    _expect_same(loaded, expected, "the same outputs from a saved model", mend)
    hint = "" if registered else f" (elsewhere too, if you {register})"
    return f"a saved model loads and gives the same{hint}."


def _saved_and_loaded(model: keras.Model, mend: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        try:
            return keras.saving.load_model(path)
        except Exception as error:
            found = f"Expected a saved model to load, got {told(error)}"
            raise FaultError(found, mend) from error


@_check(
    "mixed precision",
    "cast constants to x.dtype, and hand dtype=self.dtype_policy to children.",
    needed=False,
)
def _mixed_precision(subject: Subject) -> str:
    if is_layer(subject.mechanism):
        raise NotApplicableError("An instance keeps the policy that it was made with.")
    exact = _kept(subject.mixed(subject.x, KEPT))
    with dtype_policy("mixed_bfloat16"):
        layer = subject.layer()
        output = mix_all(layer, tensor(subject.x), tensor(KEPT))
        if len(layer.weights) == len(subject.mixer.weights):
            layer.set_weights(subject.mixer.get_weights())
            output = mix_all(layer, tensor(subject.x), tensor(KEPT))
    dtype = keras.backend.standardize_dtype(output.dtype)
    if dtype != "bfloat16":
        raise FaultError(
            f"Expected bfloat16 outputs under mixed_bfloat16, got {dtype}.",
            "cast constants to x.dtype, and hand dtype=self.dtype_policy to children.",
        )
    half = _kept(array(output))
    what = f"outputs under mixed_bfloat16 within {_percent(_HALF_TOLERANCE)} of float32's"
    mend = "sum over tokens, and take exponentials, in float32."
    _expect_same(half, exact, what, mend, tolerance=_HALF_TOLERANCE)
    return f"under mixed_bfloat16 within {_percent(_difference(half, exact))} of float32."


@_check("XLA", "use keras.ops, and shapes that are known.", needed=False)
def _xla(subject: Subject) -> str:
    call = compiled(lambda x, mask: mix_all(subject.mixer, x, mask))
    output = array(call(tensor(subject.x), tensor(KEPT)))
    mend = "look for what depends on Python's state, or for a division by zero that is masked."
    _expect_same(output, subject.mixed(subject.x, KEPT), "the same outputs compiled by XLA", mend)
    return "compiles, and gives the same."


def _expect_same(
    actual: np.ndarray,
    expected: np.ndarray,
    what: str,
    mend: str,
    tolerance: float = _TOLERANCE,
    more: str = "",
) -> None:
    """Raise a fault where two outputs differ by more than the tolerance."""
    changed = _difference(actual, expected)
    if changed > tolerance:
        raise FaultError(f"Expected {what}, got {_apart(changed)}{more}.", mend)


def _expect_finite(x: np.ndarray, what: str, mend: str, more: str = "") -> None:
    """Raise a fault where an entry is NaN or infinite."""
    if not np.isfinite(x).all():
        unsound = f"{np.count_nonzero(~np.isfinite(x))} of {x.size} NaN or infinite"
        raise FaultError(f"Expected finite {what}, got {unsound}{more}.", mend)


def _arguments(cls: Any) -> list[str]:
    """Return the constructor's arguments; Keras keeps those of a class without get_config."""
    if cls.get_config is keras.layers.Layer.get_config:
        return []
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    return [parameter.name for parameter in parameters if parameter.kind in named]


def _kept(output: np.ndarray) -> np.ndarray:
    """Return the outputs at kept tokens, or all of a vector."""
    return output[KEPT] if output.ndim == 3 else output


def _difference(actual: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference as a share of the largest entry; infinite where none can be computed."""
    finite = np.isfinite(actual).all() and np.isfinite(expected).all()
    if not finite or actual.shape != expected.shape:
        return float("inf")
    scale = np.abs(expected).max(initial=0.0)
    return float(np.abs(actual - expected).max(initial=0.0) / (scale or 1.0))


def _apart(share: float) -> str:
    finite = np.isfinite(share)
    return f"a difference of {_percent(share)}" if finite else "NaN, infinity or another shape"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"
