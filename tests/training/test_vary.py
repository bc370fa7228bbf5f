"""Sources of randomness: what a seed changes, and what it leaves."""

from __future__ import annotations

import pytest

from relation_tf.config.run import FIXED_SEED

pytestmark = pytest.mark.tensorflow


class StartedError(Exception):
    """Ends a run at its first epoch."""


@pytest.fixture
def start(network, grouped, monkeypatch):
    """Return a function that gives weights, random states and batches at the start of a run."""

    def make(name, vary, seed):
        if name == "both":
            trainer, _ = grouped(vary=[*vary])
        else:
            trainer, _ = network(name, vary=[*vary])
        found = {}

        def epoch(order, number):
            for kind, chosen in (("states", True), ("weights", False)):
                found[kind] = [
                    each.numpy().tobytes()
                    for each in trainer.model.variables
                    if (each.name == "seed_generator_state") == chosen
                ]
            plan = type(trainer).plan_epoch(trainer, order, number)
            found["batches"] = [rows.tobytes() for _, rows in plan]
            raise StartedError

        with monkeypatch.context() as patch:
            patch.setattr(trainer, "plan_epoch", epoch)
            with pytest.raises(StartedError):
                trainer.run(seed)
        return found

    return make


@pytest.mark.parametrize("name", ["CoLA", "both"])
@pytest.mark.parametrize("vary", [("init",), ("order",), ("init", "order")], ids=",".join)
def test_seeds_change_only_what_varies(start, name, vary):
    first, second = (start(name, vary, seed) for seed in (FIXED_SEED, 2))
    assert first["states"]
    assert (first["weights"] != second["weights"]) == ("init" in vary)
    assert (first["batches"] != second["batches"]) == ("order" in vary)
    assert (first["states"] != second["states"]) == ("order" in vary)
