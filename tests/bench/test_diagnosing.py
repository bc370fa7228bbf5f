"""Tests of the diagnosis of a layer."""

from __future__ import annotations

import sys

import keras
import pytest

from relation_tf.bench import diagnose, diagnosing
from relation_tf.bench.diagnosing import COMPARATORS, QUICK_SEEDS, QUICK_TASKS, SUITE, diagnosis
from relation_tf.config import load_suite
from relation_tf.errors import SuiteError
from relation_tf.report import make_report
from relation_tf.report.sections.capabilities import describe
from relation_tf.tasks.diagnostics import DIAGNOSTICS


class Identity(keras.layers.Dense):
    """A layer that mixes no tokens."""


LAYER = f"{__name__}:Identity"


@pytest.mark.parametrize("layer", [Identity, LAYER])
def test_the_layer_has_the_network_of_attention(layer):
    suite = diagnosis(layer, {"use_bias": False})
    own, *others = suite.methods()
    assert [method.name for method in others] == [*COMPARATORS]
    assert own.name == "Identity"
    attention = dict(others[0].options)
    assert own.options == {**attention, "mechanism": LAYER, "options": {"use_bias": False}}
    assert (own.units, own.mechanism) == (others[0].units, "encoder")
    assert (suite.reference, suite.margin) == ("attention", 5.0)


def test_the_reference_is_trained_once_unless_its_options_differ():
    assert [method.name for method in diagnosis("attention", {}).methods()] == [*COMPARATORS]
    names = [method.name for method in diagnosis("attention", {"num_heads": 2}).methods()]
    assert names == ["attention-changed", *COMPARATORS]


@pytest.mark.parametrize("name", ["relation", "attention", "linear-attention", "baseline"])
def test_mechanisms_with_variants_use_the_equations_as_in_the_suites(name):
    own, *_ = diagnosis(name, {}).methods()
    assert own.options["options"]["variant"] == "equations"
    assert diagnosis(name, {"variant": "released_code"}).methods()[0].options["options"] == {
        "variant": "released_code"
    }
    for suite in ("diagnostics", "diagnostics-small"):
        (method,) = [each for each in load_suite(suite).methods() if each.name == name]
        assert method.options["options"] == {"variant": "equations"}


def test_a_layer_with_the_name_of_a_method_is_another_one(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "attention", Identity, raising=False)
    assert diagnosis("my_layer:_Größe", {}).methods()[0].name == "Gre"
    suite = diagnosis(f"{__name__}:attention", {})
    assert [method.name for method in suite.methods()] == ["own-attention", *COMPARATORS]
    assert suite.reference == "attention"


@pytest.mark.parametrize(
    ("layer", "message"),
    [("nothing", "unknown mechanism"), (f"{__name__}:Nothing", "no attribute 'Nothing'")],
)
def test_unknown_layers(tmp_path, layer, message):
    with pytest.raises(SuiteError, match=message):
        diagnose(layer, tmp_path / "runs", quiet=True)


def test_the_quick_form_has_a_task_of_each_of_its_abilities():
    abilities = [DIAGNOSTICS[task].isolates for task in QUICK_TASKS]
    assert len({*abilities}) == len(abilities) == 10
    assert {*QUICK_TASKS} < {*load_suite(SUITE).tasks}
    assert {*QUICK_SEEDS} < {*load_suite(SUITE).seeds}


@pytest.mark.parametrize(
    ("layer", "given", "methods", "tasks"),
    [
        (LAYER, {}, ["Identity", "attention"], [*QUICK_TASKS]),
        ("attention", {"tasks": "needle-256"}, ["attention"], ["needle-256"]),
        ("relation", {"tasks": ["sort"]}, ["relation", "attention"], ["sort"]),
    ],
)
def test_runs_of_the_quick_form(monkeypatch, tmp_path, layer, given, methods, tasks):
    chosen = {}
    monkeypatch.setattr(diagnosing, "run_suite", lambda *_, **options: chosen.update(options))
    diagnose(layer, tmp_path, quick=True, **given)
    assert (chosen["methods"], chosen["tasks"], [*chosen["seeds"]]) == (methods, tasks, [1, 2])
    diagnose(layer, tmp_path)
    assert (chosen["tasks"], chosen["seeds"]) == (None, None)


@pytest.mark.tensorflow
@pytest.mark.usefixtures("few_rows")
def test_a_diagnosis_describes_the_layer(tmp_path):
    small = {"tasks": ["memorize-small"], "seeds": [1], "settings": {"epochs": 1}}
    small |= {"methods": ["relation", "attention"]}
    results = diagnose("relation", tmp_path / "runs", **small, quiet=True)
    assert len(results.runs) == 2
    data = make_report(results).data
    words = describe(data.scores, data.comparisons[""].verdicts, "relation")
    assert "memorize-small" in words
    again = diagnose("relation", tmp_path / "runs", **small, quiet=True)
    assert again.scores["score"].tolist() == results.scores["score"].tolist()
