"""Times to a target: only seeds that reached it have one, and others are slower."""

from __future__ import annotations

import json

import pytest

from relation_tf.files import write_json
from relation_tf.report import make_report

SECONDS = {"attention": 40.0, "linear": 30.0, "relation": 20.0, "baseline": 90.0}


def answer_of(report):
    return " ".join(json.loads(report.json())["answer"])


@pytest.fixture
def folder(suite_of, fabricate):
    """Times to target: relation is the fastest, baseline never reaches the target."""

    def make(never=("baseline",), missed=(), failed=None, **values):
        suite = suite_of(tasks=["MRPC", "RTE"], stopping="accuracy_reached", **values)

        def change(config, files):
            result = files["result"]
            epochs = result["epochs"]
            result["reached"] = config.method not in never and config.key not in missed
            total = SECONDS[config.method] + config.seed
            result["seconds"] |= {"training": 0.9 * total, "evaluation": 0.1 * total}
            result["seconds"]["input"] = epochs / 10
            files["history"] |= {"running_accuracy": [0.5] * epochs}

        return fabricate(suite, lambda run, *_: None if run.key == failed else 0.8, change)

    return make


def test_a_method_that_never_reached_the_target_is_slowest(folder):
    report = make_report(folder(time_limit=90.5, overrides={"RTE": {"epochs": 7}}))
    pvalues = report.tables["time-pvalues"]
    assert len(pvalues) == 2 * 6
    assert pvalues[["asymptotic_pvalue", "difference_low"]].notna().all(axis=None)
    pairs = pvalues[pvalues["task"] == "RTE"].set_index(["a", "b"])
    assert pairs["significant"].all()
    assert pairs.loc[("relation", "baseline"), "statistic"] > 0
    assert pairs.loc[("attention", "relation"), "statistic"] < 0
    assert "7 epochs or 90.5" in report.markdown()


@pytest.mark.parametrize(
    ("values", "differs"),
    [({}, True), ({"never": tuple(SECONDS)}, None), ({"seeds": [1, 2]}, False)],
)
def test_significant_differences_in_time_are_in_the_answer(folder, values, differs):
    answer = answer_of(make_report(folder(**values)))
    assert ("relation faster than attention" in answer) == bool(differs)
    assert ("differ significantly in time" in answer) == (differs is False)


def test_a_method_is_ranked_only_if_all_seeds_reached_the_target(folder):
    """Relation reaches the target with one seed only, which is faster than the others."""
    missed = [(task, "relation", seed) for task in ("MRPC", "RTE") for seed in (2, 3, 4, 5)]
    answer = answer_of(make_report(folder(missed=missed)))
    assert "first: linear 33 s" in answer
    assert "relation in 1 of" in answer


def test_a_failed_run_did_not_reach_the_target(folder):
    made = folder(never=(), failed=("RTE", "relation", 5))
    failed = made / "runs" / "RTE" / "relation" / "seed-5"
    failed.mkdir(parents=True)
    write_json(failed / "error.json", {"error": "time is over", "traceback": ""})
    assert "relation in 4 of" in answer_of(make_report(made))
