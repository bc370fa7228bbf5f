"""Sequential seeds with made-up runs: looks, verdicts, interruptions, refusals and reports."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from relation_tf.bench import RunFolder, checksums, plan_suite, read_results, run_suite
from relation_tf.bench.looks import LOOKS, read_looks
from relation_tf.bench.options import RunOptions
from relation_tf.bench.planning import Cost, SuitePlan
from relation_tf.bench.sequential import SequentialRuns, check_looks, plan_looks, with_seeds
from relation_tf.config.loading import make_suite
from relation_tf.errors import SuiteError
from relation_tf.registry import EXECUTORS, register_executor
from relation_tf.report import compare, make_report
from relation_tf.stats import sequential_test
from tests.bench.finished_runs import write_finished

METHODS = ("attention", "linear-attention", "relation")
UNTIL = {"until_decided": True, "max_seeds": 9, "executor": "instant", "quiet": True}


def score(task, method, seed):
    """Return scores of which the methods 1 and 2 overlap, and 3 is always higher."""
    noise = np.random.default_rng([seed, *task.encode(), *method.encode()]).random()
    return 0.5 + 0.1 * noise + 0.3 * (method == METHODS[2])


@pytest.fixture
def suite():
    def make(**values):
        methods = [{"name": name, "mechanism": name} for name in METHODS]
        defaults = {"name": "until", "source": "miniglue", "tasks": ["RTE", "WNLI"], "seeds": 5}
        return make_suite("test", {**defaults, "method": methods, **values})

    return make


@pytest.fixture
def instant():
    """Register an executor that writes finished runs; it stops or fails as its settings say."""
    settings = {"left": 10**6, "broken": set(), "started": []}

    @register_executor("instant")
    def execute(groups, notify, options):
        for group in groups:
            for run in group.runs:
                if settings["left"] == 0:
                    raise KeyboardInterrupt
                settings["left"] -= 1
                settings["started"].append(run.key)
                notify({"event": "start", "run": run.key})
                if run.key in settings["broken"]:
                    event = {"event": "failed", "error": "broken", "detail": False}
                    notify({**event, "run": run.key})
                    continue
                write_finished(RunFolder(group.folder).start(run), run, score)
                notify({"event": "done", "run": run.key})

    yield settings
    EXECUTORS.remove("instant")


def decisions(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*.json"))
        if path.name in (LOOKS, "result.json", "config.json")
    } | {"suite.toml": (folder / "suite.toml").read_bytes()}


def test_seeds_are_added_until_every_pair_is_decided(tmp_path, instant, suite):
    results = run_suite(suite(), tmp_path, **UNTIL)
    looks = results.looks
    assert looks.plan.looks == [3, 5, 7, 9]
    assert looks.plan.seeds == [*range(1, 10)]
    assert looks.due == {}
    every = {
        task: {m: [score(task, m, seed) for seed in looks.plan.seeds] for m in METHODS}
        for task in ("RTE", "WNLI")
    }
    expected = sequential_test(every, looks.plan.looks)
    assert [pair.model_dump() for pair in looks.pairs] == expected.pairs.to_dict("records")
    assert looks.states[0].num_decided == 3
    # The method with only decided pairs got no more seeds than its verdicts needed.
    seeds = {m: sum(run["method"] == m for run in results.runs) / 2 for m in METHODS}
    last = {pair.seeds for pair in looks.pairs if METHODS[2] in (pair.a, pair.b)}
    assert seeds[METHODS[2]] == max(last) < seeds[METHODS[0]] == seeds[METHODS[1]]
    assert len(results.requested) == len(results.runs) == len(instant["started"])


@pytest.mark.parametrize("after", [1, 7, 18, 19, 30])
def test_an_interrupted_command_takes_the_same_looks(tmp_path, instant, suite, after):
    run_suite(suite(), tmp_path / "whole", **UNTIL)
    whole = decisions(tmp_path / "whole")
    runs = len(instant["started"])
    instant["left"] = after
    with pytest.raises(KeyboardInterrupt):
        run_suite(suite(), tmp_path / "parts", **UNTIL)
    instant["left"] = 10**6
    run_suite(suite(), tmp_path / "parts", **UNTIL)
    assert decisions(tmp_path / "parts") == whole
    assert len(instant["started"]) == 2 * runs  # nothing was trained twice
    run_suite(suite(), tmp_path / "parts", **UNTIL)  # everything is done
    assert decisions(tmp_path / "parts") == whole
    assert len(instant["started"]) == 2 * runs


def test_the_plan_is_written_before_the_first_run_and_cannot_change(tmp_path, instant, suite):
    instant["left"] = 0
    with pytest.raises(KeyboardInterrupt):
        run_suite(suite(), tmp_path, **UNTIL)
    looks = read_looks(tmp_path)
    assert (looks.states[0].looks, looks.due) == ([], dict.fromkeys(METHODS, 3))
    instant["left"] = 10**6
    for changed, key in (
        ({"max_seeds": 11}, "looks = [3, 5, 7, 9], but now looks = [3, 5, 7, 9, 11]"),
        ({"settings": {"alpha": 0.1}}, "alpha = 0.05, but now alpha = 0.1"),
        ({"settings": {"tasks": ["RTE"]}}, "tasks = ['RTE', 'WNLI'], but now tasks = ['RTE']"),
        ({"settings": {"control": METHODS[0]}}, "'control': None}], but now families = "),
    ):
        with pytest.raises(SuiteError) as error:
            run_suite(suite(), tmp_path, **{**UNTIL, **changed})
        assert key in str(error.value)
        assert str(error.value).startswith(
            f"{tmp_path / LOOKS}: the tests of --until-decided were planned with "
        )
        assert "\n" not in str(error.value)
    with pytest.raises(SuiteError, match="Continue with --until-decided --max-seeds 9"):
        run_suite(suite(), tmp_path, executor="instant", quiet=True)


def test_a_folder_with_runs_of_a_fixed_number_is_refused(tmp_path, instant, suite):
    run_suite(suite(seeds=1), tmp_path, executor="instant", quiet=True)
    with pytest.raises(SuiteError, match="finished without --until-decided"):
        run_suite(suite(), tmp_path, **UNTIL)
    assert not (tmp_path / LOOKS).exists()


@pytest.mark.parametrize("choice", [{"tasks": "RTE"}, {"methods": METHODS[:2]}, {"seeds": [1]}])
def test_parts_of_the_suite_cannot_be_chosen(tmp_path, instant, suite, choice):
    for call in (run_suite, plan_suite):
        options = UNTIL if call is run_suite else {"until_decided": True}
        message = f"{next(iter(choice))}: cannot be used with --until-decided, which"
        with pytest.raises(SuiteError, match=message):
            call(suite(), tmp_path, **options, **choice)


def test_suites_without_a_comparison_are_refused(suite):
    options = RunOptions(until_decided=True)
    one = suite(method=[{"name": "one", "mechanism": "relation"}])
    with pytest.raises(SuiteError, match=r"has one method, one$") as refused:
        plan_looks(one, options)
    assert refused.value.on_command_line().startswith("--until-decided needs a suite that trains ")
    assert plan_looks(one, RunOptions()) is None
    with pytest.raises(SuiteError, match=r"needs alpha of at least 5e-05. Received: alpha = 1e-05"):
        plan_looks(suite(alpha=0.00001), options)


def test_families_are_decided_separately(tmp_path, instant, suite):
    four = [*({"name": name, "mechanism": name} for name in METHODS),
            {"name": "last", "mechanism": "relation", "units": 8}]  # fmt: skip
    made = suite(method=four, families=[[*METHODS[:2]], [METHODS[2], "last"]])
    results = run_suite(made, tmp_path, **UNTIL)
    first, second = results.looks.states
    for names, state in ((METHODS[:2], first), ((METHODS[2], "last"), second)):
        alone = {
            task: {m: [score(task, m, seed) for seed in range(1, 10)] for m in names}
            for task in ("RTE", "WNLI")
        }
        expected = sequential_test(alone, results.looks.plan.looks)
        assert [pair.model_dump() for pair in state.pairs] == expected.pairs.to_dict("records")
    seeds = {m: sum(run["method"] == m for run in results.runs) / 2 for m in ("last", *METHODS)}
    assert seeds["last"] == seeds[METHODS[2]] == second.pairs[0].seeds
    assert seeds[METHODS[0]] == seeds[METHODS[1]] == first.pairs[0].seeds
    report = make_report(tmp_path)
    assert any(
        said.startswith("Family 2: On the 2 tasks together") for said in report.context.answer
    )
    assert [*report.tables["sequential-pairs"]["family"]] == ["family 1", "family 2"]


def test_a_failed_run_stops_the_looks_until_it_is_done(tmp_path, instant, suite, capsys):
    instant["broken"] = {("RTE", METHODS[0], 2)}
    results = run_suite(suite(), tmp_path, **{**UNTIL, "quiet": False})
    assert (
        "the next look needs the runs that failed: RTE/attention/seed-2" in capsys.readouterr()[0]
    )
    assert (results.looks.states[0].looks, len(results.runs)) == ([], 17)
    instant["broken"] = set()
    run_suite(suite(), tmp_path, **{**UNTIL, "quiet": False})
    assert "look after 3 seeds: " in capsys.readouterr()[0]
    assert read_looks(tmp_path).due == {}


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_a_folder_continues_after_a_deleted_or_damaged_run(tmp_path, instant, suite, seed):
    run_suite(suite(), tmp_path, **UNTIL)
    before = decisions(tmp_path)
    (tmp_path / "runs" / "RTE" / METHODS[0] / f"seed-{seed}" / "result.json").unlink()
    (tmp_path / "runs" / "WNLI" / METHODS[1] / f"seed-{seed}" / "result.json").write_text("{")
    instant["left"] = 0
    with pytest.raises(KeyboardInterrupt):
        run_suite(suite(), tmp_path, **UNTIL)
    instant["left"] = 2
    run_suite(suite(), tmp_path, **UNTIL)
    assert decisions(tmp_path) == before


def test_a_refused_suite_leaves_the_looks_unchanged(tmp_path, instant, suite, monkeypatch):
    run_suite(suite(), tmp_path, **UNTIL)
    looks = (tmp_path / LOOKS).read_bytes()
    (tmp_path / "runs" / "RTE" / METHODS[0] / "seed-1" / "result.json").unlink()

    def refuse(folder, suite):
        raise SuiteError("refused")

    monkeypatch.setattr(RunFolder, "open", refuse)
    with pytest.raises(SuiteError, match="refused"):
        run_suite(suite(), tmp_path, **UNTIL)
    assert (tmp_path / LOOKS).read_bytes() == looks


@pytest.mark.parametrize("options", [UNTIL, {"executor": "instant", "quiet": True}])
def test_files_of_finished_runs_are_read_once(tmp_path, instant, suite, monkeypatch, options):
    runs = run_suite(suite(reference=METHODS[0]), tmp_path, **options).runs
    read = []

    def damage(folder):
        read.append(folder)
        return checksums.damage(folder)

    monkeypatch.setattr("relation_tf.bench.run_folder.damage", damage)
    run_suite(suite(reference=METHODS[0]), tmp_path, **options)
    assert sorted(read) == sorted(Path(run["folder"]) for run in runs)
    read.clear()
    more = {key: value for key, value in options.items() if key != "executor"}
    plan_suite(suite(reference=METHODS[0]), tmp_path, **more)
    assert sorted(read) == sorted(Path(run["folder"]) for run in runs)


def test_lower_scores_can_be_better(tmp_path, instant, suite, monkeypatch):
    monkeypatch.setattr("relation_tf.bench.sequential._direction", lambda suite, name: False)
    results = run_suite(suite(), tmp_path, **UNTIL)
    assert {pair.better for pair in results.looks.pairs} >= {METHODS[0], METHODS[1]}
    assert all(pair.better != METHODS[2] for pair in results.looks.pairs)


def test_two_networks_of_mnli_count_once(tmp_path, instant, suite):
    results = run_suite(suite(tasks=["RTE", "MNLI-m", "MNLI-mm"]), tmp_path, **UNTIL)
    looks = results.looks
    assert looks.plan.tasks == ["RTE", "MNLI"]

    def mean(tasks, method, seed):
        return fmean(score(task, method, seed) for task in tasks)

    every = {
        name: {m: [mean(own, m, seed) for seed in looks.plan.seeds] for m in METHODS}
        for name, own in {"RTE": ["RTE"], "MNLI": ["MNLI-m", "MNLI-mm"]}.items()
    }
    expected = sequential_test(every, looks.plan.looks)
    assert [pair.model_dump() for pair in looks.pairs] == expected.pairs.to_dict("records")
    assert "On the 2 tasks together, " in " ".join(make_report(tmp_path).context.answer)


def test_status_and_report_show_the_verdicts(tmp_path, instant, suite):
    run_suite(suite(), tmp_path / "runs", **UNTIL)
    report = make_report(tmp_path / "runs")
    text = report.markdown()
    assert "relation is better than attention" in " ".join(report.context.answer)
    assert report.context.headline.endswith("(family-wise error 0.05 over all pairs and looks).")
    assert "looks after 3, 5, 7 and 9 seeds, all pairs of methods" in text
    assert "this page has none" in text
    assert "Steel-Dwass" not in text
    assert report.tables["pvalues"].empty
    assert report.tables["sequential-pairs"]["verdict"].notna().all()
    assert report.tables["sequential-looks"]["alpha_spent"].max() <= 0.05
    json.loads(report.json())
    assert "pairs are decided" in read_results(tmp_path / "runs").looks.sentence()
    joined = compare(tmp_path / "runs")
    again = compare(report.write(tmp_path / "report").parent)
    for context in (joined.context, again.context):
        assert any("are not valid for them" in warning for warning in context.warnings)


def test_report_before_the_first_look(tmp_path, instant, suite):
    instant["left"] = 4
    with pytest.raises(KeyboardInterrupt):
        run_suite(suite(), tmp_path, **UNTIL)
    report = make_report(tmp_path)
    assert "No verdict yet: the first look is not complete." in report.context.answer
    assert report.context.headline == "attention has the highest mean on RTE; no verdict yet."
    assert "4 of 18 runs are done" in str(report)
    assert "the next look needs these seeds: attention 3" in read_looks(tmp_path).sentence()


def test_the_plan_has_a_best_and_a_worst_case(tmp_path, suite):
    looks = plan_looks(suite(), RunOptions(until_decided=True, max_seeds=9))
    own = with_seeds(suite(), looks)
    folder = RunFolder(tmp_path)
    check_looks(folder, looks)
    outlook = SequentialRuns(own, looks, own.runs(), folder).outlook()
    costs = {(run.task, run.method): Cost(10.0, 20.0, True) for run in own.runs()}
    plan = SuitePlan(own, 54, own.runs(), costs, 7.0, 0, 1, 9, outlook=outlook)
    fewest = len(outlook.soonest)
    assert fewest == 3 * 6  # two tasks and nine seeds: a pair can be significant after 3
    tight = plan_looks(suite(tasks=["RTE"]), RunOptions(until_decided=True, max_seeds=15))
    runs = with_seeds(suite(tasks=["RTE"]), tight).runs()
    outlook = SequentialRuns(own, tight, runs, folder).outlook()
    assert (len(outlook.soonest), len(outlook.latest)) == (3 * 7, 3 * 15)
    assert plan.hours == pytest.approx(((7 + 10 * fewest) / 3600, (7 + 20 * 54) / 3600))
    text = str(plan)
    assert "until: at most 54 runs" in text
    assert f" for {fewest} to 54 runs" in text
    assert (
        "Planned looks (interim tests): after 3, 5, 7 and 9 seeds; the first boundary is |Z| > "
        in text
    )


def test_the_plan_of_decided_pairs_has_no_pending_run(tmp_path, instant, suite):
    results = run_suite(suite(), tmp_path, **UNTIL)
    own = with_seeds(suite(), results.looks)
    outlook = SequentialRuns(own, results.looks, own.runs(), RunFolder(tmp_path)).outlook()
    done = {(run["task"], run["method"], run["seed"]) for run in results.runs}
    assert {run.key for run in outlook.soonest} == {run.key for run in outlook.latest} == done


def test_broken_looks_are_one_line(tmp_path):
    (tmp_path / LOOKS).write_text("{}")
    with pytest.raises(SuiteError) as error:
        read_looks(tmp_path)
    assert str(error.value).startswith(f"{tmp_path / LOOKS}: ")
    assert "\n" not in str(error.value)
