"""Facts about a suite that its rules use. Does not import Keras."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from relation_tf.config.method import Method
from relation_tf.config.sweep import OPTIONS
from relation_tf.registry import PROCEDURES, STOPPING_RULES
from relation_tf.tasks.task import Task

if TYPE_CHECKING:
    from relation_tf.config.suite import Suite


class SuiteFacts:
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
        kind = next((task.timed for task in self.learned if task.timed), None)
        self.timed_alike = [task.name for task in self.learned if task.timed == kind]
        self.written = _first(self.learned, lambda task: task.written)
        self.classified = _first(self.learned, lambda task: not task.written)
        self.token_labels = _first(self.learned, lambda task: task.token_labels)
        self.unclassified = _first(self.learned, lambda task: not task.labels)
        self.needs = STOPPING_RULES[suite.stopping].metrics
        self.keys = {"task", "method", "mechanism", "units", "size"}
        self.keys |= {option for method in self.methods for option in method.options}
        # The tuned value depends on the task.
        swept = () if suite.sweep is None else suite.sweep.values
        self.keys -= {key.removeprefix(OPTIONS) for key in swept}
        self.compares = suite.test and PROCEDURES[suite.test].compares
        over_tasks = suite.test_over_tasks
        self.over_tasks = None if over_tasks is None else PROCEDURES[over_tasks]

    def setting(self, method: Method, key: str) -> Any:
        """Return a training setting of a method that single tasks do not override."""
        return method.overrides.get(key, getattr(self.suite, key))


def _first(tasks: Iterable[Task], has: Callable[[Task], object]) -> str | None:
    return next((task.name for task in tasks if has(task)), None)


def _can_transfer(task: Task) -> bool:
    """Return False for a group of two tasks, of texts and pairs, or with unlabelled test rows."""
    forms = {len(each.inputs) for each in task.members}
    return not task.members or (len(task.members) > 2 and len(forms) == 1 and not task.answered)
