"""Suites check custom layers before training."""

from __future__ import annotations

import signal
import sys

import pytest

from relation_tf.bench import layer_checks, run_suite
from relation_tf.bench.layer_checks import check_layers
from relation_tf.bench.options import RunOptions
from relation_tf.bench.run_folder import RunFolder
from relation_tf.config import Method
from relation_tf.errors import SuiteError
from relation_tf.report import compare, make_report

LEAKY = """
import keras


class Leaky(keras.layers.Dense):
    def call(self, x, mask=None):
        return super().call(x + keras.ops.mean(x, axis=1, keepdims=True))
"""
FAULT = "my_leaky:Leaky fails the layer check 'padding': Outputs depend on the values of masked"


@pytest.fixture(scope="module")
def leaky(tmp_path_factory):
    """A method whose layer averages over padding."""
    folder = tmp_path_factory.mktemp("leaky")
    (folder / "my_leaky.py").write_text(LEAKY, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield Method(mechanism="my_leaky:Leaky", units=8)
    sys.modules.pop("my_leaky", None)


@pytest.fixture
def asked(suite, leaky):
    """A small suite with this method and a built-in one."""
    baseline = Method(mechanism="baseline", units=8)
    return suite(tasks=["CoLA"], seeds=[1, 2], epochs=1, method=[leaky, baseline])


def never(*arguments):
    raise AssertionError("the layer is checked again")


@pytest.mark.tensorflow
def test_failing_layer_is_refused_and_marked_if_allowed(tmp_path, small_glue, asked, monkeypatch):
    out = tmp_path / "out"
    with pytest.raises(SuiteError) as refused:
        run_suite(asked, out, data=small_glue, quiet=True)
    message = str(refused.value)
    assert message.startswith(f"method Leaky-8: {FAULT}")
    assert message.endswith(
        "Fix the layer, or add --allow-failing-checks (allow_failing_checks=True) to train it and "
        "mark it in reports"
    )
    assert "\n" not in message
    assert not (out / "runs").exists()
    assert not (out / "suite.toml").exists()

    # The check of this source is cached.
    monkeypatch.setattr(layer_checks, "_in_this_process", never)
    results = run_suite(asked, out, data=small_glue, allow_failing_checks=True, quiet=True)
    assert len(results.runs) == 4
    assert [*results.failing_layers] == ["Leaky-8"]
    report = make_report(out)
    assert report.context.scores.methods == ["Leaky-8 (fails checks)", "baseline-8"]
    (warning,) = (each for each in report.context.warnings if "check-layer" in each)
    assert warning.startswith(
        "The layer of Leaky-8 fails `check-layer`, so its scores can be wrong:"
    )
    assert "padding: Outputs depend on the values of masked tokens" in warning
    for page in (report.html(), report.markdown(), str(report)):
        assert "Leaky-8 (fails checks)" in page
    assert "Leaky-8 (fails checks)" in compare(out).context.scores.methods


def test_built_in_layers_are_not_checked(tmp_path, suite, monkeypatch):
    monkeypatch.setattr(layer_checks, "_in_this_process", never)
    assert check_layers(suite().runs(), RunFolder(tmp_path), RunOptions()) == []
    assert [*tmp_path.iterdir()] == []


def test_faults_are_recorded_for_each_method(tmp_path, asked, leaky, suite, monkeypatch):
    wide = leaky.model_copy(update={"units": [8, 16]})
    configs = suite(tasks=["CoLA"], method=[wide]).runs()
    checked = []

    def check(configs, log, options):
        checked.extend(configs)
        return [{"padding": "It leaks.", "lengths": "It fails."} for _ in configs]

    monkeypatch.setattr(layer_checks, "_in_this_process", check)
    folder = RunFolder(tmp_path)
    options = RunOptions(allow_failing_checks=True)
    notes = check_layers(configs, folder, options)
    assert len(checked) == 1  # one for all widths
    assert notes == [
        f"method Leaky-{units}: my_leaky:Leaky fails the layer check 'padding': It leaks. (1 more "
        "check fails.) It is trained and marked in reports."
        for units in (8, 16)
    ]
    assert folder.failing_layers() == dict.fromkeys(
        ["Leaky-8", "Leaky-16"], "padding: It leaks. lengths: It fails."
    )
    monkeypatch.setattr(layer_checks, "_in_this_process", lambda configs, *_: [{}] * len(configs))
    assert check_layers(configs[:1], folder, options) == []
    assert [*folder.failing_layers()] == ["Leaky-16"]


@pytest.mark.tensorflow
def test_ctrl_c_in_a_check_is_no_fault_of_the_layer(tmp_path, asked, monkeypatch):
    from relation_tf.training import building

    def interrupted(config):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:  # as in a trace
            return {"lengths": "The layer raises TypeError."}
        return {}

    monkeypatch.setattr(building, "layer_faults", interrupted)
    with pytest.raises(KeyboardInterrupt):
        check_layers(asked.runs(), RunFolder(tmp_path), RunOptions())


@pytest.mark.tensorflow
def test_unknown_option_of_a_layer_is_named(tmp_path, small_glue, suite, leaky):
    own = leaky.model_copy(update={"options": {"unitz": 3}})
    message = (
        r"^method Leaky-8: unknown Leaky option 'unitz'\. Did you mean 'units'\? Must be one of"
    )
    with pytest.raises(SuiteError, match=message):
        run_suite(suite(tasks=["CoLA"], method=[own]), tmp_path, data=small_glue, quiet=True,
                  allow_failing_checks=True)  # fmt: skip


@pytest.mark.slow
@pytest.mark.tensorflow
def test_worker_processes_do_not_start_with_a_failing_layer(tmp_path, small_glue, asked):
    with pytest.raises(SuiteError, match=FAULT):
        run_suite(asked, tmp_path / "out", data=small_glue, jobs=2, quiet=True)
