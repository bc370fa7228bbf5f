"""Tables of scores as samples of tests."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from relation_tf.stats import (
    brunner_munzel,
    corrected_resampled_t,
    friedman_nemenyi,
    friedman_wilcoxon,
    mcnemar_holm,
    non_inferiority,
    steel_dwass,
    stratified_steel_dwass,
    welch,
)

RNG = np.random.default_rng(0)
WIDE = pd.DataFrame(RNG.normal([0, 1, 2], size=(12, 3)), columns=["a", "b", "c"])
NUMBERS = pd.Series(np.arange(12) * 3 + 2)
LONG = (
    WIDE.assign(task=["A"] * 6 + ["B"] * 6, seed=[*range(6)] * 2)
    .melt(["task", "seed"], var_name="method", value_name="score")
    .reset_index(drop=True)
)


@pytest.mark.parametrize("name", ["seed", "run", "Random_State", "fold", "question id"])
@pytest.mark.parametrize("test", [steel_dwass, welch, brunner_munzel, corrected_resampled_t])
def test_numbers_of_seeds_and_folds_are_no_method(test, name):
    right = test(WIDE).pvalue
    pd.testing.assert_frame_equal(test(WIDE.assign(**{name: NUMBERS})).pvalue, right)
    pd.testing.assert_frame_equal(test(WIDE.set_index(NUMBERS.rename(name))).pvalue, right)


def test_the_number_of_methods_of_verdicts_has_no_seeds():
    tables = [WIDE, WIDE.assign(run=NUMBERS)]
    right, same = (non_inferiority(x, "a", 0.5).table for x in tables)
    pd.testing.assert_frame_equal(same, right)


@pytest.mark.parametrize("name", ["task", "dataset", "Data Set", "env"])
@pytest.mark.parametrize("test", [friedman_wilcoxon, friedman_nemenyi])
def test_numbers_of_datasets_are_no_method(test, name):
    right = test(WIDE).pvalue
    pd.testing.assert_frame_equal(test(WIDE.assign(**{name: NUMBERS})).pvalue, right)
    with pytest.raises(TypeError, match="friedman_wilcoxon"):
        steel_dwass(WIDE.set_index(NUMBERS.rename(name)))


def test_columns_of_long_tables_have_usual_names():
    usual = LONG.rename(columns={"task": "dataset", "method": "model", "score": "accuracy"})
    expected = stratified_steel_dwass(LONG).pvalue
    pd.testing.assert_frame_equal(stratified_steel_dwass(usual).pvalue, expected)


def test_methods_can_have_names_of_keys():
    table = WIDE.rename(columns={"a": "data", "b": "run"})
    assert [*steel_dwass(table).pvalue] == ["data", "run", "c"]
    table = (WIDE * 100).round().astype(int).rename(columns={"a": "model", "b": "system"})
    assert [*steel_dwass(table).pvalue] == ["model", "system", "c"]


@pytest.mark.parametrize("kind", [bool, "boolean", int, float])
def test_items_can_be_truth_values(kind):
    items = (WIDE > 0.5).astype(int)
    expected = mcnemar_holm(items).pvalue
    pd.testing.assert_frame_equal(mcnemar_holm(items.astype(kind)).pvalue, expected)
