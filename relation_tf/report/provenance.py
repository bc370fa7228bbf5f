"""Versions, commit, hardware and data of runs, and differences between runs of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.config.training import Override
from relation_tf.report.runs import counted
from relation_tf.tasks.metrics import no_score
from relation_tf.words import count

_MACHINE = ("python", "commit", "platform", "processor", "cores", "devices", "backend", "threads",
            "xla", "op_determinism", "strategy", "replicas", "onednn")  # fmt: skip
# For runs of versions that did not record it.
_BEFORE = {"replicas": 1, "optimizer": "adam", "vary": "init,order"}
# Data differs between tasks, and pre-training between seeds; data is compared within a task.
_OF_A_RUN = ("task", "method", "mechanism", "mechanism_digest", "units", "options", "size",
             "sized_by", "seed", "source", "data_digest", "data_digests", "custom_task", "group",
             "sharing", "feature_projection", "encoder_weights", "pretrained_digest",
             "glove_digest")  # fmt: skip


def made(manifests: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return dates, commands, versions and hardware of runs, the most frequent value first."""
    if not manifests:
        return {}
    facts = {
        "dates": [_dates(manifests)],
        "commands": _distinct(manifest["command"] for manifest in manifests),
        "versions": _distinct(map(_versions, manifests)),
    }
    for key in _MACHINE:
        values = (manifest.get(key, _BEFORE.get(key)) for manifest in manifests)
        facts[key] = _distinct(map(_shown, values))
    return facts


def data(results: Results) -> pd.DataFrame:
    """Return one row per task: source, digests and sizes of its data, and skipped lines."""
    rows = []
    for task in results.suite.tasks:
        own = [run for run in results.runs if run["task"] == task]
        manifests = [run["manifest"] for run in own]
        if not manifests:
            continue
        sets = [manifest["data"] for manifest in manifests]
        skipped = dict.fromkeys(line for each in sets for line in each["skipped_lines"])
        rows.append(
            {
                "task": _with_members(results, task),
                "source": " or ".join(_distinct(each["source"] for each in sets)),
                "digests": _distinct(each["digest"] for each in sets),
                "rows": _rows(sets[0]["rows"]),
                "vocabulary": _vocabularies(own),
                "start": _distinct(map(_start, manifests)),
                "skipped": list(skipped),
            }
        )
    return pd.DataFrame(rows)


def _vocabularies(runs: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the size of the vocabulary of each setting of the tokens."""
    sizes: dict[tuple[Any, ...], int | None] = {}
    for run in runs:
        key = run["config"].get("tokens"), run["config"].get("vocabulary_size")
        sizes.setdefault(key, run["manifest"]["data"]["vocabulary"])
    return [size for size in sizes.values() if size is not None]


def _with_members(results: Results, task: str) -> str:
    members = results.suite.find_task(task).members
    return f"{task} ({', '.join(member.name for member in members)})" if members else task


def _rows(rows: dict[str, int]) -> str:
    """Return the number of rows of each split, summed over the tasks of a group."""
    tasks = {name.rpartition(":")[0] for name in rows}
    counts: Counter[str] = Counter()
    for name, number in rows.items():
        counts[name.rpartition(":")[2]] += number
    of = f" of {len(tasks)} tasks" if len(tasks) > 1 else ""
    return ", ".join(f"{name} {n:,}" for name, n in counts.items()) + of


def warnings(results: Results) -> list[str]:
    """Return warnings on differences between runs and on shared pre-training."""
    return [*_unlike(results), *_shared_start(results), *_unscored(results)]


def _unscored(results: Results) -> Iterator[str]:
    """Warn of runs without the score of a diagnostic set that other runs have."""
    for task in results.suite.tasks:
        own = [run for run in results.runs if run["task"] == task]
        yield from _unpredicted(own)
        for name in results.suite.find_task(task).diagnostics:
            runs = [run["metrics"] for run in own if name not in run.get("unscored", {})]
            if 0 < (scored := sum(name in own for own in runs)) < len(runs):
                yield (
                    f"{name} is scored in {scored} of {len(runs)} runs: the others had no labels "
                    "of it. `relation-tf predict` scores runs that have their weights "
                    "(--set save_models=true)."
                )


def _unpredicted(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Name the methods of a task that cannot predict further test sets, and the first reason."""
    for method in dict.fromkeys(run["method"] for run in runs if run.get("unscored")):
        own = [run["unscored"] for run in runs if run["method"] == method and run.get("unscored")]
        reasons = {name: why for each in own for name, why in each.items()}
        yield f"In {count(len(own), 'run')}, {method} has {no_score(reasons)}."


def unlike_machines(manifests: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield differences between runs in versions and hardware."""
    flat = [
        {key: manifest.get(key, _BEFORE.get(key)) for key in _MACHINE} | manifest["versions"]
        for manifest in manifests
    ]
    for key in dict.fromkeys(key for each in flat for key in each):
        yield from _differing(key, [each.get(key) for each in flat])


def unlike_pretraining(asked: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield differences between the settings of pre-training folders."""
    for key in dict.fromkeys(key for each in asked for key in each):
        values = dict.fromkeys(_shown(each.get(key, _BEFORE.get(key))) for each in asked)
        if len(values) > 1:
            yield f"The pre-training folders differ in {key}: {'; '.join(values)}."


def _unlike(results: Results) -> Iterator[str]:
    yield from unlike_machines([run["manifest"] for run in results.runs])
    own = {str(method.name): method.overrides for method in results.suite.methods()}
    tuned = {key for each in results.suite.tuned for key in each.settings}
    for key in dict.fromkeys(key for run in results.runs for key in run["config"]):
        if key in _OF_A_RUN:
            continue
        compared: dict[str, list[Any]] = {}
        for run in results.runs:
            # Settings of single methods and tasks are compared only within them.
            by_method = key in tuned or key in own.get(run["method"], {})
            parts = [run["method"]] if by_method else []
            parts += [run["task"]] if key in tuned or key in Override.model_fields else []
            where = f"{key} of {', '.join(parts)}" if parts else key
            compared.setdefault(where, []).append(run["config"].get(key))
        for where, values in compared.items():
            yield from _differing(where, values)
    for task in results.suite.tasks:
        yield from (f"{task}: {note}." for note in notes(results, task))
        made = [run["manifest"] for run in results.runs if run["task"] == task]
        yield from _differing(f"data of {task}", [each["data"]["digest"] for each in made])
        files = [each["glove"].get("digest") for each in made if each["glove"]]
        yield from _differing(f"word vectors of {task}", files)


def _shared_start(results: Results) -> Iterator[str]:
    """Yield methods with several seeds but one pre-trained encoder."""
    starts: dict[str, dict[int, str]] = {}
    for config in (run["config"] for run in results.runs):
        if config.get("encoder_weights", "random") != "random":
            own = starts.setdefault(config["method"], {})
            own[config["seed"]] = config["pretrained_digest"]
    for method, digests in starts.items():
        if len(digests) > 1 and len(set(digests.values())) == 1:
            yield (
                f"All {len(digests)} seeds of {method} start from the same pre-trained encoder: "
                "their spread does not include the variation of pre-training."
            )


def notes(results: Results, task: str) -> list[str]:
    """Return differences between the data of a task and the published data."""
    own = [run["manifest"]["data"] for run in results.runs if run["task"] == task]
    return list(dict.fromkeys(note for data in own for note in data.get("notes", [])))


def _differing(key: str, values: Iterable[Any]) -> Iterator[str]:
    found = counted(map(_shown, values))
    if len(found) > 1:
        counts = "; ".join(f"{value} ({count(times, 'run')})" for value, times in found)
        yield f"The runs differ in {key}: {counts}."


def in_a_line(settings: Mapping[str, Any]) -> str:
    """Return settings and their values on one line."""
    return "; ".join(f"{key} {_shown(value)}" for key, value in settings.items())


def _dates(manifests: Sequence[Mapping[str, Any]]) -> str:
    first = min(str(manifest["started"]) for manifest in manifests)
    last = max(str(manifest["finished"]) for manifest in manifests)
    return f"{first} to {last}"


def _versions(manifest: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())


def _start(manifest: Mapping[str, Any]) -> str:
    if manifest.get("pretrained"):
        return f"pre-trained, {manifest['pretrained']['folder']}"
    return "GloVe: " + manifest["glove"]["found"] if manifest["glove"] else "random"


def _distinct(values: Any) -> list[str]:
    return [value for value, _ in counted(values)]


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        parts = ((key, _shown(part)) for key, part in value.items() if part is not None)
        return "; ".join(f"{key} {part}" for key, part in parts)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
