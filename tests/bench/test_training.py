from __future__ import annotations

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
    loss = float(first.train((ids,), labels))
    with tf.GradientTape() as tape:
        expected = tf.reduce_mean(
            keras.losses.sparse_categorical_crossentropy(labels, twin(ids, training=True))
        )
    variables = twin.trainable_variables
    gradients = tape.gradient(expected, [variable.value for variable in variables])
    keras.optimizers.Adam(config.learning_rate).apply(
        [tf.convert_to_tensor(gradient) for gradient in gradients], variables
    )
    assert loss == pytest.approx(float(expected), abs=1e-6)
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


@pytest.mark.slow
@pytest.mark.parametrize("name", list_suites())
def test_every_method_of_every_suite_can_be_built(name):
    from relation_tf.bench.training import check_network

    by_method = {config.method: config for config in load_suite(name).runs()}
    for config in by_method.values():
        check_network(config)
