from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from relation_tf.tasks import CustomTask, TaskGroup, find_task, load_task

THREE = TaskGroup(name="three", tasks=["CoLA", "RTE", "STS-B"])


def texts(task, split, column=0):
    """Return rows as words."""
    words = {i: word for word, i in task.vocabulary.words.items()}
    rows = task.splits[split].inputs[column]
    return [[words[i] for i in rows.pad(np.array([row]))[0]] for row in range(len(rows))]


def test_a_group_is_scored_as_its_tasks_are():
    group = find_task(THREE)
    assert group.scored == {"CoLA": "CoLA:dev", "RTE": "RTE:dev", "STS-B": "STS-B:dev"}
    assert group.of("RTE") == find_task("RTE")
    assert group.metrics == ()
    assert find_task(TaskGroup(name="two", tasks=["RTE", "WNLI"])).metrics == ("accuracy",)
    assert find_task(TaskGroup(name="two", tasks=["MNLI", "RTE"])).answered["AX"]


def test_members_have_the_same_rows_as_single_tasks(small_glue):
    group = load_task(THREE, data=small_glue)
    words = set()
    for member in group.members:
        alone = load_task(member.task.name, data=small_glue)
        words |= set(alone.vocabulary.words)
        for name in ("task", "validation", "source", "digests", "digest", "notes"):
            assert getattr(member, name) == getattr(alone, name)
        assert len(member.notes) == 1
        assert set(member.splits) == set(alone.splits)
        for name, split in member.splits.items():
            assert np.array_equal(split.index, alone.splits[name].index)
            for rows, own in zip(split.inputs, alone.splits[name].inputs, strict=True):
                assert np.array_equal(rows.lengths, own.lengths)
        if member.task.name == "CoLA":
            assert texts(member, "train") == texts(alone, "train")
    assert set(group.vocabulary.words) == words


def test_custom_task_may_be_a_member(tmp_path, monkeypatch, small_glue):
    monkeypatch.chdir(tmp_path)
    for split in ("train", "test"):
        (tmp_path / f"{split}.csv").write_text("text,tone\n" + "hello there,calm\nHEY,loud\n" * 20)
    own = CustomTask(name="tones", inputs=["text"], label="tone", labels=["calm", "loud"],
                  files={"train": "train.csv", "test": "test.csv"})  # fmt: skip
    group = load_task(TaskGroup(name="mixed", tasks=["CoLA", own]), data=small_glue)
    assert [member.task.name for member in group.members] == ["CoLA", "tones"]
    assert group.members[1].validation == "validation"  # cut from its training rows


def test_a_group_is_of_several_tasks_each_once():
    with pytest.raises(ValidationError, match="Received: 'CoLA' more than once"):
        TaskGroup(name="x", tasks=["CoLA", "CoLA"])
    with pytest.raises(
        ValidationError, match=r"tasks: must be two or more different tasks\. Received: 1"
    ):
        TaskGroup(name="x", tasks=["CoLA"])
