"""Each fault is found by its check, and correct layers pass."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

import keras
import pytest
from keras import ops

from relation_tf.errors import UnknownNameError
from relation_tf.layers import Relation
from relation_tf.layers.masking import zero_masked
from relation_tf.networks import LayerCheck, LayerReport, check_layer
from relation_tf.networks.check import checks
from relation_tf.registry import MECHANISMS

tensorflow = pytest.mark.tensorflow


@keras.saving.register_keras_serializable(package="tests")
class Mean(keras.layers.Layer):
    """Correct layer: tokens times their mean, and a Dense layer."""

    def __init_subclass__(cls, registered: bool = True) -> None:
        if registered:
            keras.saving.register_keras_serializable(package="tests")(cls)

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.dense = keras.layers.Dense(units, activation="tanh", dtype=self.dtype_policy)

    def build(self, x_shape: Any) -> None:
        self.dense.build(x_shape)

    def call(self, x: Any, mask: Any = None) -> Any:
        mask = ops.ones(ops.shape(x)[:2], "bool") if mask is None else mask
        x = zero_masked(x, mask)
        count = ops.sum(ops.cast(mask, x.dtype), axis=1)[:, None, None]
        return self.dense(x * self.mean(x, count))

    def mean(self, x: Any, count: Any) -> Any:
        return ops.sum(x, axis=1, keepdims=True) / ops.maximum(count, 1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}


class WrongProduct(Mean):
    def call(self, x: Any, mask: Any = None) -> Any:
        return ops.matmul(self.dense(x), x)


class Raises(Mean):
    def call(self, x: Any, mask: Any = None) -> Any:
        raise RuntimeError("out of ideas\nand of lines")


class WrongWidth(Mean):
    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.dense = keras.layers.Dense(units + 1)


class DeclaresAnotherShape(Mean):
    def compute_output_shape(self, x_shape: Any) -> Any:
        return (*x_shape[:-1], self.units + 1)


class NoMask(Mean):
    def call(self, x: Any) -> Any:
        return super().call(x)


class LeaksThroughSoftmax(Mean):
    def call(self, x: Any, mask: Any = None) -> Any:
        weights = ops.softmax(ops.sum(x, axis=-1, keepdims=True), axis=1)
        return self.dense(zero_masked(ops.clip(x, -9, 9) + ops.sum(weights * x, 1, True), mask))


class CountsPadding(Mean):
    def mean(self, x: Any, count: Any) -> Any:
        return ops.mean(x, axis=1, keepdims=True)


class EmptyRow(Mean):
    def mean(self, x: Any, count: Any) -> Any:
        return ops.sum(x, axis=1, keepdims=True) / count


class MixesTheBatch(Mean):
    def mean(self, x: Any, count: Any) -> Any:
        return ops.mean(super().mean(x, count), axis=0, keepdims=True)


class OtherValue(Mean):
    """The argument `value` has another meaning."""

    def call(
        self, x: Any, value: Any = None, query_mask: Any = None, value_mask: Any = None
    ) -> Any:
        y = super().call(x, query_mask)
        return y if value is None else y + ops.sum(zero_masked(value, value_mask))


class DeadWeight(Mean):
    def build(self, x_shape: Any) -> None:
        super().build(x_shape)
        self.dead = self.add_weight(shape=(3,), name="dead")
        self.add_weight(shape=(3,), name="unused")

    def call(self, x: Any, mask: Any = None) -> Any:
        return super().call(x, mask) + ops.sum(ops.sign(self.dead)) / 9


class InfiniteGradient(Mean):
    def mean(self, x: Any, count: Any) -> Any:
        zero = ops.sum(0 * self.dense.kernel)
        return super().mean(x, count) + ops.cast(ops.sqrt(zero), x.dtype)


class NoisyInInference(Mean):
    def call(self, x: Any, mask: Any = None) -> Any:
        return super().call(x, mask) + keras.random.normal((*ops.shape(x)[:1], 1, 1))


class FailsInHalfPrecision(Mean):
    """Raises where networks differ from the layer alone: in a graph with half precision."""

    def call(self, x: Any, mask: Any = None) -> Any:
        half = keras.backend.standardize_dtype(x.dtype) == "bfloat16"
        if half and x.shape[0] is None:
            raise RuntimeError("half precision")
        return super().call(x, mask)


class ForgetsAnArgument(Mean):
    def __init__(self, units: int, scale: float = 1.0, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.scale = scale


class Unregistered(Mean, registered=False):
    pass


class RunningMean(Mean):
    """Causal layer with steps."""

    causal = True

    def build(self, x_shape: Any) -> None:
        self.width = x_shape[-1]
        super().build(x_shape)

    def mean(self, x: Any, count: Any) -> Any:
        places = ops.arange(1, ops.shape(x)[1] + 1, dtype="int32")
        return ops.cumsum(x, axis=1) / ops.cast(places, x.dtype)[:, None]

    def initial_state(self, batch_size: int, max_length: int) -> Any:
        return ops.zeros((batch_size, 1, self.width)), ops.zeros(())

    def step(self, x: Any, state: Any, mask: Any = None) -> Any:
        x = x if mask is None else zero_masked(x, mask)
        total, count = state[0] + x, state[1] + 1
        return self.dense(x * total / count), (total, count)


class StepIgnoresMask(RunningMean):
    def step(self, x: Any, state: Any, mask: Any = None) -> Any:
        return super().step(x, state)


class CutsTheInput(Mean):
    def call(self, x: Any, mask: Any = None) -> Any:
        return super().call(ops.stop_gradient(x), mask)


class CausalWithValue(RunningMean):
    """`value` is an argument, but a causal layer is never read with one query."""

    def call(self, query: Any, value: Any = None, query_mask: Any = None) -> Any:
        shared = super().call(query if value is None else value, query_mask)
        return shared if value is None else query[..., :1] * shared


class NotDeclared(RunningMean):
    """Causal layer of which networks would read the first token."""

    causal = False


class SeesLaterTokens(RunningMean):
    def mean(self, x: Any, count: Any) -> Any:
        return Mean.mean(self, x, count)


class GrowingState(RunningMean):
    def initial_state(self, batch_size: int, max_length: int) -> Any:
        return ops.zeros((batch_size, 0, self.width))

    def step(self, x: Any, state: Any, mask: Any = None) -> Any:
        state = ops.concatenate([state, x], axis=1)
        return self.dense(x * ops.mean(state, axis=1, keepdims=True)), state


class OnlyLater(RunningMean):
    """Mirrored layer: its first token sees all."""

    causal = False

    def mean(self, x: Any, count: Any) -> Any:
        return ops.flip(super().mean(ops.flip(x, 1), count), 1)


class WrongSide(OnlyLater):
    causal = True


class Biased(Mean):
    """A trained bias makes masked tokens nonzero again."""

    def call(self, x: Any, mask: Any = None) -> Any:
        return ops.sum(self.dense(zero_masked(x, mask)), axis=1)


class WithWeight(Mean):
    """Has a weight that starts as a constant; masked tokens are zero."""

    initializer = "zeros"
    size: tuple[int, ...] = ()

    def build(self, x_shape: Any) -> None:
        super().build(x_shape)
        self.own = self.add_weight(
            shape=self.size or (x_shape[-1],), initializer=self.initializer, name="own"
        )

    def call(self, x: Any, mask: Any = None) -> Any:
        return self.dense(self.mixed(zero_masked(x, mask), mask))

    def mixed(self, x: Any, mask: Any) -> Any:
        raise NotImplementedError


class ClosedGate(WithWeight):
    """Its gate, zero at first, hides a mean over all tokens."""

    size = (1,)

    def mixed(self, x: Any, mask: Any) -> Any:
        return x + self.own * ops.mean(x, axis=1, keepdims=True)


# Each appears only when training changes constants.
HIDDEN = [
    (Biased, "padding"),
    (ClosedGate, "padding"),
]
# The message, where it has numbers or names.
FAULTS = [
    (Raises, "output shape", r"^RuntimeError at test_checks\.py:\d+, in call: out of ideas and of"),
    (WrongProduct, "output shape", r" at test_checks\.py:\d+, in call: [^{]*$"),
    (WrongWidth, "output shape", r"has shape \(4, 6, 9\) .* \[\(4, 6, 8\), \(4, 8\)\]"),
    (DeclaresAnotherShape, "output shape", r"\(None, None, 9\) .* \(None, None, 8\)"),
    (NoMask, "padding", "takes no mask"),
    (LeaksThroughSoftmax, "padding", "values of masked tokens"),
    (CountsPadding, "padding", "number of padded tokens"),
    (EmptyRow, "empty row", r"NaN or infinite \(48 of 48"),
    (MixesTheBatch, "batch order", ""),
    (OtherValue, "read-out", ""),
    (DeadWeight, "gradients", r"2 of 4 .*: .*/dead, .*/unused\. To fix"),
    (InfiniteGradient, "gradients", "kernel are NaN or infinite"),
    (CutsTheInput, "gradients", "The input has no gradient"),
    (NotDeclared, "token read", r"set `self\.causal = True` in __init__"),
    (SeesLaterTokens, "causality", ""),
    (StepIgnoresMask, "steps", "if tokens are masked"),
    (GrowingState, "steps", r"float32 \(1, 0, 6\) before, float32 \(1, 1, 6\) after a step\."),
    (ForgetsAnArgument, "saving", r"omits .*: scale\. .*'scale': self\.scale"),
    (Unregistered, "saving", r"register_keras_serializable\(\) before the class"),
    # JAX itself refuses noise without a seed; only TensorFlow traces with unknown lengths.
    *(
        pytest.param(*fault, marks=tensorflow)
        for fault in (
            (NoisyInInference, "inference", ""),
            (FailsInHalfPrecision, "training in mixed precision", "RuntimeError.*: half precision"),
        )
    ),
]


ADVICE = {"steps", "saving", "training in mixed precision"}


@pytest.fixture
def without_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the checks that train networks, which take most of the time."""
    kept = [one for one in checks.CHECKS if not one.name.startswith("training")]
    monkeypatch.setattr(checks, "CHECKS", kept)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run only some checks after the first ones, to save time."""

    def keep(*names: str) -> None:
        kept = [one for one in checks.CHECKS if one.name in {*checks._FIRST, *names}]
        monkeypatch.setattr(checks, "CHECKS", kept)

    return keep


def statuses(report: LayerReport) -> Mapping[str, str]:
    return {one.name: one.status for one in report.checks}


def faults(report: LayerReport) -> Mapping[str, str]:
    return {c.name: c.message for c in report.checks if c.status in ("failed", "warning")}


@pytest.mark.parametrize(("layer", "name", "message"), FAULTS)
def test_a_fault_is_found_by_its_check(
    layer: type, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # These checks take most of the time.
    slow = {"saving", "training in mixed precision"} - {name}
    slow |= set() if name.startswith("training") else {"training"}
    monkeypatch.setattr(checks, "CHECKS", [one for one in checks.CHECKS if one.name not in slow])
    report = check_layer(layer)
    assert set(faults(report)) == {name}
    (found,) = (one for one in report.checks if one.name == name)
    assert found.status == ("warning" if name in ADVICE else "failed")
    assert report.passed == (name in ADVICE)
    assert " To fix: " in found.message
    assert "\n" not in found.message
    assert re.search(message, found.message)


@pytest.mark.parametrize(("layer", "name"), HIDDEN)
def test_constants_at_initialization_hide_no_fault(layer: type, name: str, only: Any) -> None:
    only(name)
    assert name in faults(check_layer(layer))


def test_correct_layer_passes() -> None:
    report = check_layer(Mean)
    assert report.passed
    others = {check.name for check in report.checks if check.status != "ok"}
    assert others == {"causality", "steps", "read-out"}


@pytest.mark.usefixtures("without_training")
@pytest.mark.parametrize(
    ("layer", "status"),
    [
        (OnlyLater, "ok"),
        (WrongSide, "failed"),
        ("baseline", "not applicable"),
        ("bilstm-attention", "not applicable"),
        ("dan", "not applicable"),
    ],
)
def test_networks_must_read_a_token_that_sees_others(layer: Any, status: str, only: Any) -> None:
    only("token read")
    assert statuses(check_layer(layer))["token read"] == status


@pytest.mark.parametrize(("layer", "status"), [(NotDeclared, "failed"), (RunningMean, "ok")])
def test_an_encoder_is_read_where_the_layer_inside_declares(
    layer: type, status: str, only: Any
) -> None:
    only("token read")
    options = {"mechanism": f"{__name__}:{layer.__name__}", "num_layers": 2}
    assert statuses(check_layer("encoder", options=options))["token read"] == status


def test_steps_of_a_causal_layer_are_checked(only: Any) -> None:
    only("causality", "steps")
    causal = {"variant": "equations", "causal": True}
    for layer, options, steps in (
        (RunningMean, None, "ok"),
        ("relation", None, "not applicable"),
        ("relation", causal, "ok"),
    ):
        assert statuses(check_layer(layer, options=options))["steps"] == steps


def test_a_causal_layer_is_not_read_with_one_query(only: Any) -> None:
    only("read-out")
    assert statuses(check_layer(CausalWithValue))["read-out"] == "not applicable"


class SoftmaxPool(Mean):
    """Correct layer: the bias of the scores has no effect, because softmax cancels it."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.score = keras.layers.Dense(1, dtype=self.dtype_policy)

    def build(self, x_shape: Any) -> None:
        super().build(x_shape)
        self.score.build(x_shape)

    def call(self, x: Any, mask: Any = None) -> Any:
        mask = ops.ones(ops.shape(x)[:2], "bool") if mask is None else mask
        x = zero_masked(x, mask)
        scores = ops.where(mask[..., None], self.score(x), -1e9)
        return self.dense(ops.sum(ops.softmax(scores, axis=1) * x, axis=1))


def test_a_bias_without_effect_is_no_fault(only: Any) -> None:
    only("gradients")
    assert statuses(check_layer(SoftmaxPool, width=100))["gradients"] == "ok"


QUICK = ("relation", "fcsr")


@pytest.mark.usefixtures("without_training")
@pytest.mark.parametrize("name", QUICK)
def test_built_in_layers_pass(name: str) -> None:
    assert faults(check_layer(name)) == {}


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "name",
    sorted(
        {name for name, entry in MECHANISMS.items() if entry.output_type != "sequence"} - {*QUICK}
    ),
)
def test_other_built_in_layers_pass(name: str) -> None:
    assert faults(check_layer(name, units=12, width=5)) == {}


@pytest.mark.usefixtures("without_training")
def test_an_instance_and_its_options() -> None:
    report = check_layer(Relation(5, use_bias=True, name="mine"), width=3)
    assert faults(report) == {}
    assert str(report).startswith("Relation 'mine'")
    with pytest.raises(ValueError, match="`options` cannot change a layer instance"):
        check_layer(Relation(5), options={"use_bias": True})


def test_unknown_option() -> None:
    message = r"unknown Mean option 'unitz'\. Did you mean 'units'\? Must be one of units\.$"
    with pytest.raises(UnknownNameError, match=message):
        check_layer(Mean, options={"unitz": 3})


class Pooled(Mean):
    """Vector layer that declares mask support, as the guide offers."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.supports_masking = True

    def call(self, x: Any, mask: Any = None) -> Any:
        y = super().call(x, mask)
        return ops.sum(y if mask is None else zero_masked(y, mask), axis=1)


@pytest.mark.slow
def test_vector_layer_with_mask_support_trains_in_both_networks(only: Any) -> None:
    only("training", "training in mixed precision")
    assert {*statuses(check_layer(Pooled)).values()} == {"ok"}


@pytest.mark.tensorflow
@pytest.mark.usefixtures("without_training")
def test_noise_in_inference_is_no_fault_of_padding() -> None:
    by_name = {one.name: one for one in check_layer(NoisyInInference, required_only=True).checks}
    assert by_name["inference"].status == "failed"
    assert by_name["padding"].message == "Fix 'inference' first."


def test_layer_without_mask_passes_if_padding_has_no_effect() -> None:
    report = check_layer(keras.layers.Dense, required_only=True)
    assert report.passed
    assert {one.name for one in report.checks} < {one.name for one in checks.CHECKS}


@pytest.mark.tensorflow
def test_half_precision_is_required_with_this_precision(only: Any) -> None:
    only("training in mixed precision")
    report = check_layer(FailsInHalfPrecision, precision="bfloat16", required_only=True)
    assert statuses(report)["training in mixed precision"] == "failed"


def test_object_that_is_not_a_layer() -> None:
    found = faults(check_layer("builtins:dict", 4))["construction"]
    assert "dict is not a subclass" in found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gru-encoder-decoder",), "must map tokens to vectors"),
        ((3,), "`mechanism` must be a name"),
        ((Mean, 0), "`units` must be a positive integer. Received: units=0"),
        ((Mean, 8, -1), "`width` must be a positive integer. Received: width=-1"),
    ],
)
def test_bad_input(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_layer(*arguments)


def test_module_that_raises_on_import(tmp_path: Any, monkeypatch: Any) -> None:
    (tmp_path / "broken_layer.py").write_text("def :\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ValueError, match="cannot import mechanism 'broken_layer:A': SyntaxError"):
        check_layer("broken_layer:A")


def test_the_table_has_one_line_for_all_checks_that_wait_for_a_fault() -> None:
    checks = (
        LayerCheck("padding", "failed", "No."),
        LayerCheck("causality", "not applicable", "Fix 'padding' first."),
        LayerCheck("steps", "not applicable", "Fix 'padding' first."),
        LayerCheck("saving", "ok", "Yes."),
        LayerCheck("XLA", "warning", "No."),
    )
    name, *rows, counts = str(LayerReport("mine", checks)).splitlines()
    assert (name, counts.split()[:2], counts.split()[-2:]) == (
        "mine", ["failed:", "1"], ["warnings:", "1"]
    )  # fmt: skip
    assert [row[:14].strip() + ": " + row[16:33].strip() for row in rows] == [
        "failed: padding", "not applicable: causality … steps", "ok: saving", "warning: XLA",
    ]  # fmt: skip


class Pressed(keras.layers.Dense):
    """A layer during which Ctrl-C is pressed, once."""

    place = ""

    def __init__(self, units, **kwargs):
        super().__init__(units, **kwargs)
        self.at("init")

    def at(self, place):
        if type(self).place == place:
            type(self).place = ""
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:  # as Keras's C++ parts convert it
                raise TypeError("converted") from None

    def call(self, x):
        self.at("call")
        return super().call(x)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("place", ["init", "call"])
def test_ctrl_c_is_no_fault_of_the_layer(place, monkeypatch):
    monkeypatch.setattr(Pressed, "place", place)
    with pytest.raises(KeyboardInterrupt):
        check_layer(Pressed)
