"""Rules on the names in a suite: new names, and names that must be known. Does not import Keras."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from relation_tf.config.facts import SuiteFacts
from relation_tf.config.method import NAME_PATTERN
from relation_tf.config.sweep import tuned_method
from relation_tf.errors import DataError, UnknownNameError, did_you_mean, join_names
from relation_tf.registry import METRICS, SOURCES, STOPPING_RULES, TASKS
from relation_tf.tasks.catalogue import find_task
from relation_tf.tasks.diagnostics.presets import find_diagnostic
from relation_tf.tasks.task import Task

if TYPE_CHECKING:
    from relation_tf.config.suite import Suite


def check_new_names(suite: Suite, max_runs: int) -> None:
    """Check the names that a suite declares or lists, and the number of its runs.

    Args:
        suite: The suite.
        max_runs: Maximum number of runs.

    Raises:
        ValueError: For the first fault, with the key, the value and the allowed values.
    """
    _check_declared_tasks(suite)
    _check_listed_tasks(suite)
    runs = len(suite.tasks) * len(suite.seeds) * sum(method.count for method in suite.method)
    if runs > max_runs:
        raise ValueError(
            f"there must be at most {max_runs:,} runs (tasks x methods x seeds). "
            f"Received: {f'{runs:,}' if runs < 10**15 else 'more than 10^15'}"
        )
    _check_methods([str(method.name) for method in suite.methods()])


def _check_declared_tasks(suite: Suite) -> None:
    known = map(find_task, TASKS)
    taken = {name for task in known for name in (task.name, *task.scored, *task.answered)}
    groups = [("group", group.name) for group in suite.group]
    for key, name in [*(("task", task.name) for task in suite.task), *groups]:
        if name in taken or _has_sizes(name):
            raise ValueError(
                f"key {key!r}: must be a new name. Received: {name!r}, the name of another task"
            )
        taken.add(name)


def _has_sizes(name: str) -> bool:
    """Return True for names like those of diagnostic tasks with sizes."""
    try:
        return find_diagnostic(name) is not None
    except DataError:
        return True


def _check_listed_tasks(suite: Suite) -> None:
    members = [each for group in suite.group for each in group.tasks]
    for each in members:
        if not isinstance(each, str):
            raise ValueError(
                f"key 'group': must be names of tasks; declare {each.name!r} as [[task]]"
            )
    groups = {group.name for group in suite.group}
    for key, name in chain(
        (("group", str(m)) for m in members), (("tasks", t) for t in suite.tasks)
    ):
        if key == "group" and name in groups:
            raise ValueError(f"key 'group': must be names of tasks. Received: {name!r:.80}")
        try:
            suite.find_task(name)
        except UnknownNameError as error:
            own = [*groups, *(task.name for task in suite.task)]
            if hint := did_you_mean(name, own):
                raise ValueError(f"key {key!r}: unknown task {name!r:.80}.{hint}") from error
            raise ValueError(f"key {key!r}: {error}") from error
        except DataError as error:
            raise ValueError(f"key {key!r}: {error}") from error
    scored = [name for task in suite.tasks for name in suite.find_task(task).scored]
    if twice := _repeated(scored) or _repeated(suite.tasks):
        by = [name for name in dict.fromkeys(suite.tasks) if twice in suite.find_task(name).scored]
        of = f", a score of {join_names(by, ' and ')}" if len(by) > 1 else ""
        raise ValueError(
            "key 'tasks': each task must occur once, alone or in one group, and names must differ "
            f"in more than case. Received: {twice!r} more than once{of}"
        )


def _check_methods(names: Sequence[str]) -> None:
    for name in names:
        if not re.fullmatch(NAME_PATTERN, name):
            raise ValueError(
                f"method {name!r} cannot be a folder name: set 'name' to letters, digits, '.', '_' "
                "and '-'"
            )
    if twice := _repeated(names):
        raise ValueError(
            f"two methods are called {twice!r}: give them names that differ in more than case"
        )


def _repeated(names: Iterable[str]) -> str | None:
    """Return a name that occurs twice; folders of names can ignore case."""
    names = [*names]
    times = Counter(name.lower() for name in names)
    return min((name for name in names if times[name.lower()] > 1), default=None)


class _Fault(NamedTuple):
    key: str
    value: Any
    expected: str
    known: Sequence[str] = ()


def check_named_values(facts: SuiteFacts) -> None:
    """Check the keys whose values are names, such as those of methods, tasks and metrics.

    Args:
        facts: Facts about the suite.

    Raises:
        ValueError: For the first fault, with the key, the value and the allowed values.
    """
    tasks = (_of_task(facts, name, entry) for name, entry in facts.tasks.items())
    faults = chain(
        _judges(facts), _overrides(facts), _kinds_of_tasks(facts), *tasks, _stopping(facts),
        _tuned(facts), _families(facts), _layout(facts),
    )  # fmt: skip
    for key, value, expected, known in faults:
        hint = did_you_mean(value, known)
        raise ValueError(
            f"key {key!r}: must be {expected}. Received: {value!r:.80}{hint and f'.{hint}'}"
        )


def _unknown(key: str, value: str, known: Sequence[str], expected: str) -> Iterator[_Fault]:
    """Yield a fault if a value is not one of the known names."""
    if value not in known:
        yield _Fault(key, value, expected, known)


def _judges(facts: SuiteFacts) -> Iterator[_Fault]:
    for key in ("control", "reference"):
        name = getattr(facts.suite, key)
        if name is not None and facts.suite.families is None:
            expected = f"a method of the suite: {join_names(facts.names)}"
            yield from _unknown(key, name, facts.names, expected)


def _overrides(facts: SuiteFacts) -> Iterator[_Fault]:
    tasks = facts.suite.tasks
    sequences = [name for name, metric in METRICS.items() if metric.target == "sequences"]
    for task, own in facts.suite.overrides.items():
        expected = f"a task of the suite: {', '.join(tasks)}"
        yield from _unknown("overrides", task, tasks, expected)
        allowed = sequences if facts.tasks[task].written else []
        expected = " or ".join(map(repr, allowed)) or f"left out: {task} is not a sequence task"
        for metric in own.metrics or ():
            yield from _unknown(f"overrides.{task}.metrics", metric, allowed, expected)


def _kinds_of_tasks(facts: SuiteFacts) -> Iterator[_Fault]:
    source = facts.suite.source
    for each in facts.learned:
        if only := SOURCES[source].tasks:
            expected = f"one of {', '.join(only)} with source = {source!r}"
            yield from _unknown("tasks", each.name, only, expected)
        if facts.timed:
            expected = f"timed tasks of one kind only, such as {facts.timed}"
            yield from _unknown("tasks", each.name, facts.timed_alike, expected)


def _of_task(facts: SuiteFacts, name: str, entry: Task) -> Iterator[_Fault]:
    suite = facts.suite
    swept = suite.sweep.values.get("positions", ()) if suite.sweep else ()
    longest = suite.setting(name, "max_length")
    if "learned" in (suite.positions, *swept) and not longest:
        yield _Fault("max_length", longest, f"set for {name} with positions = 'learned'")
    if suite.setting(name, "start_token") and longest == 1:
        yield _Fault("max_length", 1, f"2 or more for {name}, because start_token counts")
    monitors = ["val_loss", *(f"val_{metric}" for metric in entry.metrics)]
    expected = f"{' or '.join(map(repr, monitors))} for {name}"
    yield from _unknown("monitor", suite.monitor, monitors, expected)
    if "split" in suite.vary and suite.setting(name, "validation_split") is None:
        for each in (each for each in entry.each() if each.validation is not None):
            expected = (
                f"'init' or 'order' for {each.name}, whose validation rows are fixed, unless "
                "'validation_split' is set"
            )
            yield _Fault("vary", "split", expected)
    for metric in facts.needs:
        if metric not in entry.metrics:
            expected = f"tasks with the metric {metric!r} for stopping = {suite.stopping!r}"
            yield _Fault("tasks", name, expected)


def _stopping(facts: SuiteFacts) -> Iterator[_Fault]:
    suite = facts.suite
    for name in suite.stopping_options.keys() & STOPPING_RULES.find(suite.stopping).keys:
        yield _Fault("stopping_options", name, f"options without {name!r}. Set the key {name!r}")


def _tuned(facts: SuiteFacts) -> Iterator[_Fault]:
    suite = facts.suite
    swept = [] if suite.sweep is None else [*suite.sweep.values]
    for choice in suite.tuned:
        expected = f"a task of the suite: {', '.join(suite.tasks)}"
        yield from _unknown("tuned", choice.task, suite.tasks, expected)
        expected = f"a method of the suite: {join_names(facts.names)}"
        yield from _unknown("tuned", choice.method, facts.names, expected)
        for key in choice.settings if swept else ():
            yield from _unknown("tuned", key, swept, f"settings of the sweep: {join_names(swept)}")
        method = facts.methods[facts.names.index(choice.method)]
        try:
            tuned_method(method, choice.settings)
        except ValueError as error:
            raise ValueError(f"key 'tuned': {error} (method {method.name})") from error


def _families(facts: SuiteFacts) -> Iterator[_Fault]:
    families = facts.suite.families
    if isinstance(families, str):
        shared = sorted(facts.keys - {"task", "method"})
        expected = f"one of {join_names(shared)}, or lists of methods"
        yield from _unknown("families", families, shared, expected)
        return
    for name in (name for family in families or () for name in family):
        expected = f"lists of methods: {join_names(facts.names)}"
        yield from _unknown("families", name, facts.names, expected)


def _layout(facts: SuiteFacts) -> Iterator[_Fault]:
    layout = facts.suite.layout
    for key in () if layout is None else (*layout.rows, *layout.columns):
        known = sorted(facts.keys)
        yield from _unknown("layout", key, known, f"one of {join_names(known)}")
