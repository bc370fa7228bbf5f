"""What is asked: suites, methods and the configuration of one run. Free of Keras."""

from __future__ import annotations

import contextlib
import difflib
import itertools
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

import tomli_w
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from relation_tf.bench.published import load_published
from relation_tf.errors import DataError, SuiteError, join_names, quote
from relation_tf.networks.mechanisms import custom_layer, find_mechanism, mixing_mechanism
from relation_tf.tasks.catalogue import TASK_NAMES, Entry, SourceName, find_task
from relation_tf.tasks.custom import CustomTask
from relation_tf.tasks.glue import GLUE
from relation_tf.tasks.group import TaskGroup
from relation_tf.tasks.task import Task

MAX_RUNS = 100_000
"""The most runs that a suite may have; to plan them takes a few seconds, to train them years."""

_FAULTS_SHOWN = 10
_LONGEST_MESSAGE = 320  # characters, the file's name not counted

Positive = Annotated[int, Field(ge=1, lt=2**31)]
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}"
Name = Annotated[str, Field(pattern=f"^{_NAME}$")]
Initializer = str | dict[str, Any]  # of Keras: a name, or a table with class_name and config
Sharing = Literal["shared", "shared-private", "adversarial"]
Start = Literal["random", "pretrained", "frozen"]


OF_TIMED = frozenset({"batch_size", "embedding_dim", "threads"})
"""The keys of `Training` that runs of timed tasks read."""


def _count(size: Any) -> Any:
    """`"1.5M"` is 1,500,000."""
    written = (
        re.fullmatch(r"(\d{1,12}(?:\.\d{1,12})?)([KM])", size) if isinstance(size, str) else None
    )
    if not written:
        return size
    return round(float(written[1]) * {"K": 1_000, "M": 1_000_000}[written[2]])


def source_name(source: Any) -> Any:
    """Files were GLUE's alone once, and called so."""
    return "files" if source == "glue" else source


Size = Annotated[int, Field(ge=1, lt=2**63), BeforeValidator(_count)]
# What names of methods call some options; "num_layers" becomes "layers".
_SYMBOLS = {"num_steps": "k", "window": "w"}


class Training(BaseModel):
    """How a network is trained; the same for all methods of a suite.

    Attributes:
        source: `"auto"` for files under `--data`, or else what TFDS has prepared; `"files"` or
            `"tfds"` for one of them; `"miniglue"` for the embedded set.
        tokens: `"word"`: lower case, words and punctuation apart; `"wordpiece"`: pieces of words;
            `"text"`: strings, for saved sentence encoders.
        start_token: Whether a token that says nothing stands before each text.
        max_words: Size of the vocabulary, by default every word of the training text, or 8,000
            pieces.
        max_length: Tokens kept of a text, a start token among them, by default all.
        validation: Share of the training rows that stops the training, by default the task's own
            validation rows, or 0.1 where it has none.
        embeddings: `"random"`, or `"glove"` for the file given with `--glove`.
        embedding_dim: Width of the embedding.
        embedding_updates: `"dense"` or `"rows"`, see `relation_tf.optimizers.Adam`.
        embedding_initializer: Keras initializer of the embedding.
        pretrained: A folder that `relation-tf pretrain` has made, looked for where the command is
            called: texts are then read with its vocabulary, and methods start from its encoders as
            their `start` says.
        network: `"benchmark"` or `"plain"`, see `relation_tf.networks`.
        initializer: Keras initializer of the Dense layers and the head.
        hidden_units: Width of the hidden Dense, by default the mechanism's units.
        hidden_activation: Activation after it, `"leaky_relu"`, a Keras name or `"linear"`.
        dropout: Rate, in [0, 1).
        compute: `"readout"` asks the mechanism for the token that is read, `"all"` for all.
        precision: `"float32"`, or `"bfloat16"` to compute in it; weights, probabilities and losses
            are float32 in either.
        xla: Whether XLA compiles the training step. It compiles each shape anew, so texts are then
            padded up to few widths, see `relation_tf.tasks.batches.bucket`.
        optimizer: `"adam"`.
        learning_rate: Step size.
        learning_rate_schedule: `"constant"`, or `"fcsr"` and `"fcsr-compounding"` for the two
            readings of the FCSR paper's equation 16, see `relation_tf.optimizers.FCSRDecay`.
        weight_decay: Decoupled weight decay, by default none.
        adversary_weight: Weight of the loss by which the shared part of a group's network unlearns
            to tell the tasks (`sharing = "adversarial"`).
        orthogonality_weight: Weight of the penalty by which it is to be unlike the private parts.
        batch_size: Rows a batch.
        batching: `"length"` puts rows of like length together, `"random"` any.
        epochs: The most epochs a run may take.
        time_limit: The most seconds that a run may train, looked at after each epoch; by default
            any.
        stopping: `"smoothed"`, `"best"` or `"accuracy_reached"`, see `relation_tf.bench.stopping`.
        patience: Epochs without improvement before a run stops (`"smoothed"` and `"best"`).
        monitor: `"val_loss"`, or `"val_<metric>"` with a metric of each task (these two as well).
        accuracy: What `"accuracy_reached"` is told: `"validation"`, the epoch's own on the
            validation rows, or `"running"`, that of all training and validation rows of all epochs
            so far, as in the Relation paper's program, which never reset it.
        target_accuracy: The accuracy to be above, a fraction.
        target_epochs: In how many consecutive epochs.
        threads: Threads of one operation. The same seed gives the same bits only with the same
            number.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    source: Annotated[SourceName, BeforeValidator(source_name)] = "auto"
    tokens: Literal["word", "wordpiece", "text"] = "word"
    start_token: bool = False
    max_words: Annotated[int, Field(ge=3, lt=2**31)] | None = None
    max_length: Positive | None = None
    validation: Annotated[float, Field(gt=0, lt=1)] | None = None
    embeddings: Literal["random", "glove"] = "random"
    embedding_dim: Positive = 100
    embedding_updates: Literal["dense", "rows"] = "dense"
    embedding_initializer: Initializer = "uniform"
    pretrained: str | None = None
    network: Literal["benchmark", "plain"] = "benchmark"
    initializer: Initializer = "glorot_uniform"
    hidden_units: Positive | None = None
    hidden_activation: str = "leaky_relu"
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.5
    compute: Literal["readout", "all"] = "readout"
    precision: Literal["float32", "bfloat16"] = "float32"
    xla: bool = False
    optimizer: Literal["adam"] = "adam"
    learning_rate: Annotated[float, Field(gt=0)] = 0.001
    learning_rate_schedule: Literal["constant", "fcsr", "fcsr-compounding"] = "constant"
    weight_decay: Annotated[float, Field(gt=0)] | None = None
    adversary_weight: Annotated[float, Field(ge=0)] = 0.05
    orthogonality_weight: Annotated[float, Field(ge=0)] = 0.01
    batch_size: Positive = 256
    batching: Literal["length", "random"] = "length"
    epochs: Positive = 100
    time_limit: Annotated[float, Field(gt=0)] | None = None
    stopping: Literal["smoothed", "best", "accuracy_reached"] = "smoothed"
    patience: Positive = 5
    monitor: Annotated[str, Field(pattern=r"^val_[a-z0-9_]+$")] = "val_loss"
    accuracy: Literal["validation", "running"] = "validation"
    target_accuracy: Annotated[float, Field(gt=0, lt=1)] = 0.8
    target_epochs: Positive = 10
    threads: Positive = 1


class Override(BaseModel):
    """What is other for one task; see `Training`. A key that is not named stays the suite's."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    batch_size: Positive | None = None
    start_token: bool | None = None
    max_words: Annotated[int, Field(ge=3, lt=2**31)] | None = None
    max_length: Positive | None = None
    validation: Annotated[float, Field(gt=0, lt=1)] | None = None
    epochs: Positive | None = None
    time_limit: Annotated[float, Field(gt=0)] | None = None


class Method(BaseModel):
    """A named configuration of a mechanism, or several.

    Attributes:
        mechanism: A name, `"package.module:Name"`, `"saved-model:PATH"`, or a Keras layer class.
        name: What tables call it, by default the mechanism and what varies.
        units: Width, or a list of widths that makes a method of each.
        options: Further arguments of the layer, and `form`.
        grid: Options with a list of values each; every combination makes a method.
        size: Trainable parameters of the network without its embedding, as a number or `"1.5M"`, or
            a list that makes a method of each; `free` is then chosen to come nearest.
        free: What a size leaves open: `"units"`, `"width"` (of embedding and layer) or an option
            that is a number, such as `"rank"`.
        sharing: What the tasks of a group have in common, see
            `relation_tf.networks.multi_task_networks`: `"shared"` all but their heads,
            `"shared-private"` a part beside which each has its own, `"adversarial"` a part that is
            also taught to know no task from another.
        start: Where the suite is `pretrained`, what the method starts from: `"pretrained"`, the
            encoder of its mechanism, which is trained further (the default of `"encoder"`, for
            which alone it is); `"frozen"`, the contextual embeddings of the encoder that was
            pre-trained with this mechanism, which stay as they are (the default of others);
            `"random"`, nothing.

    Example:
        >>> [method.name for method in Method(mechanism="relation", units=[64, 128]).expand()]
        ['relation-64', 'relation-128']
        >>> grid = {"num_steps": [1, 5], "initial_context": ["ones"]}
        >>> [method.name for method in Method(mechanism="contextualizer", grid=grid).expand()]
        ['contextualizer-k1-ones', 'contextualizer-k5-ones']
        >>> [method.name for method in Method(mechanism="transformer", size=["0.5M"]).expand()]
        ['transformer-0.5M']
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    mechanism: str
    name: Name | None = None
    units: Positive | list[Positive] = 64
    options: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    size: Size | Annotated[list[Size], Field(min_length=1)] | None = None
    free: str = "units"
    sharing: Sharing = "shared"
    start: Start | None = None

    @field_validator("mechanism", mode="before")
    @classmethod
    def _name_of_class(cls, mechanism: Any) -> Any:
        if not isinstance(mechanism, type):
            return mechanism
        if "<locals>" in mechanism.__qualname__:
            raise ValueError("a class that can be imported, not one made inside a function")
        return f"{mechanism.__module__}:{mechanism.__qualname__}"

    @field_validator("mechanism")
    @classmethod
    def _is_known(cls, mechanism: str) -> str:
        find_mechanism(mechanism)
        return mechanism

    @field_validator("options", "grid")
    @classmethod
    def _can_be_written(cls, options: dict[str, Any]) -> dict[str, Any]:
        try:
            tomli_w.dumps(options)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"values that TOML can hold ({error})") from error
        return options

    @model_validator(mode="after")
    def _one_thing_for_each(self) -> Self:
        twice = sorted(self.options.keys() & self.grid.keys())
        if twice:
            raise ValueError(f"option {twice[0]!r} is in 'options' and in 'grid'")
        if self.free != "units" and self.size is None:
            raise ValueError(f"'free' is for a 'size'; found free = {self.free!r} and none")
        if self.size is not None and (self.free in self.options or self.free in self.grid):
            raise ValueError(f"option {self.free!r} is set and left free for the size as well")
        return self

    @property
    def count(self) -> int:
        """How many methods `expand` makes."""
        lists = [self.units, self.size, *self.grid.values()]
        return math.prod(len(values) for values in lists if isinstance(values, list))

    def expand(self) -> list[Self]:
        """One method for each width, size and combination of the grid, each with a name."""
        stem = self.name or re.split(r"[:/\\]", self.mechanism.rstrip("/\\"))[-1]
        widths = self.units if isinstance(self.units, list) else [self.units]
        sizes = self.size if isinstance(self.size, list) else [self.size]
        methods = []
        for units, size, values in itertools.product(
            widths, sizes, itertools.product(*self.grid.values())
        ):
            varied = dict(zip(self.grid, values, strict=True))
            parts = [stem]
            if len(widths) > 1 or not (self.name or self.grid or self.size):
                parts.append(str(units))
            if size is not None and (len(sizes) > 1 or not self.name):
                parts.append(_size_name(size))
            parts += [_value_name(option, value) for option, value in varied.items()]
            if self.sharing != "shared" and not self.name:
                parts.append(self.sharing)
            if self.start is not None and not self.name:
                parts.append(self.start)
            update = {
                "name": "-".join(parts),
                "units": units,
                "size": size,
                "options": {**self.options, **varied},
                "grid": {},
            }
            methods.append(self.model_copy(update=update))
        return methods


def _size_name(size: int) -> str:
    return f"{size / 1e6:g}M" if size >= 100_000 else f"{size / 1e3:g}K"


def _value_name(option: str, value: Any) -> str:
    """`num_steps = 5` is `k5`, `num_heads = 2` is `heads2`, and a word stands for itself."""
    if isinstance(value, str):
        return value
    text = "x".join(map(str, value)) if isinstance(value, list) else str(value).lower()
    return _SYMBOLS.get(option, option.removeprefix("num_")) + text


class TableLayout(BaseModel):
    """How a paper lays its table out.

    Attributes:
        rows: What makes a row: `"method"`, `"task"`, `"mechanism"`, `"units"`, `"size"` or options
            of the methods, several of them nested.
        columns: What makes a column, of the same.
        measures: What a cell holds: `"score"`, `"milliseconds a batch"`, `"seconds an epoch"`, and
            with the stopping rule `"accuracy_reached"` `"seconds"`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    rows: Annotated[list[str], Field(min_length=1)] = ["method"]
    columns: Annotated[list[str], Field(min_length=1)] = ["task"]
    measures: Annotated[
        list[Literal["score", "seconds", "seconds an epoch", "milliseconds a batch"]],
        Field(min_length=1),
    ] = ["score"]

    def place(self, method: Method, task: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The row and the column of a method, expanded, on a task."""
        known = {
            "task": task,
            "method": method.name,
            "mechanism": method.mechanism,
            "units": method.units,
            "size": None if method.size is None else _size_name(cast(int, method.size)),
            **method.options,
        }

        def values(keys: Sequence[str]) -> tuple[str, ...]:
            return tuple(_said(known.get(key)) for key in keys)

        return values(self.rows), values(self.columns)


def _said(value: Any) -> str:
    return "–" if value is None else str(value)


class RunConfig(Training):
    """One run: a task, a method, a seed, and how it is trained."""

    task: str
    method: Name
    mechanism: str
    custom_task: CustomTask | None = None
    group: TaskGroup | None = None
    data_digest: str | None = None  # None in runs from before it was kept
    glove_digest: str | None = None
    mechanism_digest: str | None = None  # of the source of a layer of one's own, or a saved model
    units: Positive
    options: dict[str, Any] = Field(default_factory=dict)
    size: Positive | None = None
    free: str = "units"
    sharing: Sharing = "shared"
    start: Start = "random"
    pretrained_digest: str | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31)]

    @property
    def custom_layer(self) -> str | None:
        """What it runs that is not the package's: a layer of one's own, or a saved model."""
        return custom_layer(self.mechanism, self.options)

    @property
    def entry(self) -> Entry:
        """The task as `load_task` takes it."""
        return self.custom_task or self.group or self.task

    @property
    def mixes(self) -> str:
        """What mixes the tokens: the mechanism, or that of the blocks of an encoder."""
        return mixing_mechanism(self.mechanism, self.options)

    @property
    def key(self) -> tuple[str, str, int]:
        """(task, method, seed)."""
        return self.task, self.method, self.seed

    def reading(self) -> dict[str, Any]:
        """How the run's task is read: arguments of `relation_tf.tasks.load_task`."""
        keys = ("source", "tokens", "start_token", "validation", "max_words", "max_length")
        settings = {key: getattr(self, key) for key in keys}
        if self.pretrained is not None:
            settings["vocabulary"] = vocabulary_of(self.pretrained)
        return settings

    def __str__(self) -> str:
        return f"{self.task}/{self.method}/seed-{self.seed}"


class Suite(Training):
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
            `max_words`, `max_length`, `validation`, `epochs` or `time_limit`.
        alpha: The level of the tests.
        control: The method that all others are compared with, by default all are with all; declared
            before the runs, it makes a smaller family of tests, which can show more.
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
    seeds: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)] = [
        1,
        2,
        3,
        4,
        5,
    ]
    method: Annotated[list[Method], Field(min_length=1)]
    overrides: dict[str, Override] = Field(default_factory=dict)
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    control: str | None = None
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
        taken = {name for known in TASK_NAMES for name in (known, *find_task(known).scored)}
        for task in tasks:
            if task.name in taken:
                raise ValueError(f"names that are free, found {task.name!r} twice or the package's")
            taken.add(task.name)
        return tasks

    @model_validator(mode="after")
    def _groups_are_of_tasks(self) -> Self:
        known = [*map(find_task, TASK_NAMES), *(task.task() for task in self.task)]
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
            except DataError as error:
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
            except DataError as error:
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
            if not re.fullmatch(_NAME, str(name)):
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
            "stopping": ("accuracy_reached", "'smoothed' or 'best'"),
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
        for key in (key for key in Training.model_fields if key not in OF_TIMED):
            found = [getattr(self, key)]
            found += [getattr(each, key, None) for each in self.overrides.values()]
            for value in found:
                if value not in (None, Training.model_fields[key].default):
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
            "validation",
            "max_words",
            "max_length",
        )
        for key in of_text if written else ():
            value = getattr(self, key)
            if value != Training.model_fields[key].default:
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
    def _methods_have_a_start(self) -> Self:
        for method in self.methods():
            start, encoder = self._start(method), method.mechanism == "encoder"
            if self.pretrained is None and start != "random":
                raise ValueError(
                    f"key 'start' of method {method.name}: expected 'random', or a folder that the "
                    f"suite has as 'pretrained'. Received: {start!r}"
                )
            if start == "pretrained" and not encoder:
                raise ValueError(
                    f"key 'start' of method {method.name}: expected 'frozen' or 'random' for a "
                    f"mechanism that is not 'encoder'. Received: {method.start!r}"
                )
            if start != "random" and method.size is not None:
                raise ValueError(
                    f"key 'size' of method {method.name}: expected none with start = {start!r}, as "
                    f"what is pre-trained has its own; or start = 'random'. Received: {method.size}"
                )
        return self

    @model_validator(mode="after")
    def _pretrained_is_read_as_it_learned(self) -> Self:
        if self.pretrained is None:
            return self
        expected: dict[str, Any] = {"tokens": "wordpiece", "embeddings": "random"}
        for key, value in {**expected, "start_token": False, "max_words": None}.items():
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
                "max_words": None,
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
        if self.embeddings == "glove" and any(m.size and m.free == "width" for m in self.method):
            raise ValueError(
                "key 'free': word vectors have a width of their own, which a size cannot change. "
                "Received: 'width' with embeddings = 'glove'"
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
        training = {name: getattr(self, name) for name in Training.model_fields}
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
                free=method.free,
                sharing=method.sharing,
                start=self._start(method),
                seed=seed,
            )
            for task in self.tasks
            for method in self.methods()
            for seed in self.seeds
        ]

    def _start(self, method: Method) -> Start:
        if self.pretrained is None:
            return method.start or "random"
        return method.start or ("pretrained" if method.mechanism == "encoder" else "frozen")

    def _override(self, task: str) -> dict[str, Any]:
        override = self.overrides.get(task)
        return override.model_dump(exclude_none=True) if override else {}

    def setting(self, task: str, key: str) -> Any:
        """A key of `Training` as it is for a task."""
        return self._override(task).get(key, getattr(self, key))

    def to_toml(self) -> str:
        """The suite as a TOML file."""
        return tomli_w.dumps(self.model_dump(exclude_none=True))


def vocabulary_of(pretrained: str | Path) -> Path:
    """The file of the vocabulary in a folder of pre-training."""
    return Path(pretrained).expanduser() / "vocabulary.json"


def higher_is_better(monitor: str, task: str, metrics: Sequence[str]) -> bool:
    """Whether a higher value of what is monitored is better.

    Args:
        monitor: As in `Training`.
        task: The name of the task, for the message.
        metrics: The metrics of the task.

    Raises:
        ValueError: Where the task has no such metric.
    """
    if monitor == "val_loss":
        return False
    if monitor.removeprefix("val_") not in metrics:
        allowed = " or ".join(f"'val_{name}'" for name in ("loss", *metrics))
        raise ValueError(f"key 'monitor': expected {allowed} for {task}. Received: {monitor!r}")
    return True


def list_suites() -> list[str]:
    """The names of the suites that come with the package."""
    files = resources.files("relation_tf.suites").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def load_suite(suite: str | Path | Suite, settings: Mapping[str, Any] | None = None) -> Suite:
    """Find a suite by its name or file, or take one that is made.

    Args:
        suite: A name of `list_suites()`, a TOML file, or a `Suite`.
        settings: Keys to set over what the suite says.

    Raises:
        SuiteError: For a suite that is not there or not right.

    Example:
        >>> load_suite("demo").name
        'demo'
    """
    if isinstance(suite, Suite):
        values = suite.model_dump()
        _set(values, settings or {})
        return make_suite("suite", values)
    if suite in list_suites():
        path = resources.files("relation_tf.suites") / f"{suite}.toml"
        where, text = f"suite {suite}", path.read_text(encoding="utf-8")
    elif str(suite).endswith(".toml"):
        where = str(suite)
        try:
            text = Path(suite).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SuiteError(f"{suite}: cannot be read: {reason}") from error
    else:
        near = difflib.get_close_matches(str(suite), list_suites(), n=1)
        known = ", ".join(list_suites())
        raise SuiteError(
            f"unknown suite {str(suite)!r}: expected one of {known}, or a TOML file"
            + (f". Did you mean {near[0]!r}?" if near else "")
        )
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SuiteError(f"{where}: not TOML: {_shortened(str(error))}") from error
    _set(values, settings or {})
    if where == str(suite):
        with contextlib.suppress(OSError, ValueError):  # of names that no file can have
            beside = Path(where).parent / str(values.get("published"))
            if beside.is_file():
                values["published"] = str(beside)
    return make_suite(where, values)


def _set(values: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Set keys over what a suite says, for its single tasks too: what is asked last holds."""
    values |= settings
    overrides = values.get("overrides")
    if "overrides" not in settings and isinstance(overrides, dict):
        values["overrides"] = {
            task: {key: value for key, value in own.items() if key not in settings}
            if isinstance(own, dict)
            else own
            for task, own in overrides.items()
        }


def make_suite(where: str, values: Mapping[str, Any]) -> Suite:
    """Check values and make the suite.

    Raises:
        SuiteError: One line for each fault: the key, the value, what is allowed.
    """
    try:
        return Suite.model_validate(dict(values))
    except ValidationError as error:
        faults = [*dict.fromkeys(_shortened(_fault(fault)) for fault in error.errors())]
        more = len(faults) - _FAULTS_SHOWN
        shown = faults[:_FAULTS_SHOWN] + ([f"and {more:,} more faults"] if more > 0 else [])
        raise SuiteError("\n".join(f"{where}: {fault}" for fault in shown)) from error


def select(
    suite: Suite,
    tasks: str | Iterable[str] | None = None,
    methods: str | Iterable[str] | None = None,
    seeds: int | Iterable[int] | None = None,
) -> list[RunConfig]:
    """The runs of some tasks, methods and seeds.

    Raises:
        SuiteError: For a name or seed that the suite does not have.
    """
    runs = suite.runs()
    for key, chosen in (("task", tasks), ("method", methods), ("seed", seeds)):
        if chosen is None:
            continue
        there = list(dict.fromkeys(getattr(run, key) for run in runs))
        wanted = [chosen] if isinstance(chosen, str | int) else list(chosen)
        for value in wanted:
            if value not in there:
                expected = ", ".join(map(str, there))
                by_lower = {str(each).lower(): each for each in there}
                near = difflib.get_close_matches(str(value).lower(), by_lower, n=1)
                more = f". Did you mean {by_lower[near[0]]!r}?" if near else ""
                if key == "seed":
                    more = "; --set seeds=N asks for N"
                raise SuiteError(
                    f"suite {suite.name}: unknown {key} {value!r}: expected one of {expected}{more}"
                )
        runs = [run for run in runs if getattr(run, key) in wanted]
    return runs


def _fault(fault: Any) -> str:
    """One line for one error of pydantic's."""
    keys = list(fault["loc"])
    if fault["type"] == "extra_forbidden":
        known = _known_keys(keys)
        near = difflib.get_close_matches(str(keys[-1]), known, n=1, cutoff=0.5)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {join_names(known)}"
        return f"unknown key {quote(_dotted(keys))}. {hint}"
    # Of a union pydantic names each member, as in "list[...]" or "function-before[...]".
    keys = [
        part
        for part in keys
        if not re.search(r"[\[(]|^(constrained-int|str|CustomTask)$", str(part))
    ]
    path = _dotted(keys)
    if fault["type"] == "missing":
        return f"key {path!r} is missing"
    message = fault["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if fault["loc"][2:3] == ("size",):
        message = "a number of parameters, such as 500_000, '50K' or '1.5M', or a list of them"
    if fault["type"] == "string_pattern_mismatch" and keys[-1:] == ["name"]:
        message = "a name of at most 80 letters, digits, '.', '_' and '-'"
    if fault["type"] == "list_type" and path in ("method", "task", "group"):
        message = f"[[{path}]] tables, in double brackets"
    if not path:
        return message
    if fault["type"] == "value_error" and keys[0] in ("task", "method") and len(keys) == 2:
        return f"key {path!r}: {message}"
    if message.startswith("unknown"):
        return f"key {path!r}: {message}"
    return f"key {path!r}: expected {message}. Received: {_received(fault['input'])}"


def first_fault(error: ValidationError) -> str:
    """One line for the first fault that pydantic found."""
    return _shortened(_fault(error.errors()[0]))


def _dotted(keys: Iterable[Any]) -> str:
    """Keys one within the other, as TOML writes them; those of lists are counted from 1."""
    return ".".join(str(part + 1) if isinstance(part, int) else str(part) for part in keys)


def _received(value: Any) -> str:
    """A value for a message."""
    try:
        text = repr(value)
    except ValueError:  # of more digits than Python writes
        return "a number of too many digits"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _shortened(message: str) -> str:
    """A message without its middle, where it is long: what matters stands at its ends."""
    message = " ".join(message.splitlines())
    if len(message) <= _LONGEST_MESSAGE:
        return message
    return f"{message[: _LONGEST_MESSAGE - 120]} ... {message[-110:]}"


def _known_keys(keys: Sequence[Any]) -> list[str]:
    """The keys that may stand where this one stood."""
    if len(keys) == 1:
        return list(Suite.model_fields)
    parts = {
        "method": Method.model_fields,
        "task": CustomTask.model_fields,
        "group": TaskGroup.model_fields,
        "overrides": Override.model_fields,
    }
    return list(parts.get(str(keys[0]), {}))
