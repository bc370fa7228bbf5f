"""Compiled networks that tests of training share: to compile one takes longer than to train it."""

from __future__ import annotations

import pytest

# Settings that change neither a network nor its steps.
OF_RUNS = {
    "callbacks", "epochs", "patience", "stopping", "stopping_options", "target_accuracy",
    "target_epochs", "time_limit", "vary", "watched_accuracy",
}  # fmt: skip


@pytest.fixture(scope="session")
def compiled():
    """The compiled networks by task and settings."""
    return {}


@pytest.fixture
def network(small_glue, suite, compiled):
    """Return a function that returns the compiled network of the first run of a task."""
    from relation_tf.tasks import load_task
    from relation_tf.training.task_trainer import TaskTrainer

    def make(name="CoLA", **changes):
        # With this rate, the validation loss rises before the last epoch.
        config = suite(tasks=[name], **{"learning_rate": 0.05, **changes}).runs()[0]
        key = repr([name, *sorted((k, v) for k, v in changes.items() if k not in OF_RUNS)])
        if key not in compiled:
            compiled[key] = TaskTrainer(config, load_task(config.entry, data=small_glue))
        compiled[key].config = config
        return compiled[key], config

    return make


@pytest.fixture
def grouped(network):
    """Return a function that returns the network of two tasks that are learned together."""

    def make(sharing="shared-private", **changes):
        method = {"mechanism": "relation", "units": 8, "sharing": sharing}
        group = {"name": "both", "tasks": ["CoLA", "STS-B"]}
        return network("both", group=[group], method=[method], **changes)

    return make
