from __future__ import annotations

import itertools

import numpy as np
import pytest

from relation_tf.bench import list_suites, load_suite

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def network(small_glue, suite):
    """Make the compiled network of the first run of a task."""
    from relation_tf.bench.training import CompiledNetwork
    from relation_tf.tasks import load_task

    def make(name="CoLA", **changes):
        config = suite(tasks=[name], **changes).runs()[0]
        return CompiledNetwork(config, load_task(name, data=small_glue)), config

    return make


def seeded(config, seed):
    return config.model_copy(update={"seed": seed})


def outputs(trained):
    return {key: value.tobytes() for key, value in trained.predictions.items()}


@pytest.mark.parametrize("name", ["CoLA", "STS-B", "MNLI"])
def test_same_seed_gives_the_same_bits_whatever_ran_before(network, name):
    from relation_tf.bench.training import train_run

    first, config = network(name)
    alone = train_run(first, config)
    train_run(first, seeded(config, 2))
    again = train_run(first, config)
    other, _ = network(name)
    fresh = train_run(other, config)
    costs = [[row["loss"] for row in trained.history] for trained in (alone, again, fresh)]
    assert costs[0] == costs[1] == costs[2]
    assert outputs(alone) == outputs(again) == outputs(fresh)
    assert outputs(alone) != outputs(train_run(first, seeded(config, 2)))


def test_a_refilled_network_starts_as_a_new_one(network):
    import keras

    first, _ = network()
    first.refill(7)
    keras.utils.set_random_seed(7)
    new = first._build(7)
    for kept, fresh in zip(first.model.variables, new.variables, strict=True):
        assert np.array_equal(kept, fresh), kept.path


def test_a_step_is_what_keras_does(network):
    """One step of the harness against Keras's own, with Adam on the dense gradient."""
    import keras
    import tensorflow as tf

    first, config = network(dropout=0.0, method=[{"mechanism": "relation", "units": 8,
                                                  "options": {"dropout": 0.0}}])  # fmt: skip
    train = first.task.splits["train"]
    ids, labels = train.inputs[0].pad(np.arange(16)), train.labels[:16]
    first.refill(1)
    twin = keras.models.clone_model(first.model)
    twin.set_weights(first.model.get_weights())
    loss, right = first.train((ids,), labels)
    assert int(right) == np.sum(np.argmax(twin(ids), axis=1) == labels)
    with tf.GradientTape() as tape:
        expected = tf.reduce_mean(
            keras.losses.sparse_categorical_crossentropy(labels, twin(ids, training=True))
        )
    variables = twin.trainable_variables
    gradients = tape.gradient(expected, [variable.value for variable in variables])
    keras.optimizers.Adam(config.learning_rate).apply(
        [tf.convert_to_tensor(gradient) for gradient in gradients], variables
    )
    assert float(loss) == pytest.approx(float(expected), abs=1e-6)
    for kept, right in zip(first.model.trainable_variables, variables, strict=True):
        np.testing.assert_allclose(kept, right, atol=1e-6, err_msg=kept.path)


def test_predictions_do_not_depend_on_the_batches(network, monkeypatch):
    from relation_tf.bench import training

    first, _ = network("MNLI")
    split = first.task.splits["dev_matched"]
    whole = first.predict(split)
    monkeypatch.setattr(training, "_EVALUATION_BATCH", 3)
    np.testing.assert_allclose(first.predict(split), whole, atol=1e-6)


def test_best_weights_are_brought_back(network):
    from relation_tf.bench.training import _cost, train_run

    first, config = network(stopping="best", learning_rate=0.05, epochs=6)
    trained = train_run(first, config)
    costs = [row["val_loss"] for row in trained.history]
    assert trained.stop.epoch == int(np.argmin(costs)) + 1
    kept = _cost(trained.predictions["dev", "CoLA"], first.task.splits["dev"])
    assert kept == pytest.approx(min(costs), rel=1e-6)


def test_a_diverged_network_has_the_worst_score(network):
    from relation_tf.bench.training import train_run

    first, config = network(learning_rate=1e30)
    trained = train_run(first, config)
    assert np.isnan(trained.history[-1]["val_loss"])
    assert trained.metrics == {"CoLA": {"matthews": -1.0}}


def learning(network, **changes):
    """A run on SST-2 that stops when an accuracy has held; nothing is dropped out."""
    from relation_tf.bench.training import train_run

    settings = {
        "stopping": "accuracy_reached",
        "target_accuracy": 0.6,
        "target_epochs": 2,
        "dropout": 0.0,
        "learning_rate": 0.01,
        "epochs": 30,
        **changes,
    }
    made, config = network("SST-2", **settings)
    return train_run(made, config), made


@pytest.mark.parametrize("accuracy", ["validation", "running"])
def test_an_accuracy_that_holds_ends_the_run(network, accuracy):
    trained, _ = learning(network, accuracy=accuracy)
    column = {"validation": "val_accuracy", "running": "running_accuracy"}[accuracy]
    values = [row[column] for row in trained.history]
    assert trained.stop.reached
    assert all(value > 0.6 for value in values[-2:])
    assert not any(a > 0.6 and b > 0.6 for a, b in itertools.pairwise(values[:-1]))


def test_a_running_accuracy_is_that_of_all_rows_so_far(network):
    trained, made = learning(network, target_accuracy=0.99, epochs=5)
    train, held_out = (len(made.task.splits[name]) for name in ("train", made.task.validation))
    right = rows = 0.0
    for row in trained.history:
        right += row["accuracy"] * train + row["val_accuracy"] * held_out
        rows += train + held_out
        assert row["running_accuracy"] == pytest.approx(right / rows)


def test_training_accuracy_is_of_the_outputs_before_each_step(network):
    """One batch an epoch: the accuracy of the second epoch is that of the first one's weights."""
    from relation_tf.bench.training import train_run

    settings = {"stopping": "accuracy_reached", "dropout": 0.0, "batch_size": 1000}
    made, config = network("SST-2", epochs=1, **settings)
    train_run(made, config)
    split = made.task.splits["train"]
    expected = np.mean(made.predict(split).argmax(axis=1) == split.labels)
    made, config = network("SST-2", epochs=2, **settings)
    assert train_run(made, config).history[1]["accuracy"] == pytest.approx(expected)


def test_what_is_not_reached_is_said(network):
    trained, _ = learning(network, target_accuracy=0.999, target_epochs=50, epochs=3)
    assert (trained.stop.reached, trained.stop.reason) == (False, "not reached in 3 epochs")
    trained, _ = learning(network, target_epochs=50, time_limit=1e-9)
    assert (len(trained.history), trained.stop.reason) == (1, "not reached in 1e-09 s")


@pytest.mark.parametrize("stopping", ["best", "smoothed"])
def test_every_rule_keeps_to_the_time_limit(network, stopping):
    from relation_tf.bench.training import train_run

    made, config = network(stopping=stopping, time_limit=1e-9)
    trained = train_run(made, config)
    assert (len(trained.history), trained.stop.reason) == (1, "reached 1e-09 s")
    assert "running_accuracy" not in trained.history[0]


def test_times_add_up(network):
    trained, _ = learning(network)
    seconds = trained.seconds
    assert 0 < seconds["input"] < seconds["training"]
    assert seconds["training"] + seconds["evaluation"] <= seconds["total"]


@pytest.mark.slow
@pytest.mark.parametrize("name", list_suites())
def test_every_method_of_every_suite_can_be_built(name):
    from relation_tf.bench.training import check_network

    by_method = {config.method: config for config in load_suite(name).runs()}
    for config in by_method.values():
        check_network(config)
