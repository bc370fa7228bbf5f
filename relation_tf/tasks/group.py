"""Groups of tasks for joint training of one network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from relation_tf.errors import DataError
from relation_tf.tasks.custom import CustomTask
from relation_tf.tasks.sources import TaskSource
from relation_tf.tasks.task import FileLayout, Task, TaskText


class TaskGroup(BaseModel):
    """Group of tasks (`[[group]]` of a suite) on which one network is trained jointly.

    The network is scored on each task.

    Attributes:
        name: Name in suites and folders.
        tasks: Two or more tasks.

    Example:
        >>> from relation_tf.tasks import find_task
        >>> find_task(TaskGroup(name="opinions", tasks=["MR", "SUBJ"])).scored
        {'MR': 'MR:test', 'SUBJ': 'SUBJ:test'}
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")]
    tasks: list[str | CustomTask]

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        names = [entry if isinstance(entry, str) else entry.name for entry in self.tasks]
        twice = [name for name in names if names.count(name) > 1]
        if twice or len(names) < 2:
            found = f"{twice[0]!r} more than once" if twice else len(names)
            raise ValueError(f"tasks: must be two or more different tasks. Received: {found}")
        return self


def joined_source(group: Task, sources: Sequence[TaskSource]) -> TaskSource:
    """Return the source of a group.

    Args:
        group: The group.
        sources: Sources of its members, in the same order.

    Raises:
        DataError: If the sources are of different kinds.
    """
    kinds = {source.task.name: source.kind for source in sources}
    if len(set(kinds.values())) > 1:
        found = ", ".join(f"{name} from {kind}" for name, kind in kinds.items())
        raise DataError(
            f"group {group.name}: all tasks must be from the same kind of source. Received: {found}"
        )
    layouts = ", ".join(dict.fromkeys(source.layout.name for source in sources))

    files = {
        group.split_of(source.task, split): path
        for source in sources
        for split, path in source.files.items()
    }

    def read(task: Task, paths: Mapping[str, Path], skip_bad_lines: bool) -> TaskText:
        return _joined_text(task, [source.read(skip_bad_lines) for source in sources])

    layout = FileLayout(layouts, read)
    return TaskSource(group, sources[0].kind, layout, files, tuple(sources))


def _joined_text(group: Task, texts: Sequence[TaskText]) -> TaskText:
    spaced = {text.spaced for text in texts}
    return TaskText(
        group,
        {
            group.split_of(text.task, name): split
            for text in texts
            for name, split in text.splits.items()
        },
        tuple(f"{text.task.name}: {line}" for text in texts for line in text.skipped),
        tuple(f"{text.task.name}: {note}" for text in texts for note in text.notes),
        spaced.pop() if len(spaced) == 1 else None,
    )
