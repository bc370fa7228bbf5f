"""Sources of randomness: what a seed changes, and what it leaves."""

from __future__ import annotations

import functools

import pytest

from relation_tf.bench import run_suite
from relation_tf.config.loading import make_suite
from relation_tf.config.run import FIXED_SEED
from relation_tf.errors import DataError
from relation_tf.tasks import dates, load_task
from relation_tf.tasks.generated import GENERATED

pytestmark = pytest.mark.tensorflow

GROUP = {"name": "two", "tasks": ["RTE", "WNLI"]}
GRU = {"mechanism": "gru-encoder-decoder", "units": 8, "name": "gru"}


class StartedError(Exception):
    """Ends a run at its first epoch."""


def start(trainer, seed):
    """Return weights, random states and batches at the first epoch of a run."""
    found = {}

    def epoch(order, number):
        for name, chosen in (("states", True), ("weights", False)):
            found[name] = [
                each.numpy().tobytes()
                for each in trainer.model.variables
                if (each.name == "seed_generator_state") == chosen
            ]
        plan = type(trainer).plan_epoch(trainer, order, number)
        found["batches"] = [rows.tobytes() for _, rows in plan]
        raise StartedError

    trainer.plan_epoch = epoch
    with pytest.raises(StartedError):
        trainer.run(seed)
    return found


@pytest.fixture(scope="module")
def starts(small_glue):
    """Return the start of a task's run; the compiled network of a task serves all."""
    from relation_tf.training.task_trainer import TaskTrainer

    def config_of(name, vary=("init", "order")):
        changes = {"group": [GROUP]} if name == "two" else {}
        method = GRU if name == "dates" else {"mechanism": "relation", "units": 8}
        values = {
            "name": "small",
            "tasks": [name],
            "seeds": [1],
            "vary": [*vary],
            "dropout": 0.3,
            "batch_size": 16,
            "embedding_dim": 100 if name == "dates" else 12,
            "method": [method],
            **changes,
        }
        return make_suite("small", values).runs()[0]

    @functools.cache
    def trainer(name):
        config = config_of(name)
        return TaskTrainer(config, load_task(config.entry, data=small_glue))

    @functools.cache
    def make(name, vary, seed):
        own = trainer(name)
        own.config = config_of(name, vary)  # the network does not depend on it
        return start(own, seed)

    few = functools.partial(dates, train=40, dev=8, test=6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(GENERATED, "dates", few)
        yield make


@pytest.mark.parametrize("name", ["CoLA", "two", pytest.param("dates", marks=pytest.mark.slow)])
@pytest.mark.parametrize("vary", [("init",), ("order",), ("init", "order")], ids=",".join)
@pytest.mark.parametrize("seeds", [(FIXED_SEED, 2), (2, 3)])
def test_seeds_change_only_what_varies(starts, name, vary, seeds):
    first, second = (starts(name, vary, seed) for seed in seeds)
    assert first["states"]
    assert (first["weights"] != second["weights"]) == ("init" in vary)
    assert (first["batches"] != second["batches"]) == ("order" in vary)
    assert (first["states"] != second["states"]) == ("order" in vary)


def test_both_is_the_default_and_a_source_that_does_not_vary_has_a_fixed_seed(starts):
    fixed, third = (starts("CoLA", ("init", "order"), seed) for seed in (FIXED_SEED, 3))
    order, init = (starts("CoLA", (vary,), 3) for vary in ("order", "init"))
    assert (order["weights"], order["batches"]) == (fixed["weights"], third["batches"])
    assert (init["weights"], init["batches"]) == (third["weights"], fixed["batches"])


def test_other_rows_stop_the_training(small_glue):
    made = {
        seed: load_task("CoLA", data=small_glue, validation_split=0.2, split_seed=seed)
        for seed in (None, 1, 2)
    }
    held_out = {seed: task.splits["validation"].index.tolist() for seed, task in made.items()}
    assert len({tuple(rows) for rows in held_out.values()}) == 3
    assert made[None].splits["dev"].index.tolist() == made[1].splits["dev"].index.tolist()
    with pytest.raises(DataError, match="the validation rows of CoLA are fixed"):
        load_task("CoLA", data=small_glue, split_seed=1)


def test_a_suite_whose_seeds_change_only_the_rows(tmp_path, small_glue, suite):
    made = suite(
        tasks=["CoLA"], vary=["split"], validation_split=0.2, dropout=0.0, epochs=1, seeds=[1, 2]
    )
    results = run_suite(made, tmp_path, data=small_glue, quiet=True)
    assert results.failures == []
    rows = {run["seed"]: run["manifest"]["data"]["rows"]["train"] for run in results.runs}
    assert rows[1] == rows[2]
    losses = {(run["method"], run["seed"]): results.history(run)["loss"][0] for run in results.runs}
    assert losses["relation-8", 1] != losses["relation-8", 2]
