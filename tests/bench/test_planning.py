"""Plans of suites, from timed steps and finished runs; what suites can show with their seeds."""

from __future__ import annotations

import pytest

from relation_tf.bench import plan_suite, planning
from relation_tf.bench.planning import (
    Cost,
    SuitePlan,
    make_plan,
    nothing_can_be_shown,
    shown_by_design,
)
from relation_tf.bench.run_folder import RunFolder, write_result
from relation_tf.bench.workers import RunGroup
from relation_tf.config import list_suites, load_suite
from relation_tf.errors import SuiteError
from relation_tf.files import read_json, write_json
from relation_tf.networks.check.report import Fault
from relation_tf.stats import what_can_be_shown
from tests.bench.finished_runs import write_finished

CELL = ("RTE", "relation-64")
MNLI = ("MNLI-m", "MNLI-mm")
SMALL = {"tasks": ["WNLI", "RTE"], "methods": ["baseline-64", "relation-64"]}


def plan_of(suite, runs, costs, **changes):
    """Make a plan of runs, of which 5 are requested."""
    values = {"total": 5, "start": 0.0, "jobs": 1, "seeds": 5} | changes
    return SuitePlan(suite, pending=runs, costs=costs, **values)


@pytest.fixture
def demo():
    """Return a suite, and the runs of one task and method."""
    suite = load_suite("demo")
    return suite, [run for run in suite.runs() if run.key[:2] == ("RTE", "relation-64")]


def test_estimated_hours_are_of_pending_runs(demo):
    suite, runs = demo
    costs = {CELL: Cost(10.0, 30.0, measured=True, compiling=4.0)}
    plan = plan_of(suite, runs[:4], costs, start=7.0, jobs=2)
    # Both jobs compile the network.
    assert plan.hours == pytest.approx(((7 + 4 + 20) / 3600, (7 + 4 + 60) / 3600))
    assert "31 s to 1" in str(plan)
    costs = {CELL: Cost(10.0, 30.0, measured=True, compiling=4.0, compiled_once=False)}
    assert plan_of(suite, runs[:4], costs).hours[0] == pytest.approx(4 * 14 / 3600)
    assert plan_of(suite, [], costs, start=3.0).hours == (0.0, 0.0)


def test_hours_are_those_of_the_job_that_ends_last():
    suite = load_suite("demo", {"tasks": ["RTE"], "seeds": 4})
    names = [str(method.name) for method in suite.methods()][:3]
    runs = [run for run in suite.runs() if run.method in names]
    costs = {("RTE", name): Cost(10.0, 10.0, measured=True, compiling=4.0) for name in names}

    def seconds(jobs, costs=costs):
        plan = SuitePlan(suite, 12, runs, costs, start=7.0, jobs=jobs, seeds=4)
        return round(3600 * plan.hours[0] - 7)

    assert seconds(1) == 3 * 44
    assert seconds(2) == 2 * 44  # three groups
    assert seconds(3) == 44
    assert seconds(4) == 44  # one group is split
    assert seconds(6) == 24
    assert seconds(12) == seconds(99) == seconds(10**20) == 14
    assert seconds(2, {**costs, ("RTE", names[0]): Cost(50.0, 50.0, measured=True)}) == 200


def evidence(suite, methods, seeds, tasks=("RTE",)):
    """Return what a plan says of the differences that its scores can show."""
    costs = {(task, name): Cost(1.0, 1.0, measured=True) for task in tasks for name in methods}
    return plan_of(suite, [], costs, seeds=seeds).evidence


@pytest.mark.parametrize("seeds", [2, 7])
def test_what_can_be_shown_uses_the_requested_seeds(demo, seeds):
    assert evidence(demo[0], "ab", seeds)[0] == what_can_be_shown(2, seeds, 0.05)


def test_one_seed_on_several_tasks_can_be_tested():
    suite = load_suite("glue-small", {"reference": None, "margin": None})
    said = what_can_be_shown(4, 1, test="stratified-steel-dwass", num_tasks=len(suite.tasks))
    assert evidence(suite, "abcd", 1, suite.tasks)[-1] == said
    assert nothing_can_be_shown(suite, num_seeds=1) is None


def test_a_broken_result_is_named(tmp_path):
    suite = load_suite("demo")
    folder = RunFolder(tmp_path)
    run = suite.runs()[0]
    write_json(folder.start(run) / "result.json", {"task": run.task})
    with pytest.raises(SuiteError, match=r"result.json: .*'method'"):
        make_plan(suite, [run], [], RunGroup([], tmp_path))


def test_plan_has_the_notes_of_a_run(tmp_path, small_glue, monkeypatch):
    """A note on a short test file, and a layer that fails its checks."""
    fault = Fault("my:Layer", "padding", "It leaks.")
    monkeypatch.setattr(
        planning, "find_faults", lambda *_: {"Layer-64": [fault], "relation-64": []}
    )
    monkeypatch.setattr(planning, "make_plan", lambda suite, *_: plan_of(suite, [], {}))
    plan = plan_suite("glue-small", tmp_path, tasks=["RTE"], data=small_glue, quiet=True)
    short, refused = plan.notes
    assert " set for RTE: " in short
    assert " refuses method Layer-64: " in refused


@pytest.mark.tensorflow
def test_cells_are_timed_and_nothing_is_run(tmp_path, capsys):
    plan = plan_suite("demo", tmp_path / "out", **SMALL, settings={"epochs": 20})
    assert plan.seeds == 5
    assert plan.total == len(plan.pending) == 20
    assert [cost.measured for cost in plan.costs.values()] == [True, True, True, False]
    assert all(0 < cost.fewest < cost.most for cost in plan.costs.values())
    # Fifteen epochs at least: ten of the mean, five of patience.
    cost = plan.costs["WNLI", "relation-64"]
    assert 1 < cost.most / cost.fewest < 20 / 15  # initial weights and predictions once
    assert not (tmp_path / "out").exists()
    assert "timing relation-64 on WNLI" in capsys.readouterr().out


@pytest.mark.tensorflow
def test_finished_runs_give_the_estimated_time(tmp_path):
    one = {"tasks": ["WNLI"], "methods": ["baseline-64"], "quiet": True}
    suite = load_suite("demo", {"epochs": 2})
    done = next(run for run in suite.runs() if run.key == ("WNLI", "baseline-64", 1))
    folder = RunFolder(tmp_path)
    folder.open(suite)
    write_finished(folder.start(done), done)
    write_result(folder.run(done), read_json(folder.run(done) / "result.json"))
    plan = plan_suite(suite, tmp_path, **one)
    assert (plan.total, len(plan.pending)) == (5, 4)
    assert plan.costs["WNLI", "baseline-64"] == Cost(4.0, 4.0, True, 0.5)
    # A folder of other runs is refused as by a run.
    with pytest.raises(SuiteError, match="epochs"):
        plan_suite("demo", tmp_path, **one, settings={"epochs": 3})
    wrong = {"stopping_options": {"window": "x"}}
    with pytest.raises(SuiteError, match="stopping 'smoothed_early_stopping': "):
        plan_suite("demo", tmp_path / "other", **one, settings=wrong)


def test_plan_of_families():
    """The paper's Table 1: four methods of each width, not twelve."""
    suite = load_suite("glue")
    names = [method.name for method in suite.methods()]
    assert evidence(suite, names, 5, suite.tasks)[0] == f"In each family: {what_can_be_shown(4, 5)}"
    chosen = ["attention-64", "relation-64", "relation-128", "baseline-128", "attention-128"]
    assert [*shown_by_design(suite, chosen, 3)] == [
        f"In each family: {what_can_be_shown(size, 3)}" for size in (2, 3)
    ]


@pytest.mark.parametrize("name", list_suites())
def test_every_suite_of_the_package_can_show_a_difference(name):
    assert nothing_can_be_shown(load_suite(name)) is None


@pytest.mark.parametrize(
    ("changes", "smallest"),
    [
        ({"tasks": ["CoLA"], "seeds": 1}, "1.000"),
        ({"seeds": 1}, None),  # over eight tasks
        ({"tasks": ["CoLA"], "seeds": 2}, ".771"),
        ({"tasks": ["CoLA"], "alpha": 0.01}, ".040"),
        # Verdicts against the control are possible.
        ({"tasks": ["CoLA"], "alpha": 0.01, "control": "attention-64"}, None),
        ({"tasks": ["CoLA"], "seeds": 1, "control": "attention-64"}, "1.000"),
        ({"reference": "attention-64", "seeds": 2}, None),
        ({"test": "welch", "tasks": ["CoLA"], "seeds": 2}, None),
        ({}, None),
    ],
)
def test_the_smallest_possible_p_decides(changes, smallest):
    suite = load_suite("glue-small", {"reference": None, "margin": None, **changes})
    said = nothing_can_be_shown(suite)
    if smallest is None:
        assert said is None
    else:
        assert said.endswith(f" p is {smallest}.")


def test_families_are_compared_separately():
    changes = {"tasks": ["CoLA"], "reference": None, "margin": None}
    assert nothing_can_be_shown(load_suite("glue", changes)) is None
    assert nothing_can_be_shown(load_suite("glue", {**changes, "families": None})) is not None


def test_requested_methods_and_seeds_count():
    suite = load_suite("glue-small", {"reference": None, "margin": None})
    pair = ["relation-64", "attention-64"]
    assert nothing_can_be_shown(suite, pair, num_seeds=4, num_tasks=1) is None
    assert nothing_can_be_shown(suite, num_seeds=4, num_tasks=1) is not None
