from __future__ import annotations

import itertools

import numpy as np
import pytest

from relation_tf.errors import DivergedError, SuiteError
from tests.backends import close

pytestmark = pytest.mark.tensorflow


def outputs(trained):
    return {key: value.tobytes() for key, value in trained.predictions.items()}


@pytest.mark.parametrize(
    "name", ["CoLA", *(pytest.param(name, marks=pytest.mark.slow) for name in ("STS-B", "MNLI"))]
)
def test_same_seed_gives_the_same_bits_whatever_ran_before(network, name):
    from relation_tf.training.task_trainer import TaskTrainer

    made, config = network(name, epochs=2)
    first, other, again = (made.run(seed) for seed in (config.seed, 2, config.seed))
    alone = TaskTrainer(config, made.task).run(config.seed)
    costs = [[row["loss"] for row in trained.history] for trained in (first, again, alone)]
    assert costs[0] == costs[1] == costs[2]
    assert outputs(first) == outputs(again) == outputs(alone) != outputs(other)


# On SST-2; nothing is dropped out.
EXACT = {
    "dropout": 0.0,
    "learning_rate": 0.01,
    "method": [{"mechanism": "relation", "units": 8, "options": {"dropout": 0.0}}],
}


def test_step_equals_keras(network):
    """One step of the harness against Keras's own, with Adam on the dense gradient."""
    import keras
    import tensorflow as tf

    first, config = network("SST-2", **EXACT)
    train = first.task.splits["train"]
    ids, labels = train.inputs[0].pad(np.arange(16)), train.labels[:16]
    first.reset(1)
    twin = keras.models.clone_model(first.model)
    twin.set_weights(first.model.get_weights())
    (loss,), (right,) = first.parts[0].train([((ids,), labels)])
    assert right == np.sum(np.argmax(twin(ids), axis=1) == labels)
    with tf.GradientTape() as tape:
        expected = tf.reduce_mean(
            keras.losses.sparse_categorical_crossentropy(labels, twin(ids, training=True))
        )
    variables = twin.trainable_variables
    gradients = tape.gradient(expected, [variable.value for variable in variables])
    keras.optimizers.Adam(config.learning_rate).apply(
        [tf.convert_to_tensor(gradient) for gradient in gradients], variables
    )
    close(loss, expected)
    for kept, right in zip(first.model.trainable_variables, variables, strict=True):
        close(kept, right)


def test_predictions_do_not_depend_on_the_batches(network, monkeypatch):
    from relation_tf.training import steps

    first, _ = network("MNLI")
    split = first.task.splits["dev_matched"]
    whole = first.parts[0].predict(split)
    monkeypatch.setattr(steps, "EVALUATION_BATCH", 3)
    close(first.parts[0].predict(split), whole)


def test_rows_with_equal_texts_are_predicted_once(network, monkeypatch):
    from relation_tf.tasks.encoding import EncodedSplit
    from relation_tf.tasks.rows import Ragged

    part = network("MNLI")[0].parts[0]
    pairs, place = [([5], [8, 9]), ([6, 7], [3]), ([5], [8])], [2, 0, 1, 0, 2, 2]

    def split(*numbers):
        columns = zip(*(pairs[number] for number in numbers), strict=True)
        return EncodedSplit(tuple(map(Ragged.of, columns)), None, np.arange(len(numbers)))

    sizes, predict = [], part._predict
    monkeypatch.setattr(part, "_predict", lambda ids: sizes.append(len(ids[0])) or predict(ids))
    outputs = part.predict(split(*place))
    assert sum(sizes) == 3
    close(outputs, part.predict(split(0, 1, 2))[place])


def test_best_weights_are_restored(network):
    made, config = network("SST-2", stopping="early_stopping", epochs=30, **EXACT)
    trained = made.run(config.seed)
    costs = [row["val_loss"] for row in trained.history]
    assert trained.stop.epoch == int(np.argmin(costs)) + 1 < len(costs)
    kept = made.parts[0].loss(trained.predictions["dev", "SST-2"], made.task.splits["dev"])
    close(kept, min(costs))


def test_a_diverged_network_has_no_score(network):
    first, config = network(learning_rate=1e30)
    rows = []
    with pytest.raises(DivergedError, match="diverged in epoch 1: loss is nan and val_loss is nan"):
        first.run(config.seed, lambda epoch, row: rows.append(row))
    (row,) = rows  # of the epoch in which it ended
    assert np.isnan([row["loss"], row["val_loss"], row["val_matthews"]]).all()


def learning(network, **changes):
    """A run that stops when an accuracy has held."""
    settings = {"target_accuracy": 0.6, "target_epochs": 2, "epochs": 200, **changes}
    made, config = network("SST-2", stopping="accuracy_reached", **settings, **EXACT)
    return made.run(config.seed), made


@pytest.mark.parametrize("accuracy", ["validation", "running"])
def test_lasting_accuracy_ends_the_run(network, accuracy):
    trained, made = learning(network, watched_accuracy=accuracy)
    column = {"validation": "val_accuracy", "running": "running_accuracy"}[accuracy]
    values = [row[column] for row in trained.history]
    assert trained.stop.reached
    assert all(value > 0.6 for value in values[-2:])
    assert not any(a > 0.6 and b > 0.6 for a, b in itertools.pairwise(values[:-1]))
    seconds = trained.seconds
    assert 0 < seconds["input"] < seconds["training"]
    assert seconds["training"] + seconds["evaluation"] <= seconds["total"]
    if accuracy == "running":  # of all rows so far
        train, held_out = (len(made.task.splits[name]) for name in ("train", made.task.validation))
        right = [
            row["accuracy"] * train + row["val_accuracy"] * held_out for row in trained.history
        ]
        rows = np.arange(1, len(right) + 1) * (train + held_out)
        assert values == pytest.approx(np.cumsum(right) / rows)


def test_missed_target_and_accuracy_of_the_outputs_before_each_step(network, monkeypatch):
    made, _ = network("SST-2", **EXACT)
    train, counted = made.train, []

    def counting(part, batches):
        steps = []
        for ids, labels in batches:
            right = np.sum(np.argmax(part.model(*ids), axis=1) == labels)
            counted.append((right, len(labels)))
            steps.append(train(part, [(ids, labels)]))
        return [np.concatenate(values) for values in zip(*steps, strict=True)]

    monkeypatch.setattr(made, "train", counting)
    trained, _ = learning(network, target_accuracy=0.999, target_epochs=50, epochs=2)
    assert not trained.stop.reached
    assert "2 epochs" in trained.stop.reason
    right, rows = np.array(counted).reshape(2, -1, 2).sum(axis=1).T
    assert [row["accuracy"] for row in trained.history] == pytest.approx(right / rows)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("SST-2", {"mechanism": "relation"}),
        ("STS-B", {"mechanism": "attention"}),
        ("SST-2", {"mechanism": "lstm", "feature_projection": True}),
    ],
)
def test_steps_of_one_call_equal_single_steps(network, name, method):
    """With batches of different shapes, and dropout."""
    made, _ = network(name, dropout=0.5, method=[{"units": 4, **method}])
    (part,) = made.parts
    rows = (np.arange(start, end) for start, end in ((0, 8), (8, 12), (12, 20)))
    batches = [(part.pad(part.train_rows, x), part.labels(part.train_rows)[x]) for x in rows]
    single = type(part)(part.task, part.model, made.optimizer, loop=False)
    trained = []
    for steps in (part, single):
        made.reset(1)
        trained.append([*steps.train(batches), *made.state()])
    for one, other in zip(*trained, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_run_keeps_to_its_time_limit(network):
    made, config = network("SST-2", stopping="early_stopping", time_limit=1e-9, **EXACT)
    trained = made.run(config.seed)
    assert len(trained.history) == 1
    assert trained.stop.reason.endswith("1e-09 s")


@pytest.mark.parametrize("name", ["CoLA", pytest.param("STS-B", marks=pytest.mark.slow)])
def test_bfloat16_is_used_only_for_computation(network, name):
    import keras

    made, config = network(name, precision="bfloat16")
    assert keras.config.dtype_policy().name == "float32"
    assert made.model.get_layer("mechanism").compute_dtype == "bfloat16"
    assert {v.dtype for v in made.model.trainable_variables} == {"float32"}
    train = made.task.splits["train"]
    (part,) = made.parts
    (loss,), _ = part.train([(part.pad(train, np.arange(3)), train.labels[:3])])
    assert loss.dtype == "float32"
    trained = made.run(config.seed)
    answers = next(iter(trained.predictions.values()))
    assert answers.dtype == np.float32
    # What eight bits hold has zeros in the last sixteen of 32.
    assert np.any(answers.view(np.uint32) & 0xFFFF)
    exact, config = network(name)
    costs, expected = (
        [row["val_loss"] for row in run.history] for run in (trained, exact.run(config.seed))
    )
    assert costs == pytest.approx(expected, rel=0.05)
    assert costs != expected


@pytest.mark.slow
def test_xla_does_not_change_training(network, monkeypatch):
    settings = {**EXACT, "epochs": 2}
    plain, config = network("SST-2", **settings)
    expected = plain.run(config.seed)
    made, config = network("SST-2", **settings, xla=True)
    assert made.xla
    shapes, train = [], made.train

    def watched(part, batches):
        shapes.extend(tuple(column.shape for column in ids) for ids, _ in batches)
        return train(part, batches)

    monkeypatch.setattr(made, "train", watched)
    trained = made.run(config.seed)
    for key in ("loss", "val_loss"):
        costs = [[row[key] for row in run.history] for run in (trained, expected)]
        close(*costs, 1e-4)
    # The steps of two epochs; 60 rows make no 4 full batches.
    assert len(shapes) == 2 * 4
    assert {width for ((_, width),) in shapes} <= {8, 16, 24}
    assert sorted({rows for ((rows, _),) in shapes}) == [12, 16]
    assert trained.padding > expected.padding


def test_both_branches_of_feature_projection_are_trained(network):
    import keras

    made, config = network(epochs=1, dropout=0.0, network="plain", reversal_weight=0.5,
                           method=[{"mechanism": "cnn", "units": 4, "feature_projection": True,
                                    "options": {"widths": [3]}}])  # fmt: skip
    made.reset(1)
    (part,) = made.parts
    rows = np.arange(8)
    texts, labels = part.pad(part.train_rows, rows), part.labels(part.train_rows)[rows]
    both = part._branches(texts[0])
    expected = sum(
        float(np.mean(keras.losses.sparse_categorical_crossentropy(labels, each))) for each in both
    )
    before = made.weights()
    (loss,), (right,) = part.train([(texts, labels)])
    close(loss, expected)
    assert right == np.sum(np.argmax(both[0], axis=1) == labels)
    for old, new, variable in zip(before, made.weights(), made.model.variables, strict=True):
        assert variable.path.startswith("seed") or not np.array_equal(old, new), variable.path
    assert made.model.get_layer("output_reversal").weight == 0.5
    assert made.run(config.seed).metrics.keys() == {"CoLA"}


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["shared", "adversarial"])
def test_a_group_answers_for_each_of_its_tasks(grouped, sharing):
    made, config = grouped(sharing)
    trained = made.run(config.seed)
    assert {name: set(scores) for name, scores in trained.metrics.items()} == {
        "CoLA": {"matthews"}, "STS-B": {"pearson", "spearman"},
    }  # fmt: skip
    assert ("STS-B:test", "STS-B") in trained.predictions
    assert outputs(made.run(config.seed)) == outputs(trained)
    assert outputs(made.run(2)) != outputs(trained)


def test_a_group_does_not_accumulate_gradients(grouped):
    with pytest.raises(SuiteError, match="gradient_accumulation_steps must not be set for a group"):
        grouped(optimizer_options={"gradient_accumulation_steps": 4})


@pytest.mark.slow
def test_the_cost_of_a_group_is_the_mean_of_its_tasks(grouped):
    made, config = grouped(epochs=1)
    trained = made.run(config.seed)
    costs = [part.loss(part.predict(part.held_out), part.held_out) for part in made.parts]
    close(trained.history[0]["val_loss"], np.mean(costs))


def test_batches_are_drawn_across_tasks(grouped):
    made, config = grouped()
    batches = made.plan_epoch(config.seed, epoch=1)
    names = [part.task.task.name for part, _ in batches]
    assert set(names) == {"CoLA", "STS-B"}
    assert names != sorted(names)
    for part in made.parts:
        rows = np.concatenate([rows for own, rows in batches if own is part])
        assert sorted(rows) == list(range(len(part.train_rows)))
    again = [part.task.task.name for part, _ in made.plan_epoch(config.seed, epoch=2)]
    assert again != names


def test_step_of_one_task_changes_shared_layers_and_its_head(grouped):
    made, _ = grouped()
    cola = made.parts[0]
    variables = made.model.trainable_variables
    before = [v.numpy().copy() for v in variables]
    ids, labels = cola.train_rows.inputs[0].pad(np.arange(8)), cola.train_rows.labels[:8]
    cola.train([((ids,), labels)])
    pairs = zip(variables, before, strict=True)
    changed = {v.path for v, value in pairs if (v.numpy() != value).any()}
    assert changed == {v.path for v in cola.model.trainable_variables}
    assert not any("STS-B" in path for path in changed)
