"""Suites: methods x tasks x seeds. Free of Keras."""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated, Any, Self, cast

import tomli_w
from pydantic import (
    Field,
    field_validator,
    model_validator,
)

from relation_tf.config.method import NAME_PATTERN, EncoderWeights, Method, Name
from relation_tf.config.plugins import Plugin
from relation_tf.config.published import load_published
from relation_tf.config.run import RunConfig, higher_is_better
from relation_tf.config.table_layout import TableLayout
from relation_tf.config.training import OF_TIMED, Override, TrainingSettings, name_in
from relation_tf.errors import UnknownNameError, join_names
from relation_tf.networks.mechanisms import find_mechanism
from relation_tf.registry import PROCEDURES, TASKS
from relation_tf.tasks.catalogue import Entry, find_task
from relation_tf.tasks.custom import CustomTask
from relation_tf.tasks.glue import GLUE
from relation_tf.tasks.group import TaskGroup
from relation_tf.tasks.task import Task

MAX_RUNS = 100_000
"""The most runs that a suite may have; to plan them takes a few seconds, to train them years."""


_DEFAULTS = TrainingSettings().model_dump()


class Suite(TrainingSettings):
    """Methods x tasks x seeds, and how they are trained.

    Attributes:
        name: The suite's name.
        title: One line about it.
        question: What it is to answer.
        task: Tasks of one's own, which `tasks` names as it does the package's.
        group: Tasks that one network learns together; `tasks` names a group as it does a task.
        tasks: The trained tasks.
        seeds: The seeds, or how many (from 1).
        method: The methods; each is one or, with several widths, some.
        overrides: What is other for some tasks: for each a table of `batch_size`, `start_token`,
            `vocabulary_size`, `max_length`, `validation_split`, `epochs` or `time_limit`.
        alpha: The level of the tests.
        plugins: Modules that register further parts, such as `["my_module"]`, see
            `relation_tf.registry`; looked for in the current folder, next to the suite's file and
            among installed packages.
        control: The method that all others are compared with, by default all are with all; declared
            before the runs, it makes a smaller family of tests, which can show more.
        test: The statistical procedure that compares methods, a name of
            `relation_tf.registry.PROCEDURES`; by default Steel-Dwass, with a control Steel's test.
        layout: How the paper lays its table out, shown beside ours.
        published: A paper's figures to stand beside ours: a name of the package, or a TOML file,
            looked for beside the suite's.
    """

    name: Name
    title: str = ""
    question: str = ""
    task: list[CustomTask] = Field(default_factory=list)
    group: list[TaskGroup] = Field(default_factory=list)
    tasks: Annotated[list[str], Field(min_length=1)]
    seeds: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)] = Field(
        default_factory=lambda: [*range(1, 6)]
    )
    method: Annotated[list[Method], Field(min_length=1)]
    overrides: dict[str, Override] = Field(default_factory=dict)
    plugins: list[Plugin] = Field(default_factory=list)
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    control: str | None = None
    test: Annotated[str, name_in(PROCEDURES)] | None = None
    published: str | None = None
    layout: TableLayout | None = None

    @field_validator("published")
    @classmethod
    def _is_there(cls, published: str | None) -> str | None:
        if published is not None:
            load_published(published)
        return published

    @field_validator("seeds", mode="before")
    @classmethod
    def _count_to_seeds(cls, seeds: Any) -> Any:
        if type(seeds) is int:
            if seeds > MAX_RUNS:
                raise ValueError(f"at most {MAX_RUNS:,} seeds")
            seeds = list(range(1, seeds + 1))
        if not isinstance(seeds, list) or not seeds:
            raise ValueError("a number of seeds, one or more, or a list of them")
        return seeds

    @field_validator("tasks", "seeds")
    @classmethod
    def _no_repeats(cls, values: list[Any]) -> list[Any]:
        repeated = [value for value, times in Counter(values).items() if times > 1]
        if repeated:
            raise ValueError(f"each once, found {min(repeated)!r} more than once")
        return values

    @field_validator("task")
    @classmethod
    def _names_are_free(cls, tasks: list[CustomTask]) -> list[CustomTask]:
        taken = {name for known in TASKS for name in (known, *find_task(known).scored)}
        for task in tasks:
            if task.name in taken:
                raise ValueError(f"names that are free, found {task.name!r} twice or the package's")
            taken.add(task.name)
        return tasks

    @model_validator(mode="after")
    def _groups_are_of_tasks(self) -> Self:
        known = [*map(find_task, TASKS), *(task.task() for task in self.task)]
        taken = {name for task in known for name in (task.name, *task.scored, *task.answered)}
        for group in self.group:
            if group.name in taken:
                raise ValueError(
                    f"key 'group': expected a name that is free. Received: {group.name!r}"
                )
            taken.add(group.name)
        for name in (name for group in self.group for name in group.tasks):
            if not isinstance(name, str) or name in (group.name for group in self.group):
                raise ValueError(f"key 'group': expected names of tasks. Received: {name!r:.80}")
            try:
                self.find_task(name)
            except UnknownNameError as error:
                raise ValueError(f"key 'group': {error}") from error
        return self

    @model_validator(mode="after")
    def _can_be_planned(self) -> Self:
        runs = len(self.tasks) * len(self.seeds) * sum(method.count for method in self.method)
        if runs > MAX_RUNS:
            raise ValueError(
                f"expected at most {MAX_RUNS:,} runs, tasks x methods x seeds. "
                f"Received: {f'{runs:,}' if runs < 10**15 else 'more than 10^15'}"
            )
        return self

    @model_validator(mode="after")
    def _tasks_are_known(self) -> Self:
        for name in self.tasks:
            try:
                self.find_task(name)
            except UnknownNameError as error:
                raise ValueError(f"key 'tasks': {error}") from error
        scored = Counter(name for task in self.tasks for name in self.find_task(task).scored)
        twice = [name for name, times in scored.items() if times > 1]
        if twice:
            raise ValueError(
                "key 'tasks': expected each task alone or in one group, so that a method has one "
                f"score on it. Received: {twice[0]!r} more than once"
            )
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [method.name for method in self.methods()]
        for name in names:
            if not re.fullmatch(NAME_PATTERN, str(name)):
                raise ValueError(
                    f"method {name!r} makes no folder name: give it a name of letters, digits, "
                    "'.', '_' and '-'"
                )
        repeated = [str(name) for name, times in Counter(names).items() if times > 1]
        if repeated:
            raise ValueError(
                f"two methods are called {min(repeated)!r}: give them names of their own"
            )
        return self

    @model_validator(mode="after")
    def _control_is_a_method(self) -> Self:
        names = [str(method.name) for method in self.methods()]
        if self.control is not None and self.control not in names:
            raise ValueError(
                f"key 'control': expected a method of the suite, {join_names(names)}. "
                f"Received: {self.control!r:.80}"
            )
        return self

    @model_validator(mode="after")
    def _layout_has_a_place_for_each(self) -> Self:
        if self.layout is None:
            return self
        keys = {"task", "method", "mechanism", "units", "size"}
        keys |= {option for method in self.methods() for option in method.options}
        for key in (*self.layout.rows, *self.layout.columns):
            if key not in keys:
                raise ValueError(
                    f"key 'layout': expected some of {join_names(sorted(keys))}. "
                    f"Received: {key!r:.80}"
                )
        if "seconds" in self.layout.measures and self.stopping != "accuracy_reached":
            raise ValueError(
                "key 'layout': the measure 'seconds' is for stopping = 'accuracy_reached'. "
                f"Received: {self.stopping!r}"
            )
        places = Counter(
            self.layout.place(method, name)
            for method in self.methods()
            for task in self.tasks
            for name in self.find_task(task).scored
        )
        (row, column), times = places.most_common(1)[0]
        if times > 1:
            raise ValueError(
                "key 'layout': expected a cell of its own for each method and task, found "
                f"{times} in row {' / '.join(row)}, column {' / '.join(column)}"
            )
        return self

    @model_validator(mode="after")
    def _overrides_are_of_tasks(self) -> Self:
        for task in self.overrides:
            if task not in self.tasks:
                raise ValueError(
                    f"key 'overrides': expected a task of the suite, {', '.join(self.tasks)}. "
                    f"Received: {task!r}"
                )
        return self

    @model_validator(mode="after")
    def _tasks_have_the_monitor(self) -> Self:
        for task in self.tasks:
            metrics = self.find_task(task).metrics
            higher_is_better(self.monitor, task, metrics)
            if self.stopping == "accuracy_reached" and "accuracy" not in metrics:
                raise ValueError(
                    "key 'stopping': 'accuracy_reached' is for tasks with an accuracy. "
                    f"Received: {task!r}"
                )
        return self

    @model_validator(mode="after")
    def _groups_can_be_learned(self) -> Self:
        groups = [task for task in self.tasks if self.find_task(task).members]
        for method in self.methods():
            if method.sharing != "shared" and len(groups) < len(self.tasks):
                alone = next(task for task in self.tasks if task not in groups)
                raise ValueError(
                    f"key 'sharing' of method {method.name}: {alone} is no group. "
                    f"Received: {method.sharing!r}"
                )
            if method.size is not None and groups:
                raise ValueError(
                    f"key 'size' of method {method.name}: a group's network has as many heads as "
                    f"tasks, which no size is of. Received: {method.size}"
                )
        refused: dict[str, tuple[Any, str]] = {
            "xla": (True, "false"),
            "stopping": ("accuracy_reached", "'smoothed_early_stopping' or 'early_stopping'"),
            "tokens": ("text", "'word' or 'wordpiece'"),
        }
        for key, (value, expected) in refused.items() if groups else ():
            if getattr(self, key) == value:
                raise ValueError(
                    f"key {key!r}: expected {expected} for the group {groups[0]}. "
                    f"Received: {value!r}"
                )
        if groups and self.pretrained is not None:
            raise ValueError(
                f"key 'pretrained': expected none with the group {groups[0]}, whose networks can "
                f"only start at random. Received: {self.pretrained!r}"
            )
        return self

    @model_validator(mode="after")
    def _timed_tasks_stand_alone(self) -> Self:
        timed = [task.name for task in self.learned() if task.timed]
        if not timed:
            return self
        if self.group:
            raise ValueError(
                f"key 'group': expected none for {timed[0]}, which is timed and not learned"
            )
        others = [task.name for task in self.learned() if not task.timed]
        if others:
            raise ValueError(
                f"key 'tasks': expected none but decode-N beside {timed[0]}, which is timed and "
                f"not learned. Received: {others[0]!r}"
            )
        for method in self.methods():
            if method.size is not None:
                raise ValueError(
                    f"key 'size' of method {method.name}: expected none for {timed[0]}. "
                    f"Received: {method.size}"
                )
        for key in (key for key in TrainingSettings.model_fields if key not in OF_TIMED):
            found = [getattr(self, key)]
            found += [getattr(each, key, None) for each in self.overrides.values()]
            for value in found:
                if value not in (None, _DEFAULTS[key]):
                    raise ValueError(
                        f"key {key!r} has no meaning for {timed[0]}, where nothing is learned. "
                        f"Received: {value!r:.80}"
                    )
        return self

    @model_validator(mode="after")
    def _methods_write_where_asked(self) -> Self:
        written = [task.name for task in self.learned() if task.written]
        for method in self.methods():
            writes = find_mechanism(method.mechanism).output_type == "sequence"
            for task in self.learned():
                if task.written != writes:
                    expected = "an encoder-decoder" if task.written else "no encoder-decoder"
                    raise ValueError(
                        f"key 'mechanism' of method {method.name}: expected {expected} for "
                        f"{task.name}. Received: {method.mechanism!r}"
                    )
            if writes and method.size is not None:
                raise ValueError(
                    f"key 'size' of method {method.name}: expected none for an encoder-decoder. "
                    f"Received: {method.size}"
                )
        of_text = (
            "xla",
            "embeddings",
            "tokens",
            "start_token",
            "validation_split",
            "vocabulary_size",
            "max_length",
        )
        for key in of_text if written else ():
            value = getattr(self, key)
            if value != _DEFAULTS[key]:
                raise ValueError(
                    f"key {key!r} has no meaning for {written[0]}, whose characters are generated. "
                    f"Received: {value!r}"
                )
        if written and (self.group or self.pretrained):
            raise ValueError(
                f"key {'group' if self.group else 'pretrained'!r}: expected none for {written[0]}, "
                "which is written by a network of its own"
            )
        return self

    @model_validator(mode="after")
    def _methods_have_a_encoder_weights(self) -> Self:
        for method in self.methods():
            weights, encoder = self._encoder_weights(method), method.mechanism == "encoder"
            if self.pretrained is None and weights != "random":
                raise ValueError(
                    f"key 'encoder_weights' of method {method.name}: expected 'random', "
                    f"or a folder that the suite has as 'pretrained'. Received: {weights!r}"
                )
            if weights == "pretrained" and not encoder:
                raise ValueError(
                    f"key 'encoder_weights' of method {method.name}: expected 'frozen' or 'random' "
                    f"for a mechanism that is not 'encoder'. Received: {method.encoder_weights!r}"
                )
            if weights != "random" and method.size is not None:
                raise ValueError(
                    f"key 'size' of method {method.name}: expected none with encoder_weights = "
                    f"{weights!r}, as what is pre-trained has its own; or encoder_weights = "
                    f"'random'. Received: {method.size}"
                )
        return self

    @model_validator(mode="after")
    def _pretrained_is_read_as_it_learned(self) -> Self:
        if self.pretrained is None:
            return self
        expected: dict[str, Any] = {"tokens": "wordpiece", "embeddings": "random"}
        for key, value in {**expected, "start_token": False, "vocabulary_size": None}.items():
            found = [getattr(self, key)]
            found += [getattr(each, key, None) for each in self.overrides.values()]
            for other in (other for other in found if other not in (value, None)):
                raise ValueError(
                    f"key {key!r}: expected {value!r} with 'pretrained', which has a vocabulary "
                    f"and an embedding of its own. Received: {other!r:.80}"
                )
        return self

    @model_validator(mode="after")
    def _settings_go_together(self) -> Self:
        if self.source == "miniglue":
            for task in (task.name for task in self.learned()):
                if task not in GLUE:
                    raise ValueError(
                        f"key 'tasks': source = 'miniglue' has {', '.join(GLUE)} alone. "
                        f"Received: {task!r}"
                    )
        if self.tokens == "text":
            without = {
                "embeddings": "random",
                "start_token": False,
                "vocabulary_size": None,
                "max_length": None,
                "xla": False,
            }
            each = [self, *(override for override in self.overrides.values())]
            for key, nothing in without.items():
                for value in (getattr(settings, key, None) for settings in each):
                    if value not in (nothing, None):
                        raise ValueError(
                            f"key {key!r} has no meaning with tokens = 'text': a saved model "
                            f"splits and embeds text itself, which XLA cannot compile. "
                            f"Received: {value!r}"
                        )
        if self.embeddings == "glove" and any(
            m.size and m.sized_by == "width" for m in self.method
        ):
            raise ValueError(
                "key 'sized_by': word vectors have a width of their own, which a size cannot "
                "change. Received: 'width' with embeddings = 'glove'"
            )
        return self

    @model_validator(mode="after")
    def _methods_read_the_tokens(self) -> Self:
        for method in self.methods():
            reads = find_mechanism(method.mechanism).input_type
            if (reads == "text") != (self.tokens == "text"):
                expected = "'text'" if reads == "text" else "'word' or 'wordpiece'"
                raise ValueError(
                    f"key 'tokens': expected {expected} for method {method.name}. "
                    f"Received: {self.tokens!r}"
                )
        return self

    def entry(self, name: str) -> Entry:
        """A task's name, or what it is where it is one's own or a group, as `find_source` takes."""
        return self._custom_task(name) or self._group(name) or name

    def _custom_task(self, name: str) -> CustomTask | None:
        return next((task for task in self.task if task.name == name), None)

    def _group(self, name: str) -> TaskGroup | None:
        """A group, with what its tasks are where they are one's own."""
        for group in self.group:
            if group.name == name:
                tasks = [self._custom_task(str(each)) or each for each in group.tasks]
                return group.model_copy(update={"tasks": tasks})
        return None

    def find_task(self, name: str) -> Task:
        """What a task is, by its name."""
        return find_task(self.entry(name))

    @property
    def timed(self) -> bool:
        """Whether nothing is learned, see `Task`."""
        return all(task.timed for task in self.learned())

    def learned(self) -> list[Task]:
        """The tasks, those of groups one by one."""
        return [task for name in self.tasks for task in self.find_task(name).each()]

    def methods(self) -> list[Method]:
        """The methods, one for each width."""
        return [method for entry in self.method for method in entry.expand()]

    def runs(self) -> list[RunConfig]:
        """Every run, those of a task and a method together."""
        training = {name: getattr(self, name) for name in TrainingSettings.model_fields}
        return [
            RunConfig(
                **{**training, **self._override(task)},
                task=task,
                custom_task=self._custom_task(task),
                group=self._group(task),
                method=str(method.name),
                mechanism=method.mechanism,
                units=cast(int, method.units),  # expanded
                options=method.options,
                size=cast("int | None", method.size),  # expanded
                sized_by=method.sized_by,
                sharing=method.sharing,
                encoder_weights=self._encoder_weights(method),
                plugins=self.plugins,
                seed=seed,
            )
            for task in self.tasks
            for method in self.methods()
            for seed in self.seeds
        ]

    def _encoder_weights(self, method: Method) -> EncoderWeights:
        if self.pretrained is None:
            return method.encoder_weights or "random"
        return method.encoder_weights or (
            "pretrained" if method.mechanism == "encoder" else "frozen"
        )

    def _override(self, task: str) -> dict[str, Any]:
        override = self.overrides.get(task)
        return override.model_dump(exclude_none=True) if override else {}

    def setting(self, task: str, key: str) -> Any:
        """A key of `TrainingSettings` as it is for a task."""
        return self._override(task).get(key, getattr(self, key))

    def to_toml(self) -> str:
        """The suite as a TOML file."""
        return tomli_w.dumps(self.model_dump(exclude_none=True))
