"""Files of finished runs, as if they had been trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from glue_submit import TASKS as LEADERBOARD
from relation_tf.bench.run_folder import RunFolder, write_result
from relation_tf.config import Suite
from relation_tf.config.run import RunConfig
from relation_tf.files import read_json, write_json, write_table
from relation_tf.tasks.catalogue import find_task

RESULT = {
    "epochs": 2,
    "kept_epoch": 2,
    "stopped": "reached 2 epochs",
    "parameters": {"total": 300, "embedding": 200, "mechanism": 50},
    "padding": 0.1,
    "tokens": 100,
    "seconds": {"training": 2.0, "evaluation": 0.5, "total": 4.0, "epoch": 1.0, "compilation": 0.5},
    "peak_memory_mib": 900,
}
DATA = {
    "source": "files",
    "digest": "0" * 64,
    "rows": {"train": 9},
    "vocabulary": 5,
}
MANIFEST: dict[str, Any] = {
    "started": "2026-01-01T10:00:00+0000",
    "finished": "2026-01-01T10:00:09+0000",
    "command": "relation-tf run small",
    "versions": {"relation_tf": "0.1.0"},
    "commit": "0123456789ab",
    "processor": "A processor",
    "threads": 1,
    "xla": False,
    "data": DATA,
    "glove": None,
}


Value: TypeAlias = Callable[[str, str, int], float]


def half(task: str, method: str, seed: int) -> float:
    """Return the same score for all runs."""
    return 0.5


def write_finished(path: Path, config: RunConfig, value: Value = half) -> None:
    """Write the history, manifest and result of a run whose metrics all have one value."""
    task = find_task(config.entry)
    metrics = {
        name: {metric: value(*config.key) for metric in task.of(name).metrics}
        for name in task.scored
    }
    columns = {"epoch": [1, 2], "loss": [0.7, 0.6], "val_loss": [0.7, 0.65]}
    columns |= {f"val_{metric}": [0.4, 0.5] for metric in task.metrics}
    write_table(path / "history.csv", columns, ",")
    write_json(path / "manifest.json", MANIFEST)
    identity = {"task": config.task, "method": config.method, "seed": config.seed}
    write_json(path / "result.json", {**identity, **RESULT, "metrics": metrics})


def finish_suite(
    path: Path,
    suite: Suite,
    value: Value = half,
    *,
    predictions: bool = False,
    checksums: bool = False,
) -> RunFolder:
    """Write the folder of a suite with all runs done."""
    folder = RunFolder(path)
    folder.open(suite)
    for config in suite.runs():
        run = folder.start(config)
        write_finished(run, config, value)
        if predictions:
            write_predictions(run, config.task)
        if checksums:
            write_result(run, read_json(run / "result.json"))
    return folder


def write_predictions(path: Path, task: str) -> None:
    """Write predictions for the test sets of a GLUE task, as large as the leaderboard's."""
    (path / "predictions").mkdir()
    for name in find_task(task).answered:
        rows, majority = LEADERBOARD[name].test_rows, LEADERBOARD[name].majority
        columns = {"index": range(rows), "prediction": [majority] * rows}
        write_table(path / "predictions" / f"{name}.test.tsv", columns, "\t")
