"""Tests over the means of tasks against published examples, libraries and plain loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scikit_posthocs import posthoc_nemenyi_friedman
from scipy.stats import binomtest, friedmanchisquare, rankdata, wilcoxon
from statsmodels.stats.multitest import multipletests

from relation_tf.stats import friedman_nemenyi, friedman_wilcoxon, wilcoxon_holm
from relation_tf.stats.over_tasks import signed_rank_attainable_pvalue
from relation_tf.stats.pair_tests import holm

# Demsar (2006), Table 6: AUC of four variants of C4.5 on 14 datasets. In "voting" two methods have
# the same printed value but different ranks; one last digit is changed to get these ranks.
DEMSAR = pd.DataFrame(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ],
    columns=["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"],
)
TABLES = (
    st.integers(3, 5)
    .flatmap(
        lambda methods: st.lists(
            st.lists(st.integers(0, 4), min_size=methods, max_size=methods), min_size=2, max_size=8
        )
    )
    .map(lambda rows: pd.DataFrame(rows, columns=[f"m{i}" for i in range(len(rows[0]))]))
)


def test_demsars_example():
    result = friedman_nemenyi(DEMSAR, alpha=0.1)
    assert result.average_ranks.round(3).tolist() == [3.143, 2.000, 2.893, 1.964]
    assert result.critical_difference == pytest.approx(1.12, abs=0.005)
    assert friedman_nemenyi(DEMSAR).critical_difference == pytest.approx(1.25, abs=0.005)
    # "C4.5 is significantly worse than C4.5+m and C4.5+m+cf"; no other difference is significant.
    better = result.pairs().set_index(["a", "b"])["better"].dropna()
    assert better.to_dict() == {
        ("C4.5", "C4.5+m"): "C4.5+m",
        ("C4.5", "C4.5+m+cf"): "C4.5+m+cf",
    }
    assert result.cliques() == [("C4.5+m+cf", "C4.5+m", "C4.5+cf"), ("C4.5+cf", "C4.5")]


@settings(deadline=None, max_examples=20)
@given(TABLES)
def test_results_match_the_formulas(table):
    result = friedman_nemenyi(table)
    ranks = rankdata(-table.to_numpy(), axis=1)
    np.testing.assert_array_equal(result.ranks, ranks)
    np.testing.assert_allclose(result.average_ranks, ranks.mean(axis=0))
    if (ranks == ranks[:, :1]).all():
        assert (result.statistic, result.f_statistic) == (0, 0)
        assert result.friedman_pvalue == pytest.approx(1)
    else:
        statistic, _ = friedmanchisquare(*table.to_numpy().T)
        assert result.statistic == pytest.approx(statistic)
        tasks, methods = ranks.shape
        left = tasks * (methods - 1) - statistic  # 0 if all tasks rank the methods equally
        expected = (tasks - 1) * statistic / left if left > 1e-9 else np.inf
        assert result.f_statistic == pytest.approx(expected)
    expected = posthoc_nemenyi_friedman(ranks).to_numpy()
    np.testing.assert_allclose(result.pvalue, expected, rtol=0, atol=1e-12)
    for a, b in itertools.combinations(table, 2):
        distance = abs(result.average_ranks[a] - result.average_ranks[b])
        assert result.significant.loc[a, b] == (distance > result.critical_difference)
        assert result.pvalue.loc[a, b] >= result.attainable_pvalue - 1e-9


@settings(deadline=None, max_examples=20)
@given(TABLES)
def test_pairs_by_wilcoxon_equal_the_libraries(table):
    """Friedman's part is that of `friedman_nemenyi`; pairs are those of SciPy and statsmodels."""
    result, other = friedman_wilcoxon(table), friedman_nemenyi(table)
    for name in ("statistic", "friedman_pvalue", "exact", "f_statistic", "f_pvalue"):
        assert getattr(result, name) == getattr(other, name)
    pairs = list(itertools.combinations(table, 2))
    raw = []
    for a, b in pairs:
        samples = {task: {a: [row[a]], b: [row[b]]} for task, row in table.iterrows()}
        raw.append(wilcoxon_holm(samples, a).pvalue[b])
    expected = multipletests(raw, method="holm")[1]
    shown = result.pairs()
    np.testing.assert_allclose(shown["pvalue"], expected, rtol=0, atol=1e-12)
    for row in shown.itertuples():
        if row.statistic:
            assert (row.statistic > 0) == (row.effect_size > 0)
        if row.significant:
            assert row.better == (row.b if row.statistic > 0 else row.a)


def test_demsars_example_by_wilcoxon():
    """The paper has 9.28 and 3.69, without the correction for ties."""
    result = friedman_wilcoxon(DEMSAR)
    assert result.statistic == pytest.approx(friedmanchisquare(*DEMSAR.to_numpy().T)[0])
    assert (result.statistic, result.f_statistic) == pytest.approx((10.23, 4.19), abs=0.005)
    pairs = result.pairs().set_index(["a", "b"])
    assert pairs["better"].dropna().to_dict() == {("C4.5", "C4.5+m"): "C4.5+m"}
    assert result.attainable_pvalue == pytest.approx(6 * 2.0**-13)
    assert "F(3, 39) = 4.19" in str(result)
    assert math.isnan(result.critical_difference)


def largest_groups(result):
    """Return the largest groups of methods without a significant difference, by trying all."""
    names = [*result.average_ranks.index]
    groups = [itertools.combinations(names, size) for size in range(2, len(names) + 1)]
    together = [
        {*group}
        for group in itertools.chain(*groups)
        if not any(result.significant.loc[a, b] for a, b in itertools.combinations(group, 2))
    ]
    return [group for group in together if not any(group < other for other in together)]


@pytest.mark.parametrize("seed", range(5))
def test_cliques_of_wilcoxon_need_not_be_next_to_each_other(seed):
    rng = np.random.default_rng(seed)
    scores = rng.normal([0.03, 0.02, 0.015, 0.01, 0], [0.01, 0.01, 0.05, 0.01, 0.01], (12, 5))
    result = friedman_wilcoxon(pd.DataFrame(scores, columns=list("abcde")))
    assert sorted(map(sorted, result.cliques())) == sorted(map(sorted, largest_groups(result)))


@settings(deadline=None, max_examples=20)
@given(TABLES, st.sampled_from([0.05, 0.3, 0.8]))
def test_cliques_are_the_largest_groups_without_a_significant_difference(table, alpha):
    result = friedman_nemenyi(table, alpha)
    cliques = result.cliques()
    assert sorted(map(sorted, cliques)) == sorted(map(sorted, largest_groups(result)))
    for clique in cliques:
        assert result.average_ranks[list(clique)].is_monotonic_increasing


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=2, max_size=4).map(
        pd.DataFrame
    )
)
def test_no_p_is_below_the_share_of_equal_arrangements(table):
    """Enumerate all orders of each task's scores and count statistics equal to the observed one."""
    rows = [list(itertools.permutations(row)) for row in rankdata(-table, axis=1).tolist()]
    spread = np.array([np.var(np.sum(ranks, axis=0)) for ranks in itertools.product(*rows)])
    observed = np.var(rankdata(-table, axis=1).sum(axis=0))
    exact = np.mean(spread >= observed - 1e-9)
    result = friedman_nemenyi(table)
    assert result.exact
    assert result.friedman_pvalue == pytest.approx(exact)


def test_ties_by_tolerance_and_nan():
    table = pd.DataFrame(
        [[0.1 + 0.2, 0.3, 0.1], [0.5, math.nan, 0.4]], index=["x", "y"], columns=list("abc")
    )
    with pytest.raises(ValueError, match=r"scores of 'y' must not be NaN. Received: NaN for \['b'"):
        friedman_nemenyi(table)
    result = friedman_nemenyi(table, nan="worst")
    assert result.ranks.to_numpy().tolist() == [[1.5, 1.5, 3], [1, 3, 2]]
    assert any("NaN" in note for note in result.notes)
    lowest = friedman_nemenyi(table, nan="worst", higher_is_better=False)
    assert lowest.ranks.loc["y"].tolist() == [2, 3, 1]


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        ([[1, 2, 3]] * 3, TypeError, "Received: list"),
        (DEMSAR.iloc[:1], ValueError, r"Received: shape \(1, 4\)"),
        (DEMSAR.iloc[:, :2], ValueError, r"scipy.stats.wilcoxon. Received: shape \(14, 2\)"),
        (DEMSAR.iloc[[0, 0]], ValueError, r"names of tasks must be unique. Received: \[0, 0\]"),
    ],
)
def test_bad_tables(table, error, message):
    with pytest.raises(error, match=message) as caught:
        friedman_nemenyi(table)
    assert "\n" not in str(caught.value)


# Paired measurements of Hollander and Wolfe (1973, page 29) on the Hamilton depression scale.
BEFORE = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
AFTER = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]


def as_tasks(**means):
    table = pd.DataFrame(means)
    return {task: {name: [mean] for name, mean in row.items()} for task, row in table.iterrows()}


def naive_pvalue(differences):
    """Return the two-sided p over all signs of the differences."""
    ranks = rankdata(np.abs(differences))
    observed = abs(np.sum(np.sign(differences) * ranks))
    signs = np.array(list(itertools.product([-1, 1], repeat=len(ranks))))
    return np.mean(np.abs(signs @ ranks) >= observed - 1e-9)


def test_known_value():
    """R's documentation of wilcox.test: V = 40 of 45, two-sided p 2 * .01953."""
    result = wilcoxon_holm(as_tasks(after=AFTER, before=BEFORE), "after")
    assert result.statistic["before"] == 40 - 5
    assert result.effect_size["before"] == pytest.approx(35 / 45)
    assert result.pvalue["before"] == pytest.approx(2 * 0.01953125)
    assert result.pairs()["verdict"].tolist() == ["before better"]


@pytest.mark.parametrize(("k", "tasks"), [(2, 5), (3, 6), (4, 9)])
def test_attainable_p_is_reached(k, tasks):
    samples = {t: {m: [m * (1 + t)] for m in range(k)} for t in range(tasks)}
    result = wilcoxon_holm(samples, 0)
    assert result.pvalue.min() == pytest.approx(signed_rank_attainable_pvalue(k, tasks))
    assert result.attainable_pvalue == signed_rank_attainable_pvalue(k, tasks)
    assert signed_rank_attainable_pvalue(k, result.seeds_needed) < 0.05


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ({"x": {"a": [1], "b": [2]}}, "at least two tasks"),
        ({"x": {"a": [1], "b": [2]}, "y": {"b": [1], "c": [2]}}, "'x' has no scores of 'c'"),
        ({t: {"a": [1], "b": [math.nan]} for t in "xy"}, "task 'x': scores of 'b' must be finite"),
    ],
)
def test_errors_name_the_fault(samples, message):
    with pytest.raises(ValueError, match=message):
        wilcoxon_holm(samples, "a" if "y" not in samples else "b")


def test_each_row_has_a_task():
    wide = pd.DataFrame({"task": ["x", None, "y"], "a": [1, 2, 3], "b": [2, 4, 6]})
    for table in (
        wide,
        wide.set_index("task"),
        wide.melt("task", var_name="method", value_name="score"),
    ):
        with pytest.raises(ValueError, match="each row must have the names of its task and method"):
            wilcoxon_holm(table, "a")


@pytest.mark.parametrize(
    ("sizes", "signs"),
    [
        (np.ones(14), [1] * 11 + [-1] * 3),
        (np.repeat([1, 2, 3], 5), [1] * 6 + [-1] * 4 + [1] * 5),
        (np.arange(1, 13), [1, -1, 1, 1] * 3),
    ],
)
def test_p_is_exact_also_with_ties(sizes, signs):
    """14 equal differences, 11 of them positive: p of the sign test, .0574, not .0325."""
    differences = sizes * np.array(signs)
    pvalue = wilcoxon_holm(as_tasks(c=0 * sizes, x=differences), "c").pvalue["x"]
    assert pvalue == pytest.approx(naive_pvalue(differences))
    if len(sizes) == 14:
        assert pvalue == pytest.approx(binomtest(11, 14).pvalue)


@pytest.mark.parametrize(("tasks", "method"), [(12, "exact"), (300, "exact"), (301, "asymptotic")])
def test_p_without_ties_equals_scipy(tasks, method):
    """p of more than 300 tasks is a normal approximation."""
    rng = np.random.default_rng(62)
    means = {name: rng.normal(shift / 9, 1, tasks) for shift, name in enumerate("cxyz")}
    separate = [wilcoxon(means[name] - means["c"], method=method).pvalue for name in "xyz"]
    expected = multipletests(separate, method="holm")[1]
    pvalues = wilcoxon_holm(as_tasks(**means), "c").pvalue
    np.testing.assert_allclose(pvalues, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("pvalues", [[0.01], [0.01, 0.04, 0.03], [0.2, 0.2, 0.0, 1.0, 0.05]])
def test_holm_equals_statsmodels(pvalues):
    expected = multipletests(pvalues, method="holm")[1]
    np.testing.assert_allclose(holm(np.array(pvalues)), expected, rtol=0, atol=1e-12)
