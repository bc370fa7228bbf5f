"""Rules between the keys of a suite; each yields one line per fault. Does not import Keras."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from relation_tf.config.families import families_of, faults
from relation_tf.config.method import OPTIONS, Method, is_of_method, tuned_method, value_of
from relation_tf.config.run import OF_TIMED, TRANSFERRED, TrainingSettings
from relation_tf.errors import DataError, UnknownNameError, did_you_mean, join_names
from relation_tf.networks.mechanisms import find_mechanism
from relation_tf.registry import METRICS, PROCEDURES, SOURCES, STOPPING_RULES, TASKS
from relation_tf.tasks.catalogue import find_task
from relation_tf.tasks.custom import NAME_PATTERN
from relation_tf.tasks.task import Task

if TYPE_CHECKING:
    from relation_tf.config.suite import Suite

MAX_RUNS = 100_000
"""Maximum number of runs of a suite."""

Allowed = Mapping[str, Sequence[Any]]
"""Allowed values by key; without values, only other kinds of values are allowed."""


def broken_rules(suite: Suite) -> Iterator[str]:
    """Yield what is wrong with the keys of a suite, each with the value and the allowed values.

    Only the first one counts: later rules expect that earlier ones are followed.
    """
    yield from _repeats(suite)
    yield from _declared_tasks(suite)
    yield from _listed_tasks(suite)
    runs = len(suite.tasks) * len(suite.seeds) * sum(method.count for method in suite.method)
    if runs > MAX_RUNS:
        yield (
            f"there must be at most {MAX_RUNS:,} runs (tasks x methods x seeds). "
            f"Received: {f'{runs:,}' if runs < 10**15 else 'more than 10^15'}"
        )
    yield from _names_of_methods(suite)
    facts = _Facts(suite)
    named = (_judges, _overrides, _kinds_of_tasks, _settings_of_tasks, _tuned, _families)
    for rule in named:
        yield from rule(facts)
    for method in facts.methods:
        for because, keys in _rules(facts, method):
            yield from _other_values(suite, method, because, keys)
    yield from _judges_of_families(facts)
    yield from _sweep(facts)


class _Facts:
    """Facts about a suite for the rules; a kind of task is its first name, or None."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.methods = suite.methods()
        self.names = [str(method.name) for method in self.methods]
        self.tasks = {name: suite.find_task(name) for name in suite.tasks}
        self.learned = suite.learned()
        self.group = _first(self.tasks.values(), lambda task: task.members)
        self.untransferable = _first(self.tasks.values(), lambda task: not _can_transfer(task))
        self.alone = _first(self.tasks.values(), lambda task: not task.members)
        self.timed = _first(self.learned, lambda task: task.timed)
        self.written = _first(self.learned, lambda task: task.written)
        self.classified = _first(self.learned, lambda task: not task.written)
        self.token_labels = _first(self.learned, lambda task: task.token_labels)
        self.unclassified = _first(self.learned, lambda task: not task.labels)
        self.stopping = STOPPING_RULES[suite.stopping]
        self.swept = {} if suite.sweep is None else suite.sweep.values
        keys = {"task", "method", "mechanism", "units", "size"}
        keys |= {option for method in self.methods for option in method.options}
        # The tuned value depends on the task.
        self.keys = keys - {key.removeprefix(OPTIONS) for key in self.swept}
        self._fields = {**Method.model_fields, **type(suite).model_fields}

    def default(self, *keys: str) -> Allowed:
        """Allow only the default values of these keys."""
        return {key: (self._fields[key].get_default(call_default_factory=True),) for key in keys}


def _first(tasks: Iterable[Task], has: Callable[[Task], object]) -> str | None:
    return next((task.name for task in tasks if has(task)), None)


def _can_transfer(task: Task) -> bool:
    """Return False for a group of two tasks, of texts and pairs, or with unlabelled test rows."""
    forms = {len(member.inputs) for member in task.members}
    return not task.members or (len(task.members) > 2 and len(forms) == 1 and not task.answered)


def _fault(key: str, must: str, value: Any, known: Sequence[str] = ()) -> str:
    hint = did_you_mean(value, known)
    return f"key {key!r}: must {must}. Received: {value!r:.80}{hint and f'.{hint}'}"


def _unknown(key: str, value: str, known: Sequence[str], expected: str) -> Iterator[str]:
    """Yield a fault if a value is not one of the known names."""
    if value not in known:
        yield _fault(key, f"be {expected}", value, known)


def _repeats(suite: Suite) -> Iterator[str]:
    for key in ("tasks", "seeds"):
        values = getattr(suite, key)
        if repeated := [value for value, times in Counter(values).items() if times > 1]:
            must = f"be a list without repeated values; {min(repeated)!r} occurs more than once"
            yield _fault(key, must, values)
    for (task, method), times in Counter(
        (choice.task, choice.method) for choice in suite.tuned
    ).items():
        if times > 1:
            must = "be one entry per task and method"
            yield f"key 'tuned': must {must}. Received: {times} for {method} on {task}"


# Names.


def _declared_tasks(suite: Suite) -> Iterator[str]:
    known = map(find_task, TASKS)
    taken = {name for task in known for name in (task.name, *task.scored, *task.answered)}
    for key, entries in (("task", suite.task), ("group", suite.group)):
        for name in (entry.name for entry in entries):
            if name in taken:
                must = f"be a new name. Received: {name!r}, the name of another task"
                yield f"key {key!r}: must {must}"
            taken.add(name)


def _listed_tasks(suite: Suite) -> Iterator[str]:
    groups = {group.name for group in suite.group}
    members = [("group", name) for group in suite.group for name in group.tasks]
    for key, name in [*members, *(("tasks", task) for task in suite.tasks)]:
        if not isinstance(name, str) or (key == "group" and name in groups):
            yield f"key 'group': must be names of tasks. Received: {name!r:.80}"
        else:
            try:
                suite.find_task(name)
            except (UnknownNameError, DataError) as error:
                hint = did_you_mean(name, [*groups, *(task.name for task in suite.task)])
                fault = f"unknown task {name!r:.80}.{hint}" if hint else str(error)
                yield f"key {key!r}: {fault}"
    scored = [name for task in suite.tasks for name in suite.find_task(task).scored]
    if twice := _repeated(scored) or _repeated(suite.tasks):
        by = [name for name in dict.fromkeys(suite.tasks) if twice in suite.find_task(name).scored]
        of = f", a score of {join_names(by, ' and ')}" if len(by) > 1 else ""
        yield (
            "key 'tasks': each task must occur once, alone or in one group, and names must differ "
            f"in more than case. Received: {twice!r} more than once{of}"
        )


def _names_of_methods(suite: Suite) -> Iterator[str]:
    names = [str(method.name) for method in suite.methods()]
    for name in names:
        if not re.fullmatch(NAME_PATTERN, name):
            yield (
                f"method {name!r} cannot be a folder name: set 'name' to letters, digits, '.', '_' "
                "and '-'"
            )
    if twice := _repeated(names):
        yield f"two methods are called {twice!r}: give them names that differ in more than case"


def _repeated(names: Sequence[str]) -> str | None:
    """Return a name that occurs twice; folders of names can ignore case."""
    times = Counter(name.lower() for name in names)
    return min((name for name in names if times[name.lower()] > 1), default=None)


def _judges(facts: _Facts) -> Iterator[str]:
    suite, names = facts.suite, facts.names
    if suite.lower_bound is not None:
        expected = f"a method of the suite: {join_names(names)}"
        yield from _unknown("lower_bound", suite.lower_bound, names, expected)
        names = [name for name in names if name != suite.lower_bound]
    for key in ("control", "reference"):
        name = getattr(suite, key)
        if name is not None and suite.families is None:
            yield from _unknown(key, name, names, f"a method of the suite: {join_names(names)}")


def _overrides(facts: _Facts) -> Iterator[str]:
    tasks = facts.suite.tasks
    sequences = [name for name, metric in METRICS.items() if metric.target == "sequences"]
    for task, override in facts.suite.overrides.items():
        yield from _unknown("overrides", task, tasks, f"a task of the suite: {', '.join(tasks)}")
        allowed = sequences if facts.tasks[task].written else []
        expected = " or ".join(map(repr, allowed)) or f"left out: {task} is not a sequence task"
        for metric in override.metrics or ():
            yield from _unknown(f"overrides.{task}.metrics", metric, allowed, expected)


def _kinds_of_tasks(facts: _Facts) -> Iterator[str]:
    source = facts.suite.source
    kind = next((task.timed for task in facts.learned if task.timed), None)
    alike = [task.name for task in facts.learned if task.timed == kind]
    for learned in facts.learned:
        if only := SOURCES[source].tasks:
            expected = f"one of {', '.join(only)} with source = {source!r}"
            yield from _unknown("tasks", learned.name, only, expected)
        if facts.timed:
            expected = f"timed tasks of one kind only, such as {facts.timed}"
            yield from _unknown("tasks", learned.name, alike, expected)


def _settings_of_tasks(facts: _Facts) -> Iterator[str]:
    suite = facts.suite
    for name, task in facts.tasks.items():
        longest = suite.setting(name, "max_length")
        if "learned" in (suite.positions, *facts.swept.get("positions", ())) and not longest:
            yield _fault("max_length", f"be set for {name} with positions = 'learned'", longest)
        if suite.setting(name, "start_token") and longest == 1:
            yield _fault("max_length", f"be 2 or more for {name}, because start_token counts", 1)
        monitors = ["val_loss", *(f"val_{metric}" for metric in task.metrics)]
        expected = f"{' or '.join(map(repr, monitors))} for {name}"
        yield from _unknown("monitor", suite.monitor, monitors, expected)
        if "split" in suite.vary and suite.setting(name, "validation_split") is None:
            for member in (member for member in task.each() if member.validation is not None):
                must = (
                    f"be 'init' or 'order' for {member.name}, whose validation rows are fixed, "
                    "unless 'validation_split' is set"
                )
                yield _fault("vary", must, "split")
        for metric in facts.stopping.metrics:
            if metric not in task.metrics:
                must = f"be tasks with the metric {metric!r} for stopping = {suite.stopping!r}"
                yield _fault("tasks", must, name)
    for name in suite.stopping_options.keys() & facts.stopping.keys:
        yield _fault("stopping_options", f"be options without {name!r}. Set the key {name!r}", name)


def _tuned(facts: _Facts) -> Iterator[str]:
    tasks, swept = facts.suite.tasks, [*facts.swept]
    for choice in facts.suite.tuned:
        yield from _unknown("tuned", choice.task, tasks, f"a task of the suite: {', '.join(tasks)}")
        expected = f"a method of the suite: {join_names(facts.names)}"
        yield from _unknown("tuned", choice.method, facts.names, expected)
        for key in choice.settings if swept else ():
            yield from _unknown("tuned", key, swept, f"settings of the sweep: {join_names(swept)}")
        method = facts.methods[facts.names.index(choice.method)]
        try:
            tuned_method(method, choice.settings)
        except ValueError as error:
            yield f"key 'tuned': {error} (method {method.name})"


def _families(facts: _Facts) -> Iterator[str]:
    families = facts.suite.families
    if isinstance(families, str):
        shared = sorted(facts.keys - {"task", "method"})
        expected = f"one of {join_names(shared)}, or lists of methods"
        yield from _unknown("families", families, shared, expected)
        return
    for name in chain.from_iterable(families or ()):
        expected = f"lists of methods: {join_names(facts.names)}"
        yield from _unknown("families", name, facts.names, expected)


# Keys that restrict others.


def _other_values(suite: Suite, method: Method, because: str, keys: Allowed) -> Iterator[str]:
    """Yield a fault for each key whose value is not allowed."""
    for key, allowed in keys.items():
        is_of_method = key in method.overrides or key not in TrainingSettings.model_fields
        of = f" of method {method.name}" if is_of_method and key in Method.model_fields else ""
        for value in _values(suite, method, key):
            if value not in allowed:
                must = f"{_in_words(allowed)} {because}"
                yield f"key {key!r}{of}: must {must}. Received: {value!r:.80}"


def _values(suite: Suite, method: Method, key: str) -> list[Any]:
    """Return the values of a key for a method on all tasks."""
    if key in TrainingSettings.model_fields:
        return [suite.settings_of(method, task)[key] for task in suite.tasks]
    if key in Method.model_fields:
        return [getattr(method, key)]
    others = (getattr(override, key, None) for override in suite.overrides.values())
    return [getattr(suite, key), *(other for other in others if other is not None)]


def _in_words(values: Sequence[Any]) -> str:
    """Return the allowed values after "must", such as "not be set"; "be" if there are none."""
    shown = " or ".join(
        str(value).lower() if isinstance(value, bool) else repr(value)
        for value in values
        if value not in (None, [], {})
    )
    unset = any(value in (None, [], {}) for value in values)
    if unset and not shown:
        return "not be set"
    return f"be {shown}{' or not set' if unset else ''}".strip()


def _rules(facts: _Facts, method: Method) -> Iterator[tuple[str, Allowed]]:
    """Yield the rules that apply to a method: the reason, and the allowed values of some keys."""
    suite, entry, default = facts.suite, find_mechanism(method.mechanism), facts.default
    if facts.group:
        about = f"for the group {facts.group}"
        yield about, default("xla", "pretrained", "size")
        if facts.stopping.metrics:
            yield f"a rule without required metrics {about}", {"stopping": ()}
    if facts.alone:
        yield f"for {facts.alone}, which is not a group", default("sharing")
    if facts.untransferable:
        needs = "three or more tasks with equal numbers of texts and labelled test rows"
        because = f"for the group {facts.untransferable}: a transfer needs {needs}"
        yield because, {"sharing": ("shared", "shared-private", "adversarial")}
    if method.sharing in TRANSFERRED:
        because = f"with sharing = {method.sharing!r}, whose runs train several networks"
        yield because, default("callbacks", "time_limit", "save_models", "sweep")
    if suite.network == "plain":
        because = "with network = 'plain', which has no hidden layer"
        yield because, default("hidden_units", "hidden_activation")
    if facts.timed:
        because = f"for {facts.timed}, which is timed and not trained"
        others = [key for key in TrainingSettings.model_fields if key not in OF_TIMED]
        yield because, default("sweep", "save_models", "group", "size", *others)
    if facts.written:
        yield f"for {facts.written}, whose characters are generated", default(
            "xla", "embeddings", "tokens", "start_token", "validation_split", "vocabulary",
            "vocabulary_size", "max_length", "pretrained", "positions", "segments",
            "short_convolution", "network", "embedding_dim", "embedding_initializer",
            "initializer", "hidden_units", "hidden_activation", "compute", "group",
        )  # fmt: skip
    if facts.token_labels:
        yield f"for {facts.token_labels}, a token classification task", default(
            "embeddings", "tokens", "start_token", "validation_split", "vocabulary",
            "vocabulary_size", "pretrained", "segments", "compute", "group",
        )  # fmt: skip
        if suite.positions != "learned":
            because = "whose texts have a fixed length, unless positions = 'learned'"
            yield f"for {facts.token_labels}, {because}", default("max_length")
        if entry.output_type != "tokens":
            yield f"a mechanism that returns tokens for {facts.token_labels}", {"mechanism": ()}
    if entry.output_type == "sequence":
        if facts.classified:
            because = f"a mechanism other than an encoder-decoder for {facts.classified}"
            yield because, {"mechanism": ()}
        yield "for an encoder-decoder", default("size")
    elif facts.written:
        yield f"an encoder-decoder for {facts.written}", {"mechanism": ()}
    if facts.unclassified:
        because = f"for {facts.unclassified}, which has no classes"
        yield because, default("feature_projection")
    if method.sharing != "shared":
        yield f"with sharing = {method.sharing!r}", default("feature_projection")
    if suite.pretrained:
        keys = ("embeddings", "start_token", "vocabulary", "vocabulary_size", "positions",
                "segments", "short_convolution", "feature_projection")  # fmt: skip
        because = "with 'pretrained', which has its own vocabulary and embedding"
        yield because, {"tokens": ("wordpiece",), **default(*keys)}
    else:
        because = "in a suite without 'pretrained'"
        yield because, {"encoder_weights": (None, "random")}
    if not entry.pretrainable:
        because = "for a mechanism that cannot start from a pre-trained encoder"
        yield because, {"encoder_weights": (None, "frozen", "random")}
    if (weights := suite.encoder_weights(method)) != "random":
        because = "because the pre-trained encoder has a fixed size"
        yield f"with encoder_weights = {weights!r}, {because}", default("size")
    settings = suite.settings_of(method)
    if settings["embeddings"] == "glove" and method.size and method.sized_by == "width":
        because = "other than 'width' with embeddings = 'glove', because word vectors have a width"
        yield because, {"sized_by": ()}
    if facts.stopping.target is not None:
        because = "a sweep compares validation scores, not times"
        yield f"with stopping = {suite.stopping!r}: {because}", default("sweep")
    yield from _rules_of_tests(suite)
    if suite.margin is None:
        yield "in the overrides of a suite without 'margin'", default("margin")
    elif suite.reference is None and suite.control is None:
        yield "in a suite without 'reference' or 'control'", default("margin")


def _rules_of_tests(suite: Suite) -> Iterator[tuple[str, Allowed]]:
    for key, unit in (("test", "seed"), ("test_over_tasks", "task")):
        if (name := getattr(suite, key)) is None:
            continue
        if PROCEDURES[name].unit != unit:
            yield f"a test over {unit}s", {key: ()}
        elif not PROCEDURES[name].against_control:
            yield f"with {key} = {name!r}, which compares all pairs", {"control": (None,)}
        elif suite.control is None:
            because = f"a method of the suite with {key} = {name!r}, which compares with it"
            yield because, {"control": ()}


# Parts of the suite that cover all methods.


def _judges_of_families(facts: _Facts) -> Iterator[str]:
    families = families_of(facts.suite)
    if facts.suite.families is not None:
        names = [name for name in facts.names if name != facts.suite.lower_bound]
        yield from (f"key 'families': {fault}" for fault in faults(families, names))
    for family in families:
        for key in ("control", "reference"):
            name = getattr(facts.suite, key)
            if name is not None and getattr(family, key) is None:
                known = {*facts.names, *(method.mechanism for method in facts.methods)}
                yield (
                    f"key {key!r}: must be a method of each family, or the mechanism of one. "
                    f"Received: {name!r}, not in {family.name}.{did_you_mean(name, known)}"
                )


def _sweep(facts: _Facts) -> Iterator[str]:
    suite, sweep, methods = facts.suite, facts.suite.sweep, facts.methods
    if sweep is None:
        return
    for group in (task for task in facts.tasks.values() if task.members and not task.metrics):
        yield (
            f"key 'sweep': the tasks of group {group.name} must have a common metric, by which "
            f"settings are chosen. Received: {', '.join(member.name for member in group.members)}"
        )
    if both := {*sweep.seeds} & {*suite.seeds}:
        must = "must differ from the seeds of the suite"
        yield f"key 'sweep.seeds': {must}. Received: {min(both)} in both"
    if transfers := {*sweep.values.get("sharing", ())} & {*TRANSFERRED}:
        yield (
            f"key 'sweep.sharing': must not contain {min(transfers)!r}, whose runs train several "
            "networks"
        )
    for key, values in sweep.values.items():
        for method in methods if is_of_method(key) else ():
            yield from _sweep_of_method(method, key, values)
        for place, override in suite.overrides.items():
            if (value := getattr(override, key, None)) is not None:
                yield _fault(f"overrides.{place}.{key}", _not_with_sweep(key), value)


def _not_with_sweep(key: str) -> str:
    return f"not be set with sweep.{key}, which tunes it"


def _sweep_of_method(method: Method, key: str, values: Sequence[Any]) -> Iterator[str]:
    """Yield a fault for a key of a sweep that a method sets or cannot have."""
    if (fixed := value_of(method, key)) is not None:
        yield (
            f"key {key!r} of method {method.name}: must {_not_with_sweep(key)}. "
            f"Received: {fixed!r:.80}"
        )
    if key == "units" and method.size is not None and method.sized_by in ("units", "width"):
        yield (
            f"key 'size' of method {method.name}: must not be set with sweep.units, because the "
            f"size determines the units. Received: {method.size}"
        )
    for value in values:
        try:
            tuned_method(method, {key: value})
        except ValueError as error:
            yield f"key 'sweep.{key}': {error} (method {method.name})"
