"""Transfer of shared layers to one task of a group from the other tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from relation_tf.config import Suite
from relation_tf.errors import DivergedError
from relation_tf.tasks import CustomTask, load_task

pytestmark = pytest.mark.tensorflow

TASKS = ("books", "music", "toys")
SHARED = {"embedding", "mechanism"}


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """Return a folder with reviews of three kinds."""
    folder = tmp_path_factory.mktemp("reviews")
    words = {"pos": ("good", "fine", "loved"), "neg": ("bad", "poor", "hated")}
    draws = np.random.default_rng(0)
    for task in TASKS:
        (folder / task).mkdir()
        for split, count in (("train", 24), ("test", 9)):
            labels = [("neg", "pos")[row % 2] for row in range(count)]
            texts = [f"{task} {' '.join(draws.choice(words[label], 3))}" for label in labels]
            lines = ["text,label", *map(",".join, zip(texts, labels, strict=True)), ""]
            (folder / task / f"{split}.csv").write_text("\n".join(lines), encoding="utf-8")
    return folder


def make_suite(*sharings, **changes):
    tasks = [
        CustomTask(
            name=name,
            inputs=["text"],
            label="label",
            labels=["neg", "pos"],
            files={split: f"{name}/{split}.csv" for split in ("train", "test")},
        )
        for name in TASKS
    ]
    values = {
        "name": "transfer",
        "task": tasks,
        "group": [{"name": "reviews", "tasks": [*TASKS]}],
        "tasks": ["reviews"],
        "seeds": [1],
        "epochs": 2,
        "batch_size": 8,
        "embedding_dim": 6,
        "network": "plain",
        "dropout": 0.2,
        "learning_rate": 0.02,
        "stopping": "early_stopping",
        "method": [{"mechanism": "relation", "units": 4, "sharing": each} for each in sharings],
    }
    return Suite(**(values | changes))


@pytest.fixture
def make(reviews):
    """Return a function that makes the trainer of a method, and its task."""
    from relation_tf.training.task_trainer import TransferTrainer

    def made(sharing="single-channel", change=lambda task: task):
        config = make_suite(sharing).runs()[0]
        task = change(load_task(config.entry, data=reviews))
        return TransferTrainer(config, task)

    return made


@pytest.fixture
def trainings(monkeypatch):
    """Return a list of the task and the weights of each training, filled when it ends."""
    from relation_tf.training.task_trainer import TaskTrainer

    run, ended = TaskTrainer.run, []

    def recorded(trainer, *arguments):
        result = run(trainer, *arguments)
        weights = {each.name: each.get_weights() for each in trainer.model.layers if each.weights}
        ended.append((trainer.task, weights))
        return result

    monkeypatch.setattr(TaskTrainer, "run", recorded)
    return ended


def test_the_trainers_of_a_task_have_the_sources_of_their_tasks(make):
    made = make()
    for number, others in enumerate([["music", "toys"], ["books", "toys"], ["books", "music"]]):
        task = made.task.task.members[number]
        for trainer, names in ((made._source(task), others), (made._target(task), [task.name])):
            sources = [member.source.task.name for member in trainer.task.members]
            assert sources == [member.name for member in trainer.task.task.members] == names


def same(some, others):
    return all(np.array_equal(a, b) for a, b in zip(some, others, strict=True))


@pytest.mark.slow
def test_shared_layers_are_trained_on_the_other_tasks_and_frozen(make, trainings):
    trained = make("bi-channel").run(1)
    names = [[each.name for each in task.task.members] for task, _ in trainings]
    assert names == [
        ["music", "toys"], ["books"], ["books", "toys"], ["music"], ["books", "music"], ["toys"],
    ]  # fmt: skip
    for (name,), (_, source), (_, target) in zip(
        names[1::2], trainings[::2], trainings[1::2], strict=True
    ):
        assert not [layer for layer in source if name in layer]
        assert target.keys() == SHARED | {f"output_{name}", f"{name}_mechanism"}
        assert all(same(source[layer], target[layer]) for layer in SHARED)
    for task, _ in trainings:
        prefixes = {split.partition(":")[0] for split in task.splits}
        assert prefixes == {each.name for each in task.task.members}
    assert trained.metrics.keys() == {*TASKS}
    assert [row["training"] for row in trained.history] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    assert [row["epoch"] for row in trained.history] == [*range(1, 13)]


@pytest.mark.slow
def test_epochs_of_a_diverged_transfer_are_those_of_the_run(make, monkeypatch):
    """The loss of the second training, after two epochs of the first one, is not finite."""
    from relation_tf.training.task_trainer import TransferTrainer

    target = TransferTrainer._target

    def with_nan(trainer, task):
        made = target(trainer, task)
        monkeypatch.setattr(made.parts[0], "loss", lambda *_: np.nan)
        return made

    monkeypatch.setattr(TransferTrainer, "_target", with_nan)
    epochs = []
    with pytest.raises(DivergedError, match="diverged in epoch 3: val_loss is nan"):
        make().run(1, lambda epoch, row: epochs.append((epoch, row["epoch"])))
    assert epochs == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.slow
def test_shared_layers_do_not_depend_on_the_rows_of_their_task(make):
    def flipped(task):
        """Return the tasks with the wrong labels of toys."""
        toys = [split for split in task.splits if split.startswith("toys:")]
        own = {split: task.splits[split] for split in toys}
        wrong = {split: replace(rows, labels=1 - rows.labels) for split, rows in own.items()}
        return replace(task, splits={**task.splits, **wrong})

    def shared(made, number):
        task = made.task.task.members[number]
        source = made._source(task)
        source.run(1)
        return made._shared(task, source.model)

    before, after = make(), make(change=flipped)
    assert same(shared(before, 2), shared(after, 2))
    assert not same(shared(before, 0), shared(after, 0))
