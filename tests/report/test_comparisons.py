"""Numbers of a report, compared with direct computation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from relation_tf.bench.results import GLUE_AVERAGE, MEAN_OF_TASKS, read_results
from relation_tf.errors import SuiteError
from relation_tf.registry import PROCEDURES, register_procedure
from relation_tf.report import compare, make_report
from relation_tf.report.comparisons import (
    all_pvalues,
    compare_methods,
    letters_of,
    summarize,
    wins,
)
from relation_tf.report.scores import Scores
from relation_tf.stats import steel, steel_dwass, welch

TWO = [{"name": name, "mechanism": name} for name in ("baseline", "relation")]
NINE = ["CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE", "WNLI"]


def noisy(config, task, metric):
    where = [config.seed, *task.encode(), *config.method.encode(), *metric.encode()]
    return float(np.random.default_rng(where).uniform(0.4, 0.8))


def test_summary_has_the_score_and_each_metric(suite_of, fabricate):
    suite = suite_of(tasks=["MRPC"], method=TWO)
    results = read_results(fabricate(suite, noisy))
    table = summarize(Scores.of(results), {}, results.metrics).set_index(["method", "metric"])
    values = {
        metric: [noisy(run, "MRPC", metric) for run in suite.runs() if run.method == "relation"]
        for metric in ("f1", "accuracy")
    }
    values["score"] = np.mean(list(values.values()), axis=0)
    for metric, scores in values.items():
        row = table.loc["relation", metric]
        assert row["n"] == 5
        assert (row["mean"], row["sd"]) == pytest.approx((np.mean(scores), np.std(scores, ddof=1)))


def test_pvalues_equal_steel_dwass_of_the_samples(suite_of, fabricate):
    results = read_results(fabricate(suite_of(), noisy))
    comparisons = compare_methods(Scores.of(results))
    assert list(comparisons) == ["CoLA", "MRPC", MEAN_OF_TASKS]
    table = all_pvalues(comparisons)
    for task in comparisons:
        result = steel_dwass(Scores.of(results).samples(task))
        own = table[table["task"] == task].reset_index(drop=True)
        expected = result.pairs()
        pd.testing.assert_frame_equal(own[list(expected)], expected)
        assert (own["pvalue"] - own["asymptotic_pvalue"]).abs().between(1e-6, 0.12).all()
        assert (own[["n_a", "n_b"]] == 5).to_numpy().all()
        limits = own[["difference", "difference_low", "difference_high"]]
        shifts = result.confidence_interval()[["difference", "low", "high"]]
        np.testing.assert_array_equal(limits, shifts)


def test_pvalues_have_simultaneous_intervals_in_points(suite_of, fabricate):
    report = make_report(fabricate(suite_of(tasks=["CoLA"]), separated))
    pvalues = report.tables["pvalues"].set_index(["a", "b"])
    row = pvalues.loc["relation", "baseline"]
    # Levels 0.8 and 0.5, seeds add 0 to 4 points: the smallest and largest difference.
    limits = row[["difference", "difference_low", "difference_high"]].tolist()
    assert limits == pytest.approx([-30, -34, -26])
    assert "| relation | baseline | ▼ **.040** (−30.0 \\[−34.0, −26.0\\]) |" in report.markdown()
    assert "in points, second minus first method, with its 95 % interval" in report.html()
    assert "| −30.0 (−34.0 to −26.0) |" in report.markdown()
    assert "−34" not in report.latex()


def test_intervals_exclude_zero_only_for_significant_pairs(suite_of, fabricate):
    def score(config, *where):
        return round(noisy(config, *where) * LEVEL[config.method] ** 3, 1 + (where[0] == "RTE"))

    report = make_report(fabricate(suite_of(tasks=["CoLA", "RTE"]), score))
    pvalues = report.tables["pvalues"]
    excludes = (pvalues["difference_low"] > 0) | (pvalues["difference_high"] < 0)
    assert excludes.any()
    assert not excludes.all()
    assert pvalues["significant"][excludes].all()
    assert (pvalues["significant"] == (pvalues["pvalue"] < 0.05)).all()


def test_the_exact_p_decides(suite_of, fabricate):
    """Asymptotic p .0495, exact p .100: not significant in all tables, figures and texts."""
    suite = suite_of(tasks=["CoLA", "RTE"], method=TWO, seeds=3)

    def score(config, *_):
        return config.seed / 100 + (config.method == "relation")

    report = make_report(fabricate(suite, score))
    pvalues = report.tables["pvalues"]
    assert pvalues["pvalue"].tolist() == pytest.approx([0.1] * 3)
    assert (pvalues["asymptotic_pvalue"] < 0.05).all()
    assert not pvalues["significant"].any()
    assert pvalues["better"].isna().all()
    assert set(pvalues["verdict"]) == {"no significant difference"}
    assert set(pvalues["ahead"]) == {"relation"}
    assert np.isinf(pvalues[["difference_low", "difference_high"]]).all(axis=None)
    assert set(report.tables["table"]["letters"]) == {""}
    wins = report.context.wins
    assert wins == [{"a": "baseline", "b": "relation", "wins": 0, "ties": 2, "losses": 0}]
    # There is no figure of intervals that are all infinite.
    assert "differences" not in {picture.name for picture in report.context.pictures}
    page, markdown = report.html(), report.markdown()
    assert "| baseline | relation | ▲ .100 | ▲ .100 | ▲ .100 |" in markdown
    assert "0 of 1 pair significant" in page
    assert page.count('class="significant"') == 1  # the verdict over both tasks
    for text in (page, markdown):
        said = " ".join(text.split())
        assert "The asymptotic p is for comparison with published work only" in said
        assert "So few seeds give no finite 95 % intervals of the differences." in said


def test_four_methods_with_five_seeds_can_all_differ(suite_of, fabricate):
    report = make_report(fabricate(suite_of(tasks=["CoLA", "RTE"]), separated))
    pvalues = report.tables["pvalues"]
    assert pvalues["significant"].all()
    assert pvalues["pvalue"].round(4).eq(0.0402).all()
    assert pvalues["asymptotic_pvalue"].round(4).eq(0.0447).all()
    letters = report.tables["table"].groupby("task")["letters"].unique()
    assert letters["CoLA"].size == letters["RTE"].size == 4
    # The test over tasks replaces that of the mean.
    assert letters["mean of these tasks"].tolist() == [""]
    assert "an average has no letters: see the test over tasks" in report.markdown()


def test_letters_need_a_significant_pair(suite_of, fabricate):
    def score(config, task, metric):
        return config.seed / 100 + (task == "CoLA") * (config.method == "relation") / 2

    comparisons = compare_methods(Scores.of(read_results(fabricate(suite_of(method=TWO), score))))
    cola = letters_of([comparisons["CoLA"]])
    assert set(cola) == {"baseline", "relation"}
    assert cola["baseline"] != cola["relation"]
    assert letters_of([comparisons["MRPC"]]) == {}
    # Of several families, each has letters if one has a significant pair.
    assert letters_of([comparisons["MRPC"], comparisons["CoLA"]]) == cola


def test_more_groups_than_letters_have_none(table_of):
    levels = {f"m{number}": [number + seed / 100 for seed in range(3)] for number in range(54)}
    report = compare(table_of({"T": levels}), test="welch")
    assert report.context.too_many_groups == ["T"]
    page = report.markdown()
    assert "No letters: more groups of methods than letters (T: pvalues.csv)." in page
    assert "No difference" not in page


def test_a_method_with_one_seed_is_tested(suite_of, fabricate):
    def score(config, *args):
        return noisy(config, *args) if config.method != "linear" or config.seed == 1 else None

    results = read_results(fabricate(suite_of(tasks=["CoLA"]), score))
    comparison = compare_methods(Scores.of(results))["CoLA"]
    assert {name: len(values) for name, values in comparison.samples.items()} == {
        "attention": 5, "linear": 1, "relation": 5, "baseline": 5
    }  # fmt: skip


LEVEL = {"attention": 0.7, "linear": 0.6, "relation": 0.8, "baseline": 0.5}


def separated(config, *_):
    return LEVEL[config.method] + config.seed / 100


def test_a_control_makes_a_smaller_family(suite_of, fabricate):
    report = make_report(fabricate(suite_of(control="baseline"), separated))
    pvalues = report.tables["pvalues"]
    own = pvalues[pvalues["task"] == "CoLA"]
    assert own["a"].tolist() == ["baseline"] * 3
    scores = Scores.of(read_results(fabricate(suite_of(control="baseline"), separated, name="b")))
    expected = steel(scores.samples("CoLA"), "baseline").pairs()
    assert own["pvalue"].tolist() == expected["pvalue"].tolist()
    answer = report.context.answer
    assert "relation is better than baseline on both dev sets (p < .05)." in answer
    assert not any("relation is better than attention" in sentence for sentence in answer)
    page = report.html()
    assert "Steel&#39;s test against baseline" in page
    assert "Steel-Dwass" not in page
    assert "pvalues" not in {picture.name for picture in report.context.pictures}


def test_wins_are_significant_differences(suite_of, fabricate):
    report = make_report(fabricate(suite_of(tasks=["CoLA", "RTE"]), separated))
    row = report.context.wins[0]
    assert row == {"a": "attention", "b": "linear", "wins": 2, "ties": 0, "losses": 0}


def test_mnli_counts_as_one_task(suite_of, fabricate):
    """One network predicts both dev sets, so they are not two independent observations."""

    def score(config, task, metric):
        return noisy(config, task, metric) + (task == "MNLI-m") * 10 * LEVEL[config.method]

    tasks = ["CoLA", "MNLI", "RTE"]
    scores = Scores.of(read_results(fabricate(suite_of(tasks=tasks), score)))
    comparisons = compare_methods(scores)
    counted = wins(scores, comparisons)
    # Wins use the test of the matched set, where all methods differ.
    assert (counted[["wins", "ties", "losses"]].sum(axis=1) == 3).all()
    assert comparisons["MNLI-m"].pairs()["significant"].all()
    assert (counted[["wins", "losses"]].sum(axis=1) >= 1).all()
    alone = Scores.of(read_results(fabricate(suite_of(tasks=["MNLI"]), score, name="alone")))
    assert wins(alone, compare_methods(alone)) is None


@pytest.mark.parametrize(
    ("tasks", "columns"),
    [
        (NINE, ["CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI-m", "MNLI-mm", "QNLI", "RTE", "WNLI",
                GLUE_AVERAGE]),
        (["CoLA", "MRPC"], ["CoLA", "MRPC", MEAN_OF_TASKS]),
    ],
)  # fmt: skip
def test_columns_are_dev_sets_and_the_average(suite_of, fabricate, tasks, columns):
    results = read_results(fabricate(suite_of(tasks=tasks, method=TWO, seeds=2), noisy))
    assert Scores.of(results).tasks == columns


@pytest.mark.parametrize(("test", "warned"), [("steel-dwass", 1), ("welch", 0)])
def test_a_warning_names_tasks_with_unequal_spread(table_of, test, warned):
    even, wide = [0.1, 0.2, 0.3, 0.4], [0.0, 0.2, 0.4, 0.6]
    rows = {"RTE": {"a": even, "b": [x / 4 for x in even]}, "MRPC": {"a": even, "b": wide}}
    found = compare(table_of(rows), test=test).context.warnings
    assert (
        found
        == [
            "SDs over seeds differ by more than 3:1 on RTE (the SD of a is 4 times the SD of b). "
            "Steel-Dwass assumes equal spread, so its error rate can exceed alpha there. Check "
            "with `relation-tf compare SOURCE --test welch`."
        ][:warned]
    )


def test_marks_have_the_sign_of_the_difference(table_of):
    scores = {"a": [1.0, 2, 3, 4, 5], "b": [11.0, 12, 13, 14, 15]}
    report = compare(table_of({"acc": scores, "loss": scores}), lower_is_better="loss")
    (row,) = (line for line in report.markdown().splitlines() if line.startswith("| a | b | ▲"))
    assert row.count("▲ **.008** (+10") == 2
    assert ": lower (better for loss)." in report.latex()


@pytest.mark.parametrize(
    ("test", "estimand"),
    [("welch", "difference of means"), ("brunner-munzel", "median difference")],
)
def test_other_procedures_have_their_intervals_on_the_page(suite_of, fabricate, test, estimand):
    report = make_report(fabricate(suite_of(tasks=["CoLA"], test=test), noisy))
    scores = report.context.scores
    found = scores.procedure.function({**scores.samples("CoLA")}).confidence_interval()
    limits = report.tables["pvalues"][["difference", "difference_low", "difference_high"]]
    np.testing.assert_allclose(limits, 100 * found[["difference", "low", "high"]])
    page = report.markdown()
    assert f"After p: the {estimand} in points, second minus first method, with its 95 %" in page
    assert f"{estimand.capitalize()} in points from " in page
    assert "| Difference |" in page


def test_welch_is_ahead_by_means_not_by_ranks(suite_of, fabricate):
    """One run of 10 against seeds that are a little higher: mean and ranks disagree."""
    scores = {"a": [0.4, 0.4, 0.4, 0.4, 0.9], "b": [0.41, 0.41, 0.41, 0.41, 0.42]}
    table = all_pvalues({"CoLA": welch(scores)})
    assert table["effect_size"].item() > 0
    assert table["difference"].item() < 0
    assert table["ahead"].item() == "a"
    assert all_pvalues({"CoLA": steel_dwass(scores)})["ahead"].item() == "b"
    suite = suite_of(tasks=["CoLA"], method=TWO, test="welch")
    own = dict(zip(("baseline", "relation"), scores.values(), strict=True))
    report = make_report(fabricate(suite, lambda config, *_: own[config.method][config.seed - 1]))
    assert "(by means)" in report.markdown()
    assert "| baseline | relation | ▼" in report.markdown()


def test_differences_are_scaled_by_task():
    tests = {name: steel_dwass({"a": [1, 2, 3, 4], "b": [6, 7, 8, 9]}) for name in ("x", "y")}
    table = all_pvalues(tests, {"x": 1.0, "y": 100.0}.__getitem__).set_index("task")
    columns = ["difference", "difference_low", "difference_high"]
    assert table.loc["x", "difference"] == 5
    assert (table.loc["y", columns] == 100 * table.loc["x", columns]).all()
    same = [name for name in table.columns if name not in columns]
    assert table.loc["y", same].equals(table.loc["x", same].rename("y"))
    assert all_pvalues(tests)["difference"].tolist() == [5, 5]


def test_only_a_declared_test_was_fixed_before_the_runs(suite_of, fabricate):
    fixed = "The test was fixed before the runs: "
    folder = fabricate(suite_of(test="welch"), separated)
    for report in (make_report(folder), compare(folder)):
        assert f"{fixed}Welch's test with Holm" in report.markdown()
    for option in ({"alpha": 0.01}, {"test": "steel-dwass"}, {"control": "baseline"}):
        assert fixed not in compare(folder, **option).markdown()


def test_the_default_test_was_not_declared(suite_of, fabricate):
    folder = fabricate(suite_of(), separated)
    assert "The test was fixed" not in make_report(folder).markdown()
    assert "The test was fixed" not in compare(folder, test="welch").markdown()


def test_a_test_at_another_level_is_refused(table_of, isolated):
    isolated(PROCEDURES)

    @register_procedure("at-one-percent", compares="all-pairs", title="T", symbol="W")
    def at_one_percent(samples, alpha=0.05, **options):
        return steel_dwass(samples, alpha=0.01, **options)

    table = table_of({"MR": {"a": [0.1, 0.2, 0.3], "b": [0.4, 0.5, 0.6]}})
    with pytest.raises(SuiteError, match=r"must return a result at the level alpha = 0\.05"):
        compare(table, test="at-one-percent").markdown()


def test_a_control_can_be_a_number(table_of):
    table = table_of({"MR": {"64": [0.1, 0.2, 0.3], "128": [0.4, 0.5, 0.6]}})
    report = compare(table.assign(method=table["method"].astype(int)), control=64)
    assert report.context.scores.control == "64"
    for chosen in ([64], np.array(["64"]), pd.Index([64])):
        assert compare(table, control=chosen).context.scores.control == "64"
