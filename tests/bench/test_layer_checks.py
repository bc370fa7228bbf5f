"""Suites check custom layers before training."""

from __future__ import annotations

import shutil
import sys

import pytest

from relation_tf.bench import run_suite, runner, workers
from relation_tf.bench.options import RunOptions
from relation_tf.bench.run_folder import RunFolder
from relation_tf.bench.runner import record_layer_checks
from relation_tf.bench.workers import WorkerEndedError
from relation_tf.config import Method
from relation_tf.errors import SuiteError
from relation_tf.networks.check import checks
from relation_tf.networks.check.report import Fault
from relation_tf.report import compare, make_report
from tests.bench.finished_runs import finish_suite

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
    return suite(tasks=["CoLA"], seeds=[1], epochs=1, method=[leaky, baseline])


def never(*arguments):
    raise AssertionError("the layer is checked again")


@pytest.mark.tensorflow
def test_failing_layer_is_refused_and_marked_if_allowed(tmp_path, small_glue, asked, monkeypatch):
    out = tmp_path / "out"
    with pytest.raises(SuiteError) as refused:
        run_suite(asked, out, data=small_glue, quiet=True)
    message = str(refused.value)
    assert message.startswith(f"method Leaky-8: {FAULT}")
    assert "--allow-failing-checks" in message
    assert "\n" not in message
    assert not (out / "runs").exists()
    assert not (out / "suite.toml").exists()

    monkeypatch.setattr(runner, "_check", failing("padding", "It leaks."))
    results = run_suite(asked, out, data=small_glue, allow_failing_checks=True, quiet=True)
    assert len(results.runs) == 2
    assert [*results.failing_layers] == ["Leaky-8"]
    for report in (make_report(out), compare(out)):
        assert report.data.scores.methods == ["Leaky-8 (fails checks)", "baseline-8"]
        assert len([each for each in report.warnings if "check-layer" in each]) == 1


def test_a_report_names_only_failing_layers_with_scores(tmp_path, suite):
    folder = finish_suite(tmp_path, suite(tasks=["CoLA"]))
    first, second = (str(method.name) for method in folder.suite().methods())
    shutil.rmtree(tmp_path / "runs" / "CoLA" / second)
    for failing, expected in ((first, 1), (second, 0), ("former", 0)):
        folder.record_failing_layers([first, second, "former"], {failing: "It leaks."})
        warnings = make_report(tmp_path).warnings
        assert sum("check-layer" in each for each in warnings) == expected


def test_built_in_layers_are_not_checked(tmp_path, suite, monkeypatch):
    monkeypatch.setattr(runner, "_check", never)
    assert record_layer_checks(suite().runs(), RunFolder(tmp_path), RunOptions()) == []
    assert [*tmp_path.iterdir()] == []


def test_faults_are_recorded_for_each_method(tmp_path, leaky, suite, monkeypatch):
    wide = leaky.model_copy(update={"units": [8, 16]})
    configs = suite(tasks=["CoLA"], method=[wide]).runs()
    checked = []

    def check(config, *arguments):
        checked.append(config)
        faults = {"padding": "It leaks.", "lengths": "It fails."}.items()
        return [Fault(config.mechanism, *fault) for fault in faults]

    monkeypatch.setattr(runner, "_check", check)
    folder = RunFolder(tmp_path)
    options = RunOptions(allow_failing_checks=True)
    notes = record_layer_checks(configs, folder, options)
    assert len(checked) == 1  # one for all widths
    assert [note.partition(":")[0] for note in notes] == ["method Leaky-8", "method Leaky-16"]
    assert folder.failing_layers() == dict.fromkeys(
        ["Leaky-8", "Leaky-16"], "padding: It leaks. lengths: It fails."
    )
    monkeypatch.setattr(runner, "_check", lambda *_: [])
    assert record_layer_checks(configs[:1], folder, options) == []
    assert [*folder.failing_layers()] == ["Leaky-16"]


@pytest.mark.tensorflow
def test_a_layer_that_ends_its_worker_is_no_fault_of_others(leaky, suite, monkeypatch):
    fatal = leaky.model_copy(update={"name": "fatal", "options": {"activation": "relu"}})

    def call(function, *arguments, runs):
        if any(run.method == "fatal" for run in runs):
            raise WorkerEndedError("a worker was ended by SIGSEGV")
        return function(*arguments)

    monkeypatch.setattr(workers, "call", call)
    monkeypatch.setattr("relation_tf.training.building.layer_faults", lambda *_, **options: [])
    faults = runner.find_faults(suite(method=[leaky, fatal]).runs(), RunOptions())
    assert {name: [fault.check for fault in each] for name, each in faults.items()} == {
        "Leaky-8": [], "fatal": ["process"],
    }  # fmt: skip
    message = "a worker was ended by SIGSEGV, while it checked the layer."
    assert faults["fatal"][0].message == message


def failing(check, message):
    """Return a replacement of the checks, in which each layer fails a check."""
    return lambda config, *_: [Fault(config.mechanism, check, message)]


@pytest.mark.tensorflow
def test_unknown_option_of_a_layer_is_named(tmp_path, small_glue, suite, leaky):
    own = leaky.model_copy(update={"options": {"unitz": 3}})
    message = (
        r"^method Leaky-8: unknown Leaky option 'unitz'\. Did you mean 'units'\? Must be one of"
    )
    with pytest.raises(SuiteError, match=message):
        run_suite(suite(tasks=["CoLA"], method=[own]), tmp_path, data=small_glue, quiet=True,
                  allow_failing_checks=True)  # fmt: skip


EARLIER = """
import keras


class Earlier(keras.layers.Dense):
    def call(self, x, mask=None):
        return super().call(keras.ops.cumsum(x, axis=1))


class Declared(Earlier):
    causal = True
"""


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("task", "name", "fails"),
    [("CoLA", "Earlier", True), ("recall-small", "Earlier", False), ("CoLA", "Declared", False)],
)
def test_a_causal_layer_must_say_so_if_a_network_reads_one_token(
    tmp_path, suite, monkeypatch, task, name, fails
):
    kept = [check for check in checks.CHECKS if not check.name.startswith("training")]
    monkeypatch.setattr(checks, "CHECKS", kept)  # the others take most of the time
    (tmp_path / "my_earlier.py").write_text(EARLIER, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    method = Method(mechanism=f"my_earlier:{name}", units=8)
    runs = suite(tasks=[task], seeds=[1], method=[method]).runs()
    ((_, faults),) = runner.find_faults(runs, RunOptions()).items()
    assert [(fault.check, "`self.causal = True`" in fault.message) for fault in faults] == [
        ("token read", True)
    ] * fails
