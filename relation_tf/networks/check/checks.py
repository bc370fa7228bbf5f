"""Check of a custom token-mixing layer before training."""

from __future__ import annotations

import inspect
import re
import sysconfig
import tempfile
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from relation_tf.layers.arguments import one_of, positive_integer
from relation_tf.networks.check.report import TOKEN_READ, LayerCheck, LayerReport, Status
from relation_tf.networks.classifiers import pair_classifier, sequence_classifier
from relation_tf.networks.encoders import declares_causal
from relation_tf.networks.mechanisms import accepts, load, make_layer
from relation_tf.networks.mixing import (
    copy_of,
    entry_of,
    is_custom,
    is_layer,
    mix_all,
    mix_for_first,
    refuse_options,
)
from relation_tf.networks.next_token import state_change
from relation_tf.networks.precision import dtype_policy
from relation_tf.registry import Mechanism
from relation_tf.system import check_interrupts, interrupts_delayed
from relation_tf.terminal import errors_only

# Relative to the largest entry: in TensorFloat-32, matrix products depend on the shape.
TOLERANCE = 1e-3
PRECISIONS = ("float32", "bfloat16")
_FIRST = ("construction", "output shape", "inference", "lengths")  # the others wait for these
_LENGTHS = (1, 2, 7)
_PADDING = 100.0  # Factor of values in the padding; tokens have values around 1.
_ROUNDING = 1e-5  # A GPU adds in any order.
_UNCHANGED = 1e-6  # Rounding, such as that of a Fourier transform over all tokens.
_VOCABULARY, _CLASSES = 12, 2
BATCH, TOKENS = 4, 6  # Different, to detect layers that confuse the axes.
KEPT = np.arange(TOKENS) < np.array([[6], [3], [1], [4]])
EVERYTHING = np.ones_like(KEPT)
DROPOUT = 0.5  # For layers with `variant="released_code"`.
_SEED = 0
_UNDEFINED = "look for a division, or a root, norm or logarithm of zero or of a negative value."
_OF_VECTORS = "The output is one vector per text, not per token."
_OF_POLICIES = "An instance keeps its dtype policy."
_OPERATION = "run the layer in `keras.Sequential` with these shapes to find the operation."
_LONGEST = 300  # Maximum number of characters of an exception.
_PACKAGE = Path(__file__).parents[2]


@interrupts_delayed()
def check_layer(
    layer_or_name: Any,
    units: int = 8,
    width: int = 6,
    options: Mapping[str, Any] | None = None,
    *,
    precision: str = "float32",
    required_only: bool = False,
) -> LayerReport:
    """Check that a token-mixing layer works in networks and suites.

    A layer must map `(batch, tokens, width)` to `(batch, tokens, units)` or `(batch, units)`.
    Its constructor gets `units`; its call gets a `mask` if it takes one (`query_mask` and
    `value_mask` if it takes `value`). The checks call the layer on small random inputs and compare
    outputs. Weights that start as constants, such as biases, get other values, as after training;
    only the training steps start from the initial weights. Exceptions of the layer are reported,
    not raised. The random seeds of Python, NumPy and Keras are set.

    Args:
        layer_or_name: `"package.module:Name"`, a registered name, a Keras layer class, or an
            instance (a template, cloned by `from_config`).
        units: Width of the output, at least 1; ignored for an instance.
        width: Width of the input, at least 1.
        options: Further arguments of the layer.
        precision: `"float32"` or `"bfloat16"`, the key `precision` of the suite that uses the
            layer: a fault with the other precision is a warning.
        required_only: If True, run only the checks that must pass before a suite.

    Returns:
        A report with `.checks` and `.passed`; `str()` gives a table.

    Raises:
        ValueError: If the name cannot be imported or is not a layer, a size is not a positive
            integer, an option is unknown or has a value that the layer refuses, or options are
            given for an instance.

    Example:
        >>> from relation_tf.networks import check_layer
        >>> report = check_layer("relation", required_only=True)
        >>> report.passed
        True
        >>> report.checks[0].name
        'construction'
    """
    entry = _entry(layer_or_name)
    positive_integer("units", units)
    positive_integer("width", width)
    one_of("precision", precision, PRECISIONS)
    arguments = dict(options or {})
    refuse_options(layer_or_name, arguments)
    subject = Subject(layer_or_name, entry, units, width, arguments)
    selected = [check for check in CHECKS if precision in check.required or not required_only]
    # Warnings of Keras and TensorFlow refer to the networks created here, not to the layer.
    ignored = warnings.catch_warnings(action="ignore")
    with ignored, errors_only("tensorflow"), dtype_policy("float32"):
        _refuse_wrong_options(subject)
        outcomes: list[LayerCheck] = []
        for check in selected:
            check_interrupts()
            faulty = {check.name for check in outcomes if check.status in ("failed", "warning")}
            outcomes.append(check.outcome(subject, faulty, precision))
    return LayerReport(str(subject), tuple(outcomes))


def _refuse_wrong_options(subject: Subject) -> None:
    """Raise an error if the layer refuses its options: this is no fault of the layer."""
    try:
        subject.layer()
    except ValueError:
        if subject.options:
            raise
    # The check of the construction reports other exceptions.
    except Exception:
        return


def _entry(layer_or_name: Any) -> Mechanism:
    """Return the registry entry of the layer and import its class."""
    entry = entry_of(layer_or_name)
    if entry.output_type == "sequence":
        raise ValueError(f"the layer must map tokens to vectors. Received: {layer_or_name}")
    if not isinstance(entry.factory, str):
        return entry
    try:
        load(entry.factory)
    except ValueError:
        raise
    # Importing a user's module may raise any exception.
    except Exception as error:
        message = f"cannot import mechanism {layer_or_name!r}: {described(error)}"
        raise ValueError(message) from error
    return entry


@dataclass(frozen=True)
class Subject:
    """The checked layer and its inputs."""

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
        units = {} if is_layer(self.mechanism) else {"units": self.units}
        settings = {**units, "width": self.width, **self.options}
        arguments = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        return f"{name} with {arguments} ({keras.backend.backend()})"

    def layer(self) -> Any:
        """Return a new layer from the same seed."""
        keras.utils.set_random_seed(_SEED)
        if is_layer(self.mechanism):
            layer = copy_of(self.mechanism, name="mechanism")
        else:
            layer = make_layer(self.entry, self.units, DROPOUT, self.options)
        if not is_layer(layer):
            raise TypeError(f"{type(layer).__name__} is not a subclass of keras.layers.Layer")
        layer.supports_masking = True  # As in networks: masks are passed by name.
        return layer

    def model(self, before: Callable[[Any], Any] = lambda x: x) -> keras.Model:
        """Return a model of the layer, after another one, for any number of tokens and a mask."""
        x = keras.Input((None, self.width), name="x")
        mask = keras.Input((None,), dtype="bool", name="mask")
        model = keras.Model([x, mask], mix_all(self.layer(), before(x), mask))
        vary_constants(model)
        return model

    @cached_property
    def x(self) -> np.ndarray:
        """Random tokens, `(BATCH, TOKENS, width)`."""
        return self.tokens(TOKENS)

    def tokens(self, length: int) -> np.ndarray:
        """Return random tokens with the scale of trained embeddings."""
        rng = np.random.default_rng(length)
        return rng.normal(size=(BATCH, length, self.width)).astype("float32")

    @cached_property
    def mixer(self) -> Any:
        """Layer that `mixed` calls."""
        layer = self.layer()
        mix_all(layer, tensor(self.x), tensor(KEPT))  # creates the weights
        vary_constants(layer)
        return layer

    def mixed(self, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Return the output of `mixer` in inference mode."""
        return array(mix_all(self.mixer, tensor(x), tensor(mask)))

    @property
    def masks(self) -> list[str]:
        """Names of the call arguments that get a mask."""
        names = ["query_mask", "value_mask"] if accepts(self.mixer, "value") else ["mask"]
        return [name for name in names if accepts(self.mixer, name)]


def vary_constants(layer: Any) -> None:
    """Change the weights that start as constants, such as biases, as training would.

    Initial zeros hide what a layer computes with them. Equal entries of a trainable weight or a
    moving statistic become different: zeros small values of both signs, others 10 to 30 % larger or
    smaller. Values depend on the shapes only. Random weights keep their values.
    """
    rng = np.random.default_rng(_SEED)
    for weight in layer.weights:
        if not (weight.trainable or weight.name.startswith("moving_")):
            continue
        start = array(weight)
        change = rng.choice([-1, 1], start.shape) * rng.uniform(0.1, 0.3, start.shape)
        inputs = np.prod(start.shape[:-1])  # A matrix of zeros gets the scale of a random one.
        value = np.where(start == 0, change / np.sqrt(inputs), start * (1 + change))
        _, places, counts = np.unique(start, return_inverse=True, return_counts=True)
        repeated = (counts[places] > 1).reshape(start.shape) | (start == 0) | (start.size == 1)
        value = np.where(repeated, value, start).astype("float32")
        weight.assign(weight.constraint(tensor(value)) if weight.constraint else value)


def kept_of(output: np.ndarray) -> np.ndarray:
    """Return the outputs at unmasked tokens, or all outputs of a vector layer."""
    return output[KEPT] if output.ndim == 3 else output


def array(x: Any) -> np.ndarray:
    """Convert a tensor to float32."""
    return np.asarray(ops.convert_to_numpy(ops.cast(x, "float32")))


def tensor(x: np.ndarray) -> Any:
    """Convert an array to a tensor."""
    return ops.convert_to_tensor(x)


class FaultError(Exception):
    """Fault of the layer, and how to fix it."""

    def __init__(self, fault: str, fix: str) -> None:
        super().__init__(f"{fault} To fix: {fix}")


class NotApplicableError(Exception):
    """Reason why a check does not apply."""


@dataclass(frozen=True)
class Check:
    """Check of a layer.

    Attributes:
        name: Name of the check.
        run: Function that returns the result or raises a fault.
        fix: Advice if the layer raises an exception.
        required: Precisions with which a fault is a failure; with others it is a warning.
        after: Checks without which this one says nothing, in addition to the first ones.
    """

    name: str
    run: Callable[[Any], str]
    fix: str
    required: Collection[str] = PRECISIONS
    after: Sequence[str] = ()

    def outcome(self, subject: Any, faulty: Collection[str], precision: str) -> LayerCheck:
        """Run the check, unless it waits for a faulty one."""
        for name in (*_FIRST, *self.after):
            if name in faulty:
                return LayerCheck(self.name, "not applicable", f"Fix {name!r} first.")
        bad: Status = "failed" if precision in self.required else "warning"
        try:
            return LayerCheck(self.name, "ok", self.run(subject))
        except NotApplicableError as reason:
            return LayerCheck(self.name, "not applicable", str(reason))
        except FaultError as fault:
            return LayerCheck(self.name, bad, str(fault))
        # The layer may raise any exception.
        except Exception as error:
            return LayerCheck(self.name, bad, f"{described(error)} To fix: {self.fix}")


CHECKS: list[Check] = []
"""The checks in the order in which they run."""


def add_check(name: str, fix: str, **declaration: Any) -> Callable[..., Any]:
    """Return a decorator that adds a function to the checks."""

    def add(run: Callable[[Subject], str]) -> Callable[[Subject], str]:
        CHECKS.append(Check(name, run, fix, **declaration))
        return run

    return add


@add_check("construction", "__init__ must accept `units`, the options and **kwargs.")
def _construction(subject: Subject) -> str:
    return f"{type(subject.layer()).__name__} is created."


@add_check(
    "output shape",
    "`call` must accept arrays of shape (batch, tokens, width), and in networks tensors of shape "
    "(None, None, width): use keras.ops.shape(x), and for a recurrence keras.ops.scan over one "
    "tensor: concatenate several (see examples/moving_average.py). Some layers need `units` that "
    "are a multiple of their number of heads.",
)
def _output_shape(subject: Subject) -> str:
    shape = subject.mixed(subject.x, KEPT).shape
    last = subject.units if is_custom(subject.entry, subject.mechanism) else shape[-1]
    allowed = [(BATCH, TOKENS, last), (BATCH, last)]
    if shape not in allowed:
        raise FaultError(
            f"The output has shape {shape} for an input of shape {subject.x.shape}; networks need "
            f"{allowed}.",
            "return `units` values for each token, or for each row.",
        )
    symbolic = tuple(subject.model().output.shape)
    expected = (*[None] * (len(shape) - 1), shape[-1])
    if symbolic != expected:
        raise FaultError(
            f"In networks the output has shape {symbolic} but must have {expected}: later layers "
            "would have wrong shapes.",
            "correct `compute_output_shape` or remove it; use keras.ops.shape(x).",
        )
    return f"input {subject.x.shape}, output {shape}."


@add_check("inference", "`call` must accept training=False.")
def _inference(subject: Subject) -> str:
    model = subject.model()
    first, again = (kept_of(array(model([subject.x, KEPT], training=False))) for _ in range(2))
    expect_finite(first, "Outputs", _UNDEFINED)
    fault = "Two calls in inference (training=False) give different outputs"
    fix = "add noise and change state only if training=True; create layers in __init__ or build."
    expect_same(again, first, fault, fix, tolerance=_ROUNDING)
    return "two calls give the same outputs."


@add_check("lengths", "use keras.ops.shape(x)[1] and no Python `if` on it.")
def _lengths(subject: Subject) -> str:
    model = subject.model()
    for length in _LENGTHS:
        output = array(model([subject.tokens(length), np.ones((BATCH, length), bool)]))
        fix = "avoid division by (tokens - 1) and the variance of one token."
        expect_finite(output, f"Outputs for length {length}", fix)
    return f"works for lengths {', '.join(map(str, _LENGTHS))}."


@add_check("padding", "`call` must accept a boolean mask of shape (batch, tokens).")
def _padding(subject: Subject) -> str:
    taken = " and ".join(f"`{name}`" for name in subject.masks) or "the layer takes no mask"
    fix = (
        "leave tokens where the mask is False out wherever tokens are mixed: zero them after the "
        "last bias with ops.where; set scores to -1e9 before a softmax; keep the state of a "
        "recurrence; divide by the number of real tokens."
    )
    if not subject.masks:
        fix = "add mask=None to `call`, or with `value` query_mask=None and value_mask=None."
    for cause, output, expected in _with_other_padding(subject):
        expect_same(output, expected, f"Outputs depend on the {cause} ({taken})", fix)
    return f"{taken}: padding does not change outputs."


def _with_other_padding(subject: Subject) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield what changed, the outputs, and those that they must equal."""
    expected = kept_of(subject.mixed(subject.x, KEPT))
    other = np.where(KEPT[..., None], subject.x, _PADDING * subject.x[::-1])
    yield "values of masked tokens", kept_of(subject.mixed(other, KEPT)), expected
    yield "number of padded tokens", kept_of(_padded(subject, other, KEPT)), expected
    for length in _LENGTHS:
        x, mask = subject.tokens(length), np.ones((BATCH, length), bool)
        yield "number of padded tokens", _padded(subject, x, mask), subject.mixed(x, mask)


def _padded(subject: Subject, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the outputs of texts with three more masked tokens, without those of the latter."""
    longer = np.pad(x, ((0, 0), (0, 3), (0, 0)), constant_values=_PADDING)
    output = subject.mixed(longer, np.pad(mask, ((0, 0), (0, 3))))
    return output[:, : x.shape[1]] if output.ndim == 3 else output


@add_check("gradients", "use operations with gradients, also with training=True.")
def _gradients(subject: Subject) -> str:
    before = keras.layers.Dense(subject.width, name="embeddings")
    model = subject.model(before)
    weights = model.trainable_weights[len(before.weights) :]
    starts = {weight.path: array(weight) for weight in model.trainable_weights}
    # With this epsilon, every gradient that is not zero changes its weight.
    adam = keras.optimizers.Adam(0.1, epsilon=1e-30)
    eagerly = keras.backend.backend() != "jax"  # where this is slow
    model.compile(adam, _weighted_sum, jit_compile=False, run_eagerly=eagerly)
    shape = subject.mixed(subject.x, KEPT).shape
    weighting = np.random.default_rng(0).normal(size=shape).astype("float32")
    # Networks read only unmasked tokens.
    weighting = np.where(KEPT[..., None], weighting, 0) if weighting.ndim == 3 else weighting
    model.train_on_batch([subject.x, KEPT], weighting)
    for weight in model.trainable_weights:
        expect_finite(array(weight), f"Gradients of {weight.path}", _UNDEFINED)
    same = [np.array_equal(array(weight), starts[weight.path]) for weight in weights]
    dead = [w.path for i, w in enumerate(weights) if same[i] and _is_dead(subject, i)]
    fix = "use it in `call` without rounding, stop_gradient or a boolean mask as factor"
    if dead:
        raise FaultError(
            f"{len(dead)} of {len(weights)} trainable weights have no gradient and are never "
            f"trained: {', '.join(dead)}.",
            f"{fix}, or set trainable=False.",
        )
    if np.array_equal(array(before.kernel), starts[before.kernel.path]):
        raise FaultError("The input has no gradient: embeddings are never trained.", f"{fix}.")
    return f"finite for all {len(weights)} trainable weights."


def _weighted_sum(weighting: Any, y: Any) -> Any:
    y = ops.cast(y, "float32")
    return ops.sum(ops.where(weighting == 0, ops.zeros_like(y), y) * weighting)


def _is_dead(subject: Subject, index: int) -> bool:
    """Return True if a trainable weight without gradient is a fault.

    A weight that is used without effect is none, such as a bias before a softmax.
    """
    model = subject.model()
    weight = model.trainable_weights[index]
    start = array(weight)
    other = np.random.default_rng(0).normal(size=start.shape) - 2 * start
    outputs = []
    for value in (start, other, np.full_like(start, np.nan)):
        weight.assign(value)
        outputs.append(kept_of(array(model([subject.x, KEPT]))))
    first, changed, undefined = outputs
    return difference_of(changed, first) > TOLERANCE or bool(np.isfinite(undefined).all())


@add_check("empty row", "return finite values for a sequence that is all padding.")
def _empty_row(subject: Subject) -> str:
    mask = KEPT.copy()
    mask[1] = False
    fix = "divide by ops.maximum(count, 1); mask softmax with -1e9, not -inf."
    fault = "For a sequence that is all padding, outputs"
    expect_finite(subject.mixed(subject.x, mask)[1], fault, fix)
    return "outputs are finite for a sequence that is all padding."


@add_check("batch order", "accept any number of rows.")
def _batch_order(subject: Subject) -> str:
    expected = subject.mixed(subject.x, KEPT)
    fix = "do not sum, average or normalize over axis 0, the batch."
    for rows in ([2, 0, 3, 1], [1]):
        fault = f"Outputs of a row depend on other rows (in a batch of the rows {rows})"
        expect_same(subject.mixed(subject.x[rows], KEPT[rows]), expected[rows], fault, fix)
    return "outputs do not depend on other rows or their order."


@add_check("read-out", "`call` must accept x[:, :1] and value=x.")
def _read_out(subject: Subject) -> str:
    if not accepts(subject.mixer, "value"):
        raise NotApplicableError("`call` has no argument `value`: networks compute all tokens.")
    entire = any(getattr(subject.mixer, name, False) for name in ("reads_later_queries", "causal"))
    if subject.entry.head != "first" or entire:
        raise NotApplicableError("Networks read all tokens of this layer.")
    first = array(mix_for_first(subject.mixer, tensor(subject.x), tensor(KEPT)))
    expected = subject.mixed(subject.x, KEPT)
    expected = expected[:, :1] if expected.ndim == 3 else expected
    fix = "use `value` as the tokens to mix, or rename this argument."
    fault = "layer(x[:, :1], value=x) differs from the first token of layer(x)"
    expect_same(first, expected, fault, fix)
    return "layer(x[:, :1], value=x) equals the first token of layer(x)."


@add_check(TOKEN_READ, "accept any tokens.")
def _token_read(subject: Subject) -> str:
    if subject.mixed(subject.x, EVERYTHING).ndim != 3:
        raise NotApplicableError(_OF_VECTORS)
    if subject.entry.head != "first":
        raise NotApplicableError("Networks read all tokens of this layer.")
    # A token must change the output of another one.
    middle, other = TOKENS // 2, subject.x.copy()
    other[:, middle] = subject.x[::-1, middle]
    changed, output = (
        np.delete(subject.mixed(x, EVERYTHING), middle, axis=1) for x in (other, subject.x)
    )
    if difference_of(changed, output) <= TOLERANCE:
        raise NotApplicableError("Each output depends only on its own token: tokens are not mixed.")
    causal = declares_causal(subject.mixer)
    place, name = (TOKENS - 1, "last") if causal else (0, "first")
    other = subject.x[::-1].copy()
    other[:, place] = subject.x[:, place]
    changed, output = (subject.mixed(x, EVERYTHING)[:, place] for x in (other, subject.x))
    if difference_of(changed, output) <= _UNCHANGED:
        setting = "remove `causal`" if causal else "set `self.causal = True` in __init__"
        raise FaultError(
            f"Networks read the output of the {name} token, which depends on no other token, so "
            "they cannot learn from the text.",
            f"if each token sees only {'later' if causal else 'earlier'} tokens, {setting}. "
            "Otherwise return (batch, units), such as the mean over unmasked tokens.",
        )
    return f"the output that networks read, of the {name} token, depends on other tokens."


@add_check("causality", "a causal layer must accept any tokens.")
def _causality(subject: Subject) -> str:
    if not declares_causal(subject.mixer):
        raise NotApplicableError("The layer is not `causal`.")
    half = TOKENS // 2
    other = np.concatenate([subject.x[:, :half], subject.x[::-1, half:]], axis=1)
    changed, expected = (subject.mixed(x, EVERYTHING) for x in (other, subject.x))
    if expected.ndim != 3:
        raise NotApplicableError(_OF_VECTORS)
    fault = "Outputs depend on later tokens although causal=True"
    fix = "compute output i from x[:, : i + 1] only, or set causal=False."
    expect_same(changed[:, :half], expected[:, :half], fault, fix)
    return "outputs do not depend on later tokens."


@add_check(
    "steps",
    "implement `initial_state(batch_size, max_length)` and `step(x, state, mask=None)` as in "
    "Relation.",
    # Required only by suites with `decode` tasks. Layers that see later tokens have no steps.
    required=(),
    after=("causality",),
)
def _steps(subject: Subject) -> str:
    layer = subject.mixer
    if not (hasattr(layer, "initial_state") and hasattr(layer, "step")):
        raise NotApplicableError("The layer has no `initial_state` and `step`.")
    if not getattr(layer, "causal", True):
        raise NotApplicableError("The layer is not `causal`.")
    if changed := state_change(layer, subject.width):
        raise FaultError(f"{changed}.", "allocate the full state in `initial_state`.")
    fix = "`step` must map (batch, 1, width) to (batch, 1, units) and the next state."
    _expect_same_steps(subject, EVERYTHING, "Steps of one token give other outputs", fix)
    if subject.masks:  # Blocks pass a mask to each step.
        mask = KEPT & (np.arange(TOKENS) != 1)
        fault = "Steps of one token give other outputs if tokens are masked"
        fix = "`step` must leave out tokens whose mask is False."
        _expect_same_steps(subject, mask, fault, fix)
    return "steps of one token give the same outputs as the whole text."


def _expect_same_steps(subject: Subject, mask: np.ndarray, fault: str, fix: str) -> None:
    """Raise a fault if steps give other outputs than a call with the whole text."""
    layer, steps = subject.mixer, []
    state = layer.initial_state(BATCH, TOKENS)
    for i in range(TOKENS):
        masks = [tensor(mask[:, i : i + 1])] if subject.masks else []
        output, state = layer.step(tensor(subject.x[:, i : i + 1]), state, *masks)
        steps.append(array(output))
    expect_same(
        np.concatenate(steps, axis=1)[mask], subject.mixed(subject.x, mask)[mask], fault, fix
    )


@add_check(
    "saving",
    "put @keras.saving.register_keras_serializable() before the class; get_config() must return "
    "what __init__ accepts: numbers, texts, lists and dictionaries.",
    required=(),
)
def _saving(subject: Subject) -> str:
    layer = subject.layer()
    config = layer.get_config()
    # Without a get_config, Keras stores the arguments.
    has_config = type(layer).get_config is not keras.layers.Layer.get_config
    parameters = inspect.signature(layer.__init__).parameters.values() if has_config else ()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    missing = [x.name for x in parameters if x.kind in named and x.name not in config]
    if missing:
        raise FaultError(
            f"get_config() omits arguments, so a saved model loses them: {', '.join(missing)}.",
            f"return {{**super().get_config(), {missing[0]!r}: self.{missing[0]}, ...}}.",
        )
    model = subject.model()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        loaded: Any = keras.saving.load_model(path)
    again, expected = (array(one([subject.x, KEPT])) for one in (loaded, model))
    fix = "store everything that outputs depend on in weights or get_config()."
    expect_same(
        kept_of(again), kept_of(expected), "A loaded model gives other outputs than the saved", fix
    )
    return "a saved model loads and gives the same outputs."


@add_check("training", _OPERATION)
def _training(subject: Subject) -> str:
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    ids = np.where(KEPT, rng.integers(1, _VOCABULARY, KEPT.shape), 0)
    # The texts of a pair have different lengths.
    for build, inputs in ((sequence_classifier, ids), (pair_classifier, [ids, ids[:, :-1]])):
        network = build(
            subject.mechanism,
            _VOCABULARY,
            _CLASSES,
            units=subject.units,
            embedding_dim=subject.width,
            dropout=DROPOUT,
            options=subject.options or None,
        )
        network.layers[-1].dtype_policy = "float32"  # as in suites
        compiled = keras.backend.backend() == "jax"  # where a step without compilation is slow
        network.compile("adam", "sparse_categorical_crossentropy", jit_compile=compiled)
        network.train_on_batch(inputs, np.arange(BATCH) % _CLASSES)
        weights = np.concatenate([array(weight).ravel() for weight in network.weights])
        expect_finite(weights, f"After one step of a {build.__name__}, weights", _UNDEFINED)
    return "one training step each of networks for one and for two texts."


@add_check("training in mixed precision", _OPERATION, required=("bfloat16",), after=("training",))
def _training_in_mixed_precision(subject: Subject) -> str:
    if is_layer(subject.mechanism):
        raise NotApplicableError(_OF_POLICIES)
    with dtype_policy("mixed_bfloat16"):
        return f"mixed_bfloat16: {_training(subject)}"


def expect_same(
    actual: np.ndarray,
    expected: np.ndarray,
    fault: str,
    fix: str,
    tolerance: float = TOLERANCE,
) -> None:
    """Raise a fault if two outputs differ by more than the tolerance."""
    changed = difference_of(actual, expected)
    if changed > tolerance:
        difference = f"a difference of {percent(changed)}"
        if np.isinf(changed):
            difference = "NaN, infinity or another shape"
        raise FaultError(f"{fault}: {difference}.", fix)


def expect_finite(x: np.ndarray, fault: str, fix: str) -> None:
    """Raise a fault if an entry is NaN or infinite."""
    if not np.isfinite(x).all():
        count = f"{np.count_nonzero(~np.isfinite(x))} of {x.size} values"
        raise FaultError(f"{fault} are NaN or infinite ({count}).", fix)


def difference_of(actual: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference relative to the largest entry; infinite if undefined."""
    finite = np.isfinite(actual).all() and np.isfinite(expected).all()
    if not finite or actual.shape != expected.shape:
        return float("inf")
    scale = np.abs(expected).max(initial=0.0)
    return float(np.abs(actual - expected).max(initial=0.0) / (scale or 1.0))


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{float(f'{100 * share:.2g}'):g} %" if share < 10 else "over 1,000 %"


def described(error: BaseException) -> str:
    """Return an exception as one sentence with its place, without Keras's traceback text."""
    wrapped = re.search(r"\x1b\[1m(.*?)\x1b\[0m", str(error), re.DOTALL)
    text = wrapped[1] if wrapped else str(error)
    text = re.split(r"(?:Error|Exception) encountered: ?", text)[-1]
    text = re.sub(r"\{\{function_node .*?\}\} ?| ?\[Op:\w+\].*", "", text)  # of TensorFlow
    text = re.sub(r" You can attempt the following .*", "", text, flags=re.DOTALL)  # of AutoGraph
    text = " ".join(text.split())
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    frame = _frame_of_user(error)
    place = f" at {Path(frame.filename).name}:{frame.lineno}, in {frame.name}" if frame else ""
    return f"{type(error).__name__}{place}: {short.rstrip('.')}."


def _frame_of_user(error: BaseException) -> traceback.FrameSummary | None:
    """Return the last frame outside of this and installed packages; notebook cells count."""
    installed = ("<frozen", *sysconfig.get_paths().values())
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = frame.filename
        if not Path(file).is_relative_to(_PACKAGE) and not file.startswith(installed):
            return frame
    return None
