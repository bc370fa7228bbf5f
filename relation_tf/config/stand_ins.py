"""Stand-ins for parts of plugins that are not imported: runs can be read without running code.

They are made from what the manifests of the runs declare. A part that is not declared there gets
the most common declaration.
"""

from __future__ import annotations

import glob
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from pydantic import TypeAdapter, ValidationError

from relation_tf import registry
from relation_tf.errors import SuiteError, UnknownNameError, join_names
from relation_tf.files import read_json
from relation_tf.registry import METRICS, PROCEDURES, TASKS, Metric
from relation_tf.tasks.catalogue import find_task
from relation_tf.tasks.metrics import find_metric
from relation_tf.tasks.task import Dataset, FileLayout, Task

if TYPE_CHECKING:
    from relation_tf.config.suite import Suite

_TESTS = {"test": ("steel-dwass", "steel"),
          "test_over_tasks": ("stratified-steel-dwass", "stratified-steel")}  # fmt: skip
_ASSUMED = " (assumed: higher is better)"


def declared(task: Task) -> dict[str, Any]:
    """Return what plugins declare of a task and its metrics, for the manifests of its runs."""
    metrics = {name for each in task.each() for name in each.metrics if METRICS.is_of_user(name)}
    return {
        "tasks": {own.name: asdict(own) for own in task.each() if TASKS.is_of_user(own.name)},
        "metrics": {
            name: {key: value for key, value in vars(METRICS[name]).items() if not callable(value)}
            for name in sorted(metrics)
        },
    }


def add_stand_ins(values: Mapping[str, Any], folder: Path) -> None:
    """Register stand-ins for the unknown parts of a suite.

    Args:
        values: Keys of the suite, not checked yet.
        folder: Folder of the suite, with its runs, if there are any.

    Raises:
        SuiteError: If the name of a part cannot name files.
    """
    for name in _texts([values], "tasks"):
        for own in _of_runs(folder, name, "manifest.json", "declared"):
            with suppress(AttributeError, KeyError, TypeError, ValidationError):  # damaged
                for metric, facts in own["metrics"].items():
                    checked = TypeAdapter(Metric).validate_python({"function": None, **facts})
                    METRICS.stand_in(metric, checked)
                for facts in own["tasks"].values():
                    _add_task(TypeAdapter(Task).validate_python(facts))
                break  # all runs of a task declare the same
    monitored = [name.removeprefix("val_") for name in _texts([values], "monitor")]
    custom, groups = _tables(values, "task"), _tables(values, "group")
    for name in {*_texts([values, *groups], "tasks")} - {*_texts([*custom, *groups], "name")}:
        with suppress(SuiteError):  # a diagnostic task of wrong sizes
            try:
                find_task(name)
            except UnknownNameError:
                found = next(_of_runs(folder, name, "result.json", "metrics"), {name: monitored})
                first = next(iter(found.values()))
                metrics = tuple(first) if isinstance(first, dict | list) else ()
                _assume(metrics, "scores")
                splits = dict.fromkeys(found, "test")
                _add_task(Task(name, ("text",), "", None, metrics, None, splits))
    for task in custom:
        _assume(_texts([task], "metrics"), "labels" if task.get("labels") else "scores")
    for name in _texts(_tables(values, "method"), "mechanism"):
        if ":" not in name:
            registry.MECHANISMS.stand_in(name, registry.Mechanism(_refuse, head="vector"))
    for name in _texts([values], "stopping"):
        registry.STOPPING_RULES.stand_in(name, registry.StoppingRuleEntry(_refuse))
    for name in _texts([values], "source"):
        registry.SOURCES.stand_in(name, registry.DataSource(_refuse, reads=()))
    for key, defaults in _TESTS.items():
        for name in _texts([values], key):
            PROCEDURES.stand_in(name, PROCEDURES[defaults[values.get("control") is not None]])


def missing_parts(suite: Suite) -> list[str]:
    """Return one sentence on the plugins of a suite that are not imported, or an empty list."""
    plugins = [name for name in suite.plugins if name not in sys.modules]
    if not plugins:
        return []
    missing = ["report sections"]
    missing += [
        f"test {name!r}, replaced by {PROCEDURES[name].title}"
        for key in _TESTS
        if (name := getattr(suite, key)) is not None and PROCEDURES.is_stand_in(name)
    ]
    metrics = [find_metric(name) for task in suite.learned() for name in task.metrics]
    missing += [f"metric {name}" for name in sorted({own.label for own in metrics if assumed(own)})]
    options = " ".join(f"--plugin {name}" for name in plugins)
    return [
        f"{suite.name}: its plugin {join_names(plugins)} is not imported, because it can run any "
        f"code. If you trust it, add {options}. Missing without it: {'; '.join(missing)}."
    ]


def assumed(metric: Metric) -> bool:
    """Return True for a metric of a plugin that is not imported and that no run declares."""
    return metric.label.endswith(_ASSUMED)


def _add_task(task: Task) -> None:
    layout = FileLayout("", _refuse, {"train": task.name})
    TASKS.stand_in(task.name, Dataset(task, (layout,), "import its plugin"))


def _assume(metrics: Iterable[str], target: Literal["labels", "scores"]) -> None:
    for name in metrics:
        METRICS.stand_in(name, Metric(None, f"{name}{_ASSUMED}", target=target))


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise SuiteError("this needs a plugin that is not imported: name it with --plugin")


def _tables(values: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the tables under a key; `Suite` refuses other values."""
    found = values.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _texts(tables: Iterable[Mapping[str, Any]], key: str) -> list[str]:
    """Return the texts under a key, or in the lists under it."""
    values = (table.get(key) for table in tables)
    listed = (each for value in values for each in (value if isinstance(value, list) else [value]))
    return [each for each in listed if isinstance(each, str)]


def _of_runs(folder: Path, task: str, file: str, key: str) -> Iterator[dict[str, Any]]:
    """Yield the table under a key of a file of each run of a task that has it."""
    for path in sorted(folder.glob(f"runs/{glob.escape(task)}/*/*/{file}")):
        with suppress(SuiteError):  # a broken file; the run counts as failed
            if (found := read_json(path).get(key)) and isinstance(found, dict):
                yield found
