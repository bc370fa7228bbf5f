"""State of a run, and resuming from it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relation_tf.training.stopping import AccuracyReached, EarlyStopping, SmoothedEarlyStopping
from relation_tf.training.trainer import Checkpoint, State

STATE = State(
    history=[{"epoch": 1, "loss": 0.1 + 0.2, "val_loss": math.inf}],
    seconds=1.5,
    rule={"best": math.inf, "epoch": 0},
    variables=[np.array([1.5, np.nan], np.float32), np.array(7, np.int64)],
    kept=[np.array([[2.0]], np.float32)],
    resumed=[3],
)


def equal(a: State, b: State) -> bool:
    arrays = [[*each.variables, *(each.kept or [])] for each in (a, b)]
    same = all(
        x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in zip(*arrays, strict=True)
    )
    others = ("history", "seconds", "rule", "resumed")
    return same and all(getattr(a, name) == getattr(b, name) for name in others)


def test_state_round_trip_is_bit_identical(tmp_path):
    checkpoint = Checkpoint(tmp_path / "state.npz", {"keras": "3"})
    assert checkpoint.read() is None
    checkpoint.write(STATE)
    assert equal(checkpoint.read(), STATE)
    assert [path.name for path in tmp_path.iterdir()] == ["state.npz"]


def test_no_state_of_others(tmp_path):
    Checkpoint(tmp_path / "state.npz", {"keras": "3.9"}).write(STATE)
    assert Checkpoint(tmp_path / "state.npz", {"keras": "3.10"}).read() is None


@pytest.mark.parametrize("size", [0, 10, 300, -1])
def test_damaged_state_is_ignored(tmp_path, size):
    path = tmp_path / "state.npz"
    checkpoint = Checkpoint(path, {})
    checkpoint.write(STATE)
    path.write_bytes(path.read_bytes()[:size])
    assert checkpoint.read() is None


COSTS = st.lists(st.floats(0, 1) | st.just(math.nan) | st.just(math.inf), min_size=1, max_size=40)
RULES = {
    "smoothed_early_stopping": lambda: SmoothedEarlyStopping(patience=2, window=3),
    "early_stopping": lambda: EarlyStopping(patience=3),
    "accuracy": lambda: AccuracyReached(0.5, target_epochs=3),
}


@pytest.mark.parametrize("rule", RULES)
@given(costs=COSTS, cut=st.integers(1, 40))
def test_a_restored_rule_continues_unchanged(rule, costs, cut):
    """Interrupted after any epoch, it ends where it would have ended."""
    cut = 1 + cut % max(1, len(costs) - 1)

    def ends(rule, first, costs):
        for epoch, cost in enumerate(costs, start=first):
            stop = rule.update(epoch, cost, lambda epoch=epoch: [epoch])
            if stop is not None:
                return stop
        return rule.finish(first + len(costs) - 1, "limit")

    whole, before, after = (RULES[rule]() for _ in range(3))
    expected = ends(whole, 1, costs)
    for epoch, cost in enumerate(costs[:cut], start=1):
        if before.update(epoch, cost, lambda epoch=epoch: [epoch]) is not None:
            return
    after.restore(before.state(), before.kept)
    if len(costs) > cut:
        assert ends(after, cut + 1, costs[cut:]) == expected


class InterruptedRunError(Exception):
    pass


@pytest.mark.parametrize(
    "rule",
    [
        {"stopping": "early_stopping", "patience": 3},
        {"stopping": "smoothed_early_stopping", "patience": 2, "stopping_options": {"window": 2}},
    ],
    ids=lambda rule: rule["stopping"],
)
def test_resumed_run_equals_an_uninterrupted_one(network, tmp_path, rule):
    """Interrupted twice; dropout, Adam, batches and the rule, which ends the run, resume."""
    made, config = network(epochs=20, **rule)
    assert config.dropout > 0
    expected = made.run(config.seed)
    assert 5 < len(expected.history) < 20
    checkpoint = Checkpoint(tmp_path / "state.npz", {}, every=0)
    for last in (1, 4):

        def interrupt(epoch, row, last=last):
            # Before the state of this epoch is written.
            if epoch > last:
                raise InterruptedRunError

        with pytest.raises(InterruptedRunError):
            made.run(config.seed, interrupt, checkpoint)
        made.reset(99)  # nothing of the run is left in the network
    trained = made.run(config.seed, checkpoint=checkpoint)
    assert trained.resumed == [1, 4]
    for key in expected.history[0].keys() - {"seconds", "input_seconds", "evaluation_seconds"}:
        assert [row[key] for row in trained.history] == [row[key] for row in expected.history]
    assert (trained.stop.epoch, trained.stop.reason) == (expected.stop.epoch, expected.stop.reason)
    for key, outputs in expected.predictions.items():
        assert trained.predictions[key].tobytes() == outputs.tobytes()
    assert trained.metrics == expected.metrics
    assert trained.seconds["total"] > 0


def test_state_of_another_shape_is_ignored(network, tmp_path):
    made, config = network(epochs=2)
    expected = made.run(config.seed)
    checkpoint = Checkpoint(tmp_path / "state.npz", {}, every=0)
    values = made.state()
    for variables in (
        values[:-1],
        [values[0][:1], *values[1:]],
        [values[0].astype("f8"), *values[1:]],
    ):
        checkpoint.write(State([{"epoch": 1.0}], 1.0, {}, variables))
        trained = made.run(config.seed, checkpoint=checkpoint)
        assert trained.resumed == []
        assert trained.metrics == expected.metrics
