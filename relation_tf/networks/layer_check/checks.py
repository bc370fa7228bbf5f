"""Checks of a layer, in order: each returns its result or raises a fault."""

from __future__ import annotations

import inspect
import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np

from relation_tf.networks.layer_check.causes import fix_of
from relation_tf.networks.layer_check.definition import (
    COMPARED,
    TOLERANCE,
    apart,
    check,
    difference_of,
    expect_finite,
    expect_same,
    kept_of,
    percent,
)
from relation_tf.networks.layer_check.reading import READING_CHECKS
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
    described,
    gradients_of,
    tensor,
)
from relation_tf.networks.mechanisms import accepts
from relation_tf.networks.mixing import is_custom, is_layer, mix_all
from relation_tf.networks.next_token import state_change
from relation_tf.networks.precision import dtype_policy

_LENGTHS = (1, 2, 7)
_PADDING = 100.0  # Factor of values in the padding; tokens have values around 1.
_ROUNDING = 1e-5  # a GPU adds in any order
_HALF_TOLERANCE = 0.1  # bfloat16 has 8 bits; a layer accumulates some dozen rounding errors.


@check("construction", "__init__ must accept `units`, the options and **kwargs.", after=())
def _made(subject: Subject) -> str:
    return f"{type(subject.layer()).__name__} is created."


_CALL = (
    "change `call` so that it accepts tokens of shape (batch, tokens, width), or choose `units` "
    "that the layer accepts, such as a multiple of its number of heads."
)


@check("output shape", _CALL, after=("construction",))
def _output_shape(subject: Subject) -> str:
    shape = subject.mixed(subject.x, KEPT).shape
    last = subject.units if is_custom(subject.entry, subject.mechanism) else shape[-1]
    allowed = [(BATCH, TOKENS, last), (BATCH, last)]
    if shape not in allowed:
        raise FaultError(
            f"The output has shape {shape} for an input of shape {subject.x.shape}; networks need "
            f"{allowed[0]} or {allowed[1]}.",
            "return `units` values for each token or each row.",
        )
    return _as_declared(subject, shape)


@check("output shape", _CALL, after=("construction",))
def _shape_in_blocks(subject: Subject) -> str:
    shape, needed = subject.mixed(subject.x, KEPT).shape, (BATCH, TOKENS, subject.units)
    if shape != needed:
        raise FaultError(
            f"The output has shape {shape} for an input of shape {subject.x.shape}; blocks need "
            f"{needed}.",
            "return `units` values for each token.",
        )
    return _as_declared(subject, shape)


def _as_declared(subject: Subject, shape: tuple[int, ...]) -> str:
    """Return the result if the layer declares this shape of its output."""
    try:
        symbolic = tuple(subject.model().output.shape)
    except Exception:
        _for_any_length(subject)  # this fault first: in networks the length is unknown
        raise
    if symbolic[1:] != shape[1:]:
        raise FaultError(
            f"compute_output_shape() returns {symbolic} but the layer outputs "
            f"{(None, *shape[1:])}: later layers would have wrong shapes.",
            "correct `compute_output_shape` or remove it.",
        )
    return f"input {subject.x.shape}, output {shape}."


def _for_any_length(subject: Subject) -> keras.Model:
    """Return a model of a layer that works on arrays.

    Raises:
        FaultError: If the layer fails with an unknown number of tokens.
    """
    try:
        return subject.model(None)
    # The layer may raise any exception.
    except Exception as error:
        fix = "use keras.ops.shape(x) and operations that accept the shape (None, None, width)."
        raise FaultError(
            "The layer works on arrays but fails in networks, where the numbers of rows and of "
            f"tokens are unknown: {described(error)}",
            fix_of(error, fix),
        ) from error


@check("inference", "`call` must accept training=False.")
def _inference(subject: Subject) -> str:
    model = subject.model()
    first, again = (array(model([subject.x, KEPT], training=False)) for _ in range(2))
    fix = "look for a division, or a square root or logarithm of a negative value or weight."
    expect_finite(kept_of(first), "Outputs", fix)
    first, again = map(np.nan_to_num, (first, again))  # of masked tokens
    what = "Two calls in inference (training=False) give different outputs"
    fix = "add noise and change state only if training=True; create layers in __init__ or build."
    expect_same(again, first, what, fix, tolerance=_ROUNDING)
    return "two calls give the same outputs."


@check("lengths", "use keras.ops.shape(x)[1] and no Python `if` on it.", after=COMPARED)
def _lengths(subject: Subject) -> str:
    model = _for_any_length(subject)
    for length in _LENGTHS:
        x, mask = subject.tokens(BATCH, length), np.ones((BATCH, length), bool)
        output = array(model([x, mask]))
        expected = (BATCH, *((length,) if output.ndim == 3 else ()), output.shape[-1])
        if len(model.output.shape) != output.ndim or output.shape != expected:
            raise FaultError(
                f"The output for {length} tokens has shape {output.shape} instead of {expected}: "
                "texts of other lengths fail.",
                "get the number of tokens from keras.ops.shape(x)[1].",
            )
        fix = "avoid division by (tokens - 1) and the variance of one token."
        expect_finite(output, f"Outputs for length {length}", fix)
    return f"works for lengths {', '.join(map(str, _LENGTHS))}."


@check(
    "padding",
    "`call` must accept a boolean mask of shape (batch, tokens).",
    after=(*COMPARED, "lengths"),
)
def _padding(subject: Subject) -> str:
    expected = kept_of(subject.mixed(subject.x, KEPT))
    other = np.where(KEPT[..., None], subject.x, _PADDING * subject.x[::-1])
    padded = _up_to(TOKENS, subject.mixed(*_padded(other, KEPT)))
    without = [_with_and_without_padding(subject, length) for length in _LENGTHS]
    number = "number of padded tokens"
    outputs = [
        ("values of masked tokens", kept_of(subject.mixed(other, KEPT)), expected),
        (number, kept_of(padded), expected),
        *((number, output, alone) for output, alone in without),
    ]
    if not subject.masks:
        missing = "query_mask=None and value_mask" if accepts(subject.mixer, "value") else "mask"
        what = "`call` takes no mask, and padding changes the outputs"
        fix = f"add the argument {missing}=None to `call`, True for real tokens, False for padding."
        for _, output, alone in outputs:
            expect_same(output, alone, what, fix)
        return "the layer takes no mask; padding does not change outputs."
    names = " and ".join(f"`{name}`" for name in subject.masks)
    kept = f"ops.where({subject.masks[-1]}[..., None], value, 0.)"
    fix = (
        f"leave masked tokens out wherever tokens are mixed: sum {kept}, masked after the last "
        "bias; set scores to -1e9 before a softmax; keep the state of a recurrence; divide by the "
        "number of real tokens. The mask is True for real tokens."
    )
    for cause, output, alone in outputs:
        expect_same(output, alone, f"Outputs depend on the {cause} ({names})", fix)
    return f"{names}: padding does not change outputs."


def _with_and_without_padding(subject: Subject, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the outputs of texts with padding, and of the same texts without any."""
    x, kept = subject.tokens(BATCH, length), np.ones((BATCH, length), bool)
    return _up_to(length, subject.mixed(*_padded(x, kept))), subject.mixed(x, kept)


def _padded(x: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    longer = np.pad(x, ((0, 0), (0, 3), (0, 0)), constant_values=_PADDING)
    return longer, np.pad(mask, ((0, 0), (0, 3)))


def _up_to(length: int, output: np.ndarray) -> np.ndarray:
    return output[:, :length] if output.ndim == 3 else output


@check("gradients", "use operations with gradients, also with training=True.")
def _gradient(subject: Subject) -> str:
    weights, gradients = gradients_of(subject, subject.x)
    fix = "look for a square root or norm at zero, a logarithm or a division."
    for name, gradient in gradients.items():
        expect_finite(gradient, f"Gradients of {name}", fix)
    zero = [name for name in weights if not gradients[name].any()]
    dead = [name for name in zero if _is_dead(subject, weights.index(name))]
    if dead:
        raise FaultError(
            f"{len(dead)} of {len(weights)} trainable weights have no gradient and are never "
            f"trained: {', '.join(dead)}.",
            "use them in `call` without rounding, stop_gradient or a boolean mask as factor, or "
            "set trainable=False.",
        )
    if not gradients["the input"].any():
        raise FaultError(
            "The input has no gradient, so embeddings and layers before this one are never "
            "trained.",
            "use the input in `call` without rounding, stop_gradient or a boolean mask as factor.",
        )
    without_effect = f", except of weights without effect: {', '.join(zero)}" if zero else ""
    return f"finite and nonzero for all {len(weights)} trainable weights{without_effect}."


def _is_dead(subject: Subject, index: int) -> bool:
    """Return True if a trainable weight without gradient is a fault.

    A weight that is used without effect is none, such as a bias before a softmax.
    """

    def output(weight: Any, value: Any) -> np.ndarray:
        weight.assign(value)
        return kept_of(array(model([subject.x, KEPT])))

    model = subject.model()
    weight = model.trainable_weights[index]
    start = array(weight)
    expected = output(weight, start)
    other = np.random.default_rng(0).normal(size=start.shape) - 2 * start
    if difference_of(output(weight, other), expected) > TOLERANCE:
        return True
    return bool(np.isfinite(output(weight, np.full_like(start, np.nan))).all())  # not used


@check(
    "NaN padding",
    "set masked tokens to zero with ops.where.",
    # Advice only: padding in a suite is a finite embedding.
    needed=(),
    after=("construction", "output shape", "padding", "gradients"),
)
def _nan_padding(subject: Subject) -> str:
    if not subject.masks:
        raise NotApplicableError("`call` takes no mask.")
    fix = (
        f"set masked tokens to zero first, too: ops.where({subject.masks[-1]}[..., None], x, 0.), "
        "because NaN * 0 is NaN."
    )
    expected = kept_of(subject.mixed(subject.x, KEPT))
    holding = [np.where(KEPT[..., None], subject.x, np.float32(v)) for v in (np.nan, np.inf)]
    for value, x in zip(("nan", "inf"), holding, strict=True):
        what = f"Outputs change with {value} at masked tokens"
        expect_same(kept_of(subject.mixed(x, KEPT)), expected, what, fix)
    for name, gradient in gradients_of(subject, holding[0])[1].items():
        expect_finite(gradient, f"With NaN at masked tokens, gradients of {name}", fix)
    return "NaN and inf at masked tokens do not change outputs and gradients."


@check("empty row", "return finite values for a sequence that is all padding.", after=COMPARED)
def _empty_row(subject: Subject) -> str:
    mask = KEPT.copy()
    mask[1] = False
    fix = "divide by ops.maximum(count, 1); mask softmax with -1e9, not -inf."
    what = "For a sequence that is all padding, outputs"
    expect_finite(subject.mixed(subject.x, mask)[1], what, fix)
    return "outputs are finite for a sequence that is all padding."


@check("batch order", "accept any number of rows.", after=COMPARED)
def _batch_order(subject: Subject) -> str:
    expected = subject.mixed(subject.x, KEPT)
    order = [2, 0, 3, 1]
    permuted = difference_of(subject.mixed(subject.x[order], KEPT[order]), expected[order])
    alone = difference_of(subject.mixed(subject.x[1:2], KEPT[1:2]), expected[1:2])
    if max(permuted, alone) > TOLERANCE:
        raise FaultError(
            f"Outputs of a row depend on other rows: {apart(permuted)} in another order, "
            f"{apart(alone)} for a single row.",
            "do not sum, average or normalize over axis 0, the batch.",
        )
    return "outputs do not depend on other rows or their order."


@check(
    "determinism",
    "`call` must work with training=True.",
    needed=(),
    after=("construction", "output shape", "gradients"),
)
def _determinism(subject: Subject) -> str:
    models, outputs = [], []
    for _ in range(2):
        models.append(subject.model())
        outputs.append(array(models[-1]([subject.x, KEPT], training=True)))
    fix = "create weights with Keras initializers."
    for one, other in zip(*(model.weights for model in models), strict=True):
        what = f"Equal seeds give different weights {one.path}"
        expect_same(array(other), array(one), what, fix, tolerance=0)
    what = "Equal seeds give different outputs with training=True"
    fix = "use keras.random with a keras.random.SeedGenerator created in __init__."
    expect_same(outputs[1], outputs[0], what, fix)
    return "equal seeds give equal weights and equal outputs in training."


@check(
    "batch in training",
    "accept any number of rows.",
    needed=(),
    after=("construction", "output shape", "gradients", "batch order", "determinism"),
)
def _training_batch(subject: Subject) -> str:
    model = subject.model()
    alone, again = (array(model([subject.x[:1], KEPT[:1]], training=True)) for _ in range(2))
    if difference_of(again, alone) > TOLERANCE:
        raise NotApplicableError("Outputs in training are random, so rows cannot be compared.")
    # A new model, because the first call may have changed the state.
    together = array(subject.model()([subject.x, KEPT], training=True))
    what = "With training=True, outputs of a row depend on other rows and padding"
    fix = "if this is not intended, use LayerNormalization instead of BatchNormalization."
    expect_same(alone, together[:1], what, fix)
    return "in training outputs do not depend on other rows."


@check(
    "steps",
    "implement `initial_state(batch_size, max_length)` and `step(x, state, mask=None)` as in "
    "Relation.",
    # Required only by suites with `decode` tasks. Layers that see later tokens have no steps.
    needed=(),
    after=("construction", "output shape", "causality"),
)
def _steps(subject: Subject) -> str:
    layer = subject.mixer
    missing = [name for name in ("initial_state", "step") if not hasattr(layer, name)]
    if missing:
        raise NotApplicableError(f"The layer has no `{missing[0]}` and processes whole texts.")
    if not getattr(layer, "causal", True):
        raise NotApplicableError("The layer is not `causal`.")
    if changed := state_change(layer, subject.width):
        raise FaultError(f"{changed}.", "allocate the full state in `initial_state`.")
    fix = "`step` must map (batch, 1, width) to (batch, 1, units) and the next state."
    what = "Steps of one token give other outputs than the whole text"
    expect_same(_stepped(subject), subject.mixed(subject.x, EVERYTHING), what, fix)
    # Blocks pass a mask to each step.
    mask = EVERYTHING.copy() if not subject.masks else KEPT & (np.arange(TOKENS) != 1)
    stepped, whole = _stepped(subject, mask), subject.mixed(subject.x, mask)
    what, fix = f"{what} if tokens are masked", "`step` must leave out tokens whose mask is False."
    expect_same(stepped[mask], whole[mask], what, fix)
    return "steps of one token give the same outputs as the whole text."


def _stepped(subject: Subject, mask: np.ndarray | None = None) -> np.ndarray:
    """Return the outputs of steps of one token."""
    layer, outputs = subject.mixer, []
    state = layer.initial_state(BATCH, TOKENS)
    for place in range(TOKENS):
        x, *masks = (
            tensor(each[:, place : place + 1]) for each in (subject.x, mask) if each is not None
        )
        output, state = layer.step(x, state, *masks)
        outputs.append(array(output))
    return np.concatenate(outputs, axis=1)


@check(
    "saving",
    "return the constructor's arguments in get_config().",
    needed=(),
    after=COMPARED,
)
def _saving(subject: Subject) -> str:
    layer = subject.layer()
    cls = type(layer)
    name = keras.saving.get_registered_name(cls)
    registered = ">" in name or cls.__module__.startswith("keras.")
    register = "put @keras.saving.register_keras_serializable() before the class"
    known = keras.saving.get_registered_object(name)
    if known not in (None, cls):
        raise FaultError(
            f"The registered name {name!r} belongs to a class of {known.__module__}: a saved model "
            "would load that class.",
            "put @keras.saving.register_keras_serializable(package=...) with a unique package "
            "before the class.",
        )
    config = layer.get_config()
    missing = [argument for argument in _arguments(cls) if argument not in config]
    if missing:
        raise FaultError(
            "get_config() omits these arguments, so a saved model loses them: "
            f"{', '.join(missing)}.",
            f"return {{**super().get_config(), {missing[0]!r}: self.{missing[0]}, ...}}.",
        )
    model = subject.model()
    load_fault = (
        "__init__ must accept what get_config() returns; functions and layers become dictionaries: "
        "use keras.activations.get or keras.saving.deserialize_keras_object."
    )
    again = _saved_and_loaded(model, load_fault if registered else f"{register}.")
    loaded, expected = (array(one([subject.x, KEPT])) for one in (again, model))
    fix = "store everything that outputs depend on in weights or get_config()."
    expect_same(loaded, expected, "A loaded model gives other outputs than the saved model", fix)
    hint = "" if registered else f"; to load it in other programs, {register}"
    return f"a saved model loads and gives the same outputs{hint}."


def _saved_and_loaded(model: keras.Model, fix: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        try:
            return keras.saving.load_model(path)
        except Exception as error:
            found = f"A saved model cannot be loaded: {described(error)}"
            raise FaultError(found, fix_of(error, fix)) from error


@check(
    "mixed precision",
    "cast constants to x.dtype and pass dtype=self.dtype_policy to child layers.",
    needed=(),
    after=COMPARED,
)
def _mixed_precision(subject: Subject) -> str:
    if is_layer(subject.mechanism):
        raise NotApplicableError("An instance keeps its dtype policy.")
    exact = kept_of(subject.mixed(subject.x, KEPT))
    with dtype_policy("mixed_bfloat16"):
        layer = subject.layer()
        output = mix_all(layer, tensor(subject.x), tensor(KEPT))
        if len(layer.weights) == len(subject.mixer.weights):
            layer.set_weights(subject.mixer.get_weights())
            output = mix_all(layer, tensor(subject.x), tensor(KEPT))
    dtype = keras.backend.standardize_dtype(output.dtype)
    if dtype != "bfloat16":
        raise FaultError(
            f"Outputs under mixed_bfloat16 have dtype {dtype} instead of bfloat16, which costs "
            "time and memory.",
            "cast constants to x.dtype and pass dtype=self.dtype_policy to child layers.",
        )
    half = kept_of(array(output))
    what = f"Outputs under mixed_bfloat16 differ from float32 by over {percent(_HALF_TOLERANCE)}"
    fix = "compute exponentials and sums over tokens in float32."
    expect_same(half, exact, what, fix, tolerance=_HALF_TOLERANCE)
    difference = percent(difference_of(half, exact))
    return f"mixed_bfloat16 differs from float32 by at most {difference}."


@check("XLA", "use keras.ops and static shapes.", needed=(), after=COMPARED)
def _xla(subject: Subject) -> str:
    call = compiled(lambda x, mask: mix_all(subject.mixer, x, mask))
    output = array(call(tensor(subject.x), tensor(KEPT)))
    fix = "look for dependence on Python state or a masked division by zero."
    expect_same(output, subject.mixed(subject.x, KEPT), "XLA compilation changes outputs", fix)
    return "compiles and gives the same outputs."


def _arguments(cls: Any) -> list[str]:
    """Return the constructor's arguments; none without a get_config, where Keras stores them."""
    if cls.get_config is keras.layers.Layer.get_config:
        return []
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    return [parameter.name for parameter in parameters if parameter.kind in named]


CHECKS_IN_BLOCKS = (_made, _shape_in_blocks)

LAYER_CHECKS = (
    _made,
    _output_shape,
    _inference,
    _lengths,
    _padding,
    _gradient,
    _nan_padding,
    _empty_row,
    _batch_order,
    _determinism,
    _training_batch,
    *READING_CHECKS,
    _steps,
    _saving,
    _mixed_precision,
    _xla,
)
