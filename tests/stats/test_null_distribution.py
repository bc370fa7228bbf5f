"""Tests of the number of random arrangements, and of p with few of them."""

from __future__ import annotations

import numpy as np
import pytest

from relation_tf.stats import null_distribution, steel_dwass, stratified_steel_dwass
from relation_tf.stats.null_distribution import PERMUTATIONS, affordable_permutations
from relation_tf.stats.pairwise import index_pairs


def number(methods, seeds, tasks=1, *, control=False):
    return affordable_permutations([[seeds] * methods] * tasks, index_pairs(methods, control))


@pytest.mark.parametrize(
    ("methods", "seeds", "tasks"),
    [(2, 5, 1), (4, 5, 8), (10, 10, 10), (9, 5, 20), (4, 30, 8), (2, 200, 1), (30, 10, 1)],
)
def test_usual_designs_have_all_arrangements(methods, seeds, tasks):
    assert number(methods, seeds, tasks) == PERMUTATIONS == 200_000


@pytest.mark.parametrize(
    ("methods", "seeds", "tasks", "expected"),
    [(300, 5, 1, 5_266), (3, 5, 2_000, 11_764), (4, 1_000, 1, 16_886), (1_000, 5, 20, 2_000)],
)
def test_large_designs_have_fewer(methods, seeds, tasks, expected):
    assert number(methods, seeds, tasks) == expected < number(methods, seeds, tasks, control=True)


def test_results_use_the_number_of_the_design(monkeypatch):
    monkeypatch.setattr(null_distribution, "_BUDGET", 30_000_000)
    rng = np.random.default_rng(0)
    samples = {f"m{i}": rng.normal(i / 5, 1, 6) for i in range(8)}
    expected = number(8, 6)
    assert 2_000 < expected < PERMUTATIONS
    found = steel_dwass(samples)
    assert found.null.permutations == expected
    assert found.pvalue.equals(steel_dwass(samples, permutations=expected).pvalue)
    tasks = dict.fromkeys(("one", "two", "three"), samples)
    assert stratified_steel_dwass(tasks).null.permutations == number(8, 6, 3) < expected


def test_an_explicit_number_is_used(monkeypatch):
    monkeypatch.setattr(null_distribution, "_BUDGET", 1)
    rng = np.random.default_rng(0)
    samples = {f"m{i}": rng.normal(i, 1, 6) for i in range(4)}
    assert steel_dwass(samples, permutations=12_345).null.permutations == 12_345
    assert steel_dwass(samples).null.permutations == 2_000


def test_the_exact_distribution_does_not_depend_on_the_budget(monkeypatch):
    samples = {"a": [1, 2, 3, 4.5], "b": [2.5, 5, 6, 7], "c": [4, 8, 9, 10]}
    before = steel_dwass(samples)
    monkeypatch.setattr(null_distribution, "_BUDGET", 1)
    assert before.method == "exact"
    assert before.pvalue.equals(steel_dwass(samples).pvalue)
