from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.registry import STOPPING_RULES, register_stopping_rule
from relation_tf.training.stopping import (
    AccuracyReached,
    EarlyStopping,
    SmoothedEarlyStopping,
    make_rule,
)

COSTS = st.lists(
    st.one_of(st.sampled_from([0.25, 0.5, 0.75, 1.0]), st.just(math.nan)), min_size=1, max_size=40
)


def play(rule, values):
    """The end of a run with these values; the weights of an epoch are its number."""
    for epoch, value in enumerate(values, 1):
        if (stop := rule.update(epoch, value, lambda epoch=epoch: epoch)) is not None:
            return stop, epoch
    return rule.finish(len(values), f"{len(values)} epochs"), len(values)


@given(COSTS, st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_smoothed_equals_its_definition(values, patience, window):
    costs = [math.inf if math.isnan(value) else value for value in values]
    expected = len(values)
    best, waited = math.inf, 0
    for epoch in range(window, len(values) + 1):
        mean = sum(costs[epoch - window : epoch]) / window
        waited = 0 if mean < best else waited + 1
        best = min(best, mean)
        if waited == patience:
            expected = epoch
            break
    stop, last = play(SmoothedEarlyStopping(patience, window=window), values)
    assert last == expected
    assert stop.epoch == last
    assert stop.weights is None


@given(COSTS, st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_best_equals_its_definition(values, patience):
    costs = [math.inf if math.isnan(value) else value for value in values]
    last = len(values)
    for epoch in range(1, len(values) + 1):
        best = costs.index(min(costs[:epoch])) + 1
        if epoch - best >= patience:
            last = epoch
            break
    best = costs.index(min(costs[:last])) + 1
    stop, stopped_at = play(EarlyStopping(patience), values)
    assert stopped_at == last
    assert stop.epoch == stop.weights == best


def test_early_stopping_ends_when_the_value_is_enough():
    stop, last = play(EarlyStopping(3, higher_is_better=True, enough=0.9), [0.5, 0.95, 0.99])
    assert (last, stop.epoch, stop.weights) == (2, 2, 2)
    stop, last = play(EarlyStopping(3, enough=0.1), [0.5, math.nan, 0.1, 0.0])
    assert last == 3


@pytest.mark.parametrize(
    ("column", "higher"),
    [("running_accuracy", True), ("accuracy", True), ("val_f1", True), ("val_loss", False),
     ("loss", False)],
)  # fmt: skip
def test_the_direction_of_a_registered_rule(isolated, column, higher):
    isolated(STOPPING_RULES)
    register_stopping_rule("mine", column=column, metrics=("accuracy",))(EarlyStopping)
    rule, _ = make_rule(SimpleNamespace(stopping="mine", stopping_options={}))
    assert play(rule, [0.1, 0.9, 0.5])[0].epoch == (2 if higher else 1)


@given(st.lists(st.sampled_from([0.7, 0.8, 0.81, math.nan]), max_size=40), st.integers(1, 5))
@settings(max_examples=200, deadline=None)
def test_accuracy_is_reached_after_consecutive_epochs(values, epochs):
    runs = [
        end
        for end in range(epochs, len(values) + 1)
        if all(value > 0.8 for value in values[end - epochs : end])
    ]
    stop, last = play(AccuracyReached(0.8, epochs), values)
    assert stop.reached == bool(runs)
    assert last == stop.epoch == (runs[0] if runs else len(values))
    assert stop.weights is None
