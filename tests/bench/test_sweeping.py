"""Suites that tune settings before their runs."""

from __future__ import annotations

import functools
import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from relation_tf.bench import RunFolder, plan_suite, planning, read_results, run_suite
from relation_tf.bench.planning import SuitePlan
from relation_tf.bench.results import Results
from relation_tf.bench.sweeping import (
    _choices,
    choose,
    is_best,
    tune,
    tuned_before,
    tuning_suite,
    warn_of_range,
)
from relation_tf.config import Suite
from relation_tf.config.suite import make_suite
from relation_tf.errors import SuiteError
from relation_tf.files import write_json
from tests.bench.finished_runs import finish_suite

RATES = [0.001, 0.01, 0.1]
# For tests of one method.
ONE: dict[str, Any] = {"method": [{"mechanism": "baseline", "units": 8}], "reference": None,
                       "margin": None, "overrides": {}}  # fmt: skip


def asked(**changes: Any) -> Suite:
    values: dict[str, Any] = {
        "name": "small",
        "source": "miniglue",
        "tasks": ["WNLI", "CoLA"],
        "seeds": [1],
        "method": [
            {"mechanism": "relation", "units": 8},
            {"mechanism": "baseline", "units": 8},
        ],
        "epochs": 1,
        "reference": "baseline-8",
        "margin": 1.0,
        "overrides": {"WNLI": {"margin": 2.0}},
        "sweep": {"learning_rate": RATES, "seeds": [11, 12]},
    }
    return make_suite("small", values | changes)


def trained(tuning: Suite, path: Path, names: list[str] | None = None) -> Results:
    """Return equal scores of all runs."""
    return read_results(finish_suite(path, tuning).path)


def times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("result.json")}


def scored(scores: dict[float, list[float]], task: str = "WNLI") -> pd.DataFrame:
    rows = [
        (task, "relation-8", rate, 11 + i, score)
        for rate, own in scores.items()
        for i, score in enumerate(own)
    ]
    return pd.DataFrame(rows, columns=["task", "method", "learning_rate", "seed", "score"])


@pytest.mark.parametrize(
    ("scores", "chosen"),
    [
        ({0.001: [0.5, 0.6], 0.01: [0.7, 0.6], 0.1: [0.9, 0.1]}, 0.01),
        ({0.001: [0.5, 0.6], 0.01: [0.6, 0.5], 0.1: [0.1, 0.1]}, 0.01),  # inside the range
        ({0.001: [0.5, 0.6], 0.01: [0.1, 0.2], 0.1: [0.6, 0.5]}, 0.001),  # equally far, the first
        ({0.001: [0.5, 0.6], 0.01: [0.1, 0.2], 0.1: [0.9, math.nan]}, 0.001),  # diverged
    ],
)
def test_the_best_mean_is_chosen(scores: dict[float, list[float]], chosen: float) -> None:
    (tuned,) = choose(asked(), scored(scores))
    assert (tuned.task, tuned.method) == ("WNLI", "relation-8")
    assert tuned.settings == {"learning_rate": chosen}


@pytest.mark.parametrize(
    ("sweep", "equal", "chosen"),
    [
        ({"learning_rate": [1e-4, 1e-3, 1e-2, 1e-1]}, range(4), 1),
        ({"learning_rate": [0.1, 0.001, 0.01]}, range(3), 2),  # in any order
        ({"optimizer": ["adam", "sgd", "nadam"]}, range(3), 0),  # no range
        # Each number counts: the middle dropout with the largest rate is at an end.
        ({"dropout": [0.0, 0.1, 0.2, 0.3, 0.4],
          "learning_rate": [1e-4, 3e-4, 1e-3, 3e-3, 1e-2]}, [14, 16], 16),
    ],
)  # fmt: skip
def test_of_equal_means_that_nearest_to_the_middle_is_chosen(
    sweep: dict[str, Any], equal: list[int], chosen: int
) -> None:
    suite = asked(sweep={**sweep, "seeds": [11]})
    assert suite.sweep is not None
    combinations = [*suite.sweep.combinations()]
    rows = [
        {"task": "WNLI", "method": "relation-8", "seed": 11, "score": float(i in equal), **own}
        for i, own in enumerate(combinations)
    ]
    (tuned,) = choose(suite, pd.DataFrame(rows))
    assert tuned.settings == combinations[chosen]


@pytest.mark.parametrize(
    "scores",
    [
        {rate: [math.nan, 0.5] for rate in RATES},
        {0.001: [0.5, 0.5], 0.01: [0.5, 0.5], 0.1: [0.5]},
        {0.001: [0.5, 0.5]},
    ],
)
def test_nothing_is_chosen_if_all_diverged_or_runs_are_missing(
    scores: dict[float, list[float]],
) -> None:
    assert choose(asked(), scored(scores)) == []


TIED = "all values have the same score"
COLLAPSED = "at least half of the runs with the best value collapsed (score 0)"
SMALLEST = "learning_rate 0.001 is the smallest value, and smaller ones can be better"
LARGEST = "learning_rate 0.1 is the largest value, and larger ones can be better"


@pytest.mark.parametrize(
    ("scores", "task", "words"),
    [
        ({0.001: [0.5, 0.5], 0.01: [0.5, 0.5], 0.1: [0.5, 0.5]}, "WNLI", TIED),
        ({0.001: [1.0, 1.0], 0.01: [1.0, 1.0], 0.1: [1.0, 1.0]}, "WNLI", None),  # perfect
        ({0.001: [0.0, 0.0], 0.01: [0.0, 0.0], 0.1: [0.0, 0.0]}, "CoLA", COLLAPSED),
        ({0.001: [0.0, 0.0], 0.01: [0.1, 0.2], 0.1: [0.0, 0.0]}, "CoLA", None),
        ({0.001: [0.7, 0.72], 0.01: [0.6, 0.61], 0.1: [0.5, 0.5]}, "WNLI", SMALLEST),
        ({0.001: [0.5, 0.5], 0.01: [0.6, 0.61], 0.1: [0.7, 0.72]}, "WNLI", LARGEST),
        ({0.001: [0.7, 0.72], 0.01: [0.6, math.nan], 0.1: [0.5, 0.5]}, "WNLI", SMALLEST),
        ({0.001: [0.7, 0.72], 0.01: [0.69, 0.72], 0.1: [0.5, 0.5]}, "WNLI", None),  # flat
    ],
)
def test_a_choice_at_an_end_or_without_differences_is_doubtful(
    scores: dict[float, list[float]], task: str, words: str | None
) -> None:
    table = scored(scores, task)
    (tuned,) = choose(asked(), table)
    found = warn_of_range(asked(), tuned, table)
    assert (found and found.text) == words


def test_settings_kept_from_a_smaller_sweep_are_not_the_best() -> None:
    table = scored({0.001: [0.5, 0.5], 0.01: [0.6, 0.61], 0.1: [0.7, 0.72]}, "WNLI")
    (best,) = choose(asked(), table)
    assert is_best(asked(), best, table)
    assert is_best(asked(), best, table[:0])  # a deleted sweep
    assert warn_of_range(asked(), best, table[:0]) is None
    for rate in (0.01, 0.02):
        kept = best.model_copy(update={"settings": {"learning_rate": rate}})
        assert not is_best(asked(), kept, table)
        assert warn_of_range(asked(), kept, table) is None


def test_run_names_the_choices(tmp_path: Path) -> None:
    said: list[str] = []
    tune(asked(), tmp_path, trained, said.append)
    for line, method in zip(said[1:], ("relation-8", "baseline-8"), strict=True):
        assert line.partition(f" {method}: ")[2] == "learning_rate 0.01 (WNLI, CoLA)"


def test_the_suite_of_a_sweep_compares_nothing() -> None:
    tuning = tuning_suite(asked(save_models=True))
    assert (tuning.reference, tuning.margin, tuning.seeds) == (None, None, [11, 12])
    assert not tuning.save_models
    rates = {run.method: run.learning_rate for run in tuning.runs()}
    assert rates == {
        f"{name}-8-{rate}": rate for name in ("relation", "baseline") for rate in RATES
    }


def test_a_failed_run_of_the_sweep_stops_only_its_task_and_method(tmp_path: Path) -> None:
    """Otherwise the method would be tuned with fewer values than the others."""

    def train(tuning: Suite, path: Path, names: list[str] | None) -> Results:
        folder = finish_suite(path, tuning)
        (path / "runs/WNLI/relation-8-0.01/seed-12/result.json").unlink()
        return read_results(folder.path)

    def tuned(**chosen: Any) -> Suite:
        return tune(asked(), tmp_path, train, lambda line: None, **chosen)

    with pytest.raises(SuiteError, match="runs of the sweep failed for relation-8 on WNLI"):
        tuned()
    for chosen in ({"tasks": "CoLA"}, {"methods": "baseline"}):
        known = {(each.task, each.method) for each in tuned(**chosen).tuned}
        assert known == {("WNLI", "baseline-8"), ("CoLA", "relation-8"), ("CoLA", "baseline-8")}


def test_runs_from_before_the_sweep_are_refused_before_it(tmp_path: Path) -> None:
    trained(asked(sweep=None), tmp_path)
    with pytest.raises(SuiteError, match=r"runs of relation-8 on WNLI are finished, .* a sweep"):
        run_suite(asked(), tmp_path, quiet=True)
    assert not (tmp_path / "sweep").exists()


@pytest.mark.tensorflow
def test_a_suite_is_tuned_before_its_runs(tmp_path: Path) -> None:
    # Not the default of the suite.
    suite = asked(tasks=["WNLI"], sweep={"learning_rate": [0.01, 0.1], "seeds": [11]}, **ONE)
    results = run_suite(suite, tmp_path, quiet=True)
    table = pd.read_csv(tmp_path / "sweep" / "sweep.csv")
    assert len(table) == 2
    chosen = {each.method: each.settings["learning_rate"] for each in results.suite.tuned}
    assert chosen == {"baseline-8": table.set_index("learning_rate")["score"].idxmax()}
    assert {run["method"]: run["config"]["learning_rate"] for run in results.runs} == chosen
    assert read_results(tmp_path).suite.tuned == results.suite.tuned

    before = times(tmp_path)
    assert len(before) == 3
    run_suite(suite, tmp_path, quiet=True)
    assert times(tmp_path) == before

    # Finished runs keep their settings, even if the sweep would now choose others.
    table = table.assign(score=-table["score"])
    tuned = _choices(suite, tmp_path, table)
    assert {each.method: each.settings["learning_rate"] for each in tuned} == chosen


untimed = functools.partial(SuitePlan, costs={}, start=0.0, jobs=1, seeds=1)


@pytest.mark.tensorflow
def test_a_plan_adds_the_time_of_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "make_plan", lambda suite, *_: untimed(suite, 0, []))
    suite = asked(tasks=["WNLI"], sweep={"learning_rate": [0.01, 0.1], "seeds": [11]})
    own = {"task": "WNLI", "settings": {"learning_rate": 0.1}}
    for name, methods in (("done", ["relation-8", "baseline-8"]), ("half", ["relation-8"])):
        tuned = [{**own, "method": method} for method in methods]
        RunFolder(tmp_path / name).open(asked(**{**suite.model_dump(), "tuned": tuned}))

    def added(name: str) -> list[float]:
        notes = plan_suite(suite, tmp_path / name, quiet=True).notes
        return [float(times) for times in re.findall(r"about (\S+) times", " ".join(notes))]

    assert added("done") == []
    (whole,), (half,) = added("new"), added("half")
    assert half == whole / 2  # one of two methods is tuned


@pytest.mark.tensorflow
def test_widths_and_options_are_tuned(tmp_path: Path) -> None:
    sweep = {"units": [4, 8], "options": {"num_heads": [1, 4]}, "seeds": [11]}
    suite = asked(tasks=["WNLI"], sweep=sweep, **ONE | {"method": [{"mechanism": "attention"}]})
    trained(tuning_suite(suite), tmp_path / "sweep")
    results = run_suite(suite, tmp_path, quiet=True)
    assert (tmp_path / "sweep" / "runs" / "WNLI" / "attention-8-heads4").is_dir()
    chosen = {each.method: each.settings for each in results.suite.tuned}
    (run,) = results.runs
    config = run["config"]
    assert chosen == {
        "attention": {"units": config["units"], "options.num_heads": config["options"]["num_heads"]}
    }
    before = times(tmp_path)
    assert len(before) == 5
    run_suite(suite, tmp_path, quiet=True)
    assert times(tmp_path) == before
    assert tuned_before(tmp_path) == results.suite.tuned


@pytest.mark.tensorflow
def test_a_method_without_a_tuned_option_is_refused_before_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = asked(sweep={"options": {"num_heads": [1, 2]}, "seeds": [11]}, tasks=["WNLI"],
                  overrides={})  # fmt: skip
    for command in (run_suite, plan_suite):
        with pytest.raises(SuiteError, match=r"method baseline-8\S*: unknown .* 'num_heads'"):
            command(suite, tmp_path, quiet=True)
    assert not [*tmp_path.rglob("result.json")]
    monkeypatch.setattr(planning, "make_plan", lambda suite, *_: untimed(suite, 0, []))
    plan_suite(suite, tmp_path, methods="relation", quiet=True)


def test_diverged_runs_are_not_chosen(tmp_path: Path) -> None:
    def train(tuning: Suite, path: Path, names: list[str] | None) -> Results:
        for run in trained(tuning, path).runs:
            if run["config"]["learning_rate"] > most:
                Path(run["folder"], "result.json").unlink()
                error = {"error": "loss is nan", "diverged": True}
                write_json(Path(run["folder"], "error.json"), error)
        return read_results(path)

    most = 0.001
    tuned = tune(asked(), tmp_path / "some", train, lambda line: None).tuned
    assert [each.settings for each in tuned] == [{"learning_rate": 0.001}] * 4
    scores = pd.read_csv(tmp_path / "some" / "sweep" / "sweep.csv").set_index("learning_rate")
    assert scores["score"].isna().groupby(level=0).all().to_dict() == {
        0.001: False, 0.01: True, 0.1: True,
    }  # fmt: skip
    most = 0.0
    with pytest.raises(SuiteError, match=r"finite losses .* for relation-8 on WNLI"):
        tune(asked(), tmp_path / "all", train, lambda line: None)


def test_a_folder_of_another_suite_is_refused_before_the_sweep(tmp_path: Path) -> None:
    other = asked(tasks=["WNLI"], sweep=None, method=[{"mechanism": "dan", "units": 8}],
                  reference=None, margin=None, overrides={})  # fmt: skip
    trained(other, tmp_path)
    with pytest.raises(SuiteError, match="this finished run is not in suite small"):
        run_suite(asked(), tmp_path, quiet=True)
    assert not (tmp_path / "sweep").exists()


def test_values_that_give_one_name_are_refused() -> None:
    sweep = {"optimizer": ["adam", "Adam"], "seeds": [11]}
    with pytest.raises(SuiteError, match=r"Received: 2 for relation-8-adam on WNLI"):
        tuning_suite(asked(sweep=sweep))


@pytest.mark.tensorflow
def test_a_sweep_reads_an_iterator_of_tasks(tmp_path: Path) -> None:
    suite = asked(sweep={"learning_rate": [0.01, 0.1], "seeds": [11]}, reference=None, margin=None,
                  overrides={})  # fmt: skip
    trained(tuning_suite(suite), tmp_path / "sweep")
    chosen = (name for name in ("WNLI",))
    results = run_suite(suite, tmp_path, tasks=chosen, methods=iter(["baseline"]), quiet=True)
    assert [run["task"] for run in results.runs] == ["WNLI"]
