"""Fixtures: suites, folders of runs with made-up numbers, and what reports say of them."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.text import Text

from relation_tf.bench.run_folder import RunFolder
from relation_tf.config.run import RunConfig
from relation_tf.config.suite import Suite, make_suite
from relation_tf.files import write_json, write_table
from relation_tf.report import Report
from relation_tf.report.drawing import Picture
from relation_tf.report.sections.paper import sentences_for_paper

if TYPE_CHECKING:
    from relation_tf.report.data import Comparison

METHODS = [
    {"name": "attention", "mechanism": "attention"},
    {"name": "linear", "mechanism": "linear-attention"},
    {"name": "relation", "mechanism": "relation"},
    {"name": "baseline", "mechanism": "baseline"},
]
TWO = [{"name": name, "mechanism": name} for name in ("baseline", "relation")]
LEVEL = {"attention": 0.7, "linear": 0.6, "relation": 0.8, "baseline": 0.5}

MakeSuite = Callable[..., Suite]
Fabricate = Callable[..., Path]


def noisy(config: RunConfig, task: str, metric: str) -> float:
    """Return a random score; methods do not differ."""
    where = [config.seed, *task.encode(), *config.method.encode(), *metric.encode()]
    return float(np.random.default_rng(where).uniform(0.4, 0.8))


def separated(config: RunConfig, *_: str) -> float:
    """Return a score; those of methods do not overlap."""
    return LEVEL[config.method] + config.seed / 100


def stated(part: Comparison) -> dict[str, dict[str, Any]]:
    """Return the values of the sentences for a paper by their kinds."""
    return {said.kind: dict(said.values) for said in sentences_for_paper(part)}


def content(report: Report) -> dict[str, Any]:
    """Return the content of report.json."""
    return dict(json.loads(report.json()))


def better(pairs: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the better and the other method of each significant pair of a table."""
    rows = pairs.dropna(subset=["better"]).itertuples()
    return [(row.better, row.a if row.better == row.b else row.b) for row in rows]


def verdicts(report: Report, task: str) -> dict[str, str]:
    """Return the verdict of each method on a task, or on "mean of N tasks"."""
    table = report.tables["verdicts"].query("task == @task")
    return dict(zip(table["method"], table["verdict"], strict=True))


def facts(report: Report) -> dict[str, str]:
    """Return the settings and the provenance that Markdown lists."""
    lines = report.markdown().replace("\\", "").splitlines()
    listed = [line[2:].partition(": ") for line in lines if line.startswith("- ")]
    return {name: value for name, _, value in listed}


def rows_of(report: Report, *first: str) -> list[list[str]]:
    """Return the other cells of all rows in Markdown that begin with these cells."""
    start = f"| {' | '.join(first)} | "
    lines = report.markdown().splitlines()
    return [x.removeprefix(start)[:-2].split(" | ") for x in lines if x.startswith(start)]


@pytest.fixture(scope="session")
def suite_of() -> MakeSuite:
    """Make a suite: `suite_of(tasks=..., seeds=..., method=...)`."""

    def make(**values: Any) -> Suite:
        return make_suite(
            "test",
            {
                "name": "made-up",
                "title": "A made-up suite",
                "question": "Does it show what it holds?",
                "tasks": ["CoLA", "MRPC"],
                "method": METHODS,
                **values,
            },
        )

    return make


@pytest.fixture(scope="session")
def table_of() -> Callable[[Mapping[str, Mapping[str, Sequence[float]]]], pd.DataFrame]:
    """Make a table of scores: `table_of({task: {method: [score of each seed]}})`."""

    def make(samples: Mapping[str, Mapping[str, Sequence[float]]]) -> pd.DataFrame:
        rows = [
            (task, method, seed, score)
            for task, methods in samples.items()
            for method, scores in methods.items()
            for seed, score in enumerate(scores)
        ]
        return pd.DataFrame(rows, columns=["task", "method", "seed", "score"])

    return make


@pytest.fixture
def fabricate(tmp_path: Path, fabricate_in: Callable[[Path], Fabricate]) -> Fabricate:
    """Write a suite's folder: `fabricate(suite, score=...)`."""
    return fabricate_in(tmp_path)


@pytest.fixture(scope="session")
def fabricate_in() -> Callable[[Path], Fabricate]:
    """Write a suite's folder below a given one: `fabricate_in(folder)(suite, score=...)`."""
    return lambda folder: partial(_fabricate, folder)


def _fabricate(
    parent: Path,
    suite: Suite,
    score: Callable[[RunConfig, str, str], float | None],
    change: Callable[[RunConfig, dict[str, Any]], None] = lambda config, files: None,
    name: str = "suite",
) -> Path:
    """Write the folder of a suite.

    `score(config, task, metric)` returns the value of a metric, or None for a run that is not done;
    `change(config, files)` may modify the content of a run's files; `name` is the folder's name.
    """
    folder = RunFolder(parent / name)
    folder.open(suite)
    for config in suite.runs():
        metrics = {
            scored: {metric: score(config, scored, metric) for metric in task.metrics}
            for task in [suite.find_task(config.task)]
            for scored in task.scored
        }
        if any(value is None for task in metrics.values() for value in task.values()):
            continue
        files = _files(config, metrics)
        change(config, files)
        run = folder.start(config)
        write_table(run / "history.csv", files["history"], ",")
        write_json(run / "config.json", files["config"])
        write_json(run / "manifest.json", files["manifest"])
        write_json(run / "result.json", files["result"])
    return folder.path


def _files(config: RunConfig, metrics: Mapping[str, Any]) -> dict[str, Any]:
    random = np.random.default_rng([config.seed, *config.task.encode(), *config.method.encode()])
    epochs = int(random.integers(15, 30))
    first = next(name for name in metrics)
    rise = 1 - np.exp(-np.arange(1, epochs + 1) / 6)
    costs = np.log(2) * (1.1 - 0.3 * rise) + random.normal(0, 0.01, epochs)
    history = {
        "epoch": list(range(1, epochs + 1)),
        "loss": (costs * 0.9).tolist(),
        "val_loss": costs.tolist(),
        **{
            f"val_{name}": (value * (rise + random.normal(0, 0.02, epochs))).tolist()
            for name, value in metrics[first].items()
        },
        "seconds": random.uniform(0.2, 0.4, epochs).tolist(),
        "evaluation_seconds": random.uniform(0.02, 0.04, epochs).tolist(),
    }
    return {
        "history": history,
        "config": config.model_dump(mode="json"),
        "result": {
            "task": config.task,
            "method": config.method,
            "seed": config.seed,
            "metrics": metrics,
            "epochs": epochs,
            "kept_epoch": epochs,
            "stopped": "no improvement of the 10-epoch mean for 5 epochs (patience)",
            "parameters": {"total": 569_186, "embedding": 541_600, "mechanism": 23_296},
            "padding": 0.057,
            "seconds": {
                "training": math.fsum(history["seconds"]),
                "evaluation": math.fsum(history["evaluation_seconds"]),
                "total": 9.0,
                "epoch": sorted(history["seconds"])[epochs // 2],
                "compilation": 0.8,
            },
            "peak_memory_mib": 928,
        },
        "manifest": _manifest(config),
    }


def _manifest(config: RunConfig) -> dict[str, Any]:
    return {
        "started": "2026-01-01T10:00:00+0000",
        "finished": "2026-01-01T10:00:09+0000",
        "command": "relation-tf run made-up",
        "python": "3.12.1",
        "versions": {"relation_tf": "0.1.0", "tensorflow": "2.21.0"},
        "commit": "0123456789ab",
        "platform": "Linux",
        "processor": "A processor",
        "cores": 2,
        "devices": ["CPU"],
        "backend": "tensorflow",
        "threads": 1,
        "xla": False,
        "op_determinism": False,
        "onednn": "default",
        "seed": config.seed,
        "data": {
            "source": "files",
            "digest": f"{config.task.lower():0<64}",
            "rows": {"train": 8551, "dev": 1043},
            "vocabulary": 5416,
        },
        "glove": None,
    }


LONG_NAMES = [
    "contextualizer-k5-uniform", "contextualizer-k5-ones", "attention", "linear-attention",
    "relation-original-form", "baseline", "bilstm-attention", "transformer-0.5M-layers4", "fcsr",
    "slstm", "cnn", "averaging",
]  # fmt: skip


@pytest.fixture
def names() -> list[str]:
    return LONG_NAMES


@pytest.fixture
def readable(monkeypatch: pytest.MonkeyPatch) -> Callable[[Picture], None]:
    """Check that texts of a picture do not overlap or leave their panel."""
    drawn: list[Text] = []

    def draw_text(*args: object, mtext: Text, **kwargs: object) -> None:
        drawn.append(mtext)

    monkeypatch.setattr(RendererAgg, "draw_text", draw_text)

    def check(picture: Picture) -> None:
        for panel in picture.panels:
            drawn.clear()
            canvas = FigureCanvasAgg(picture._figure([panel], 1))
            canvas.draw()
            boxes = [(text.get_text(), text.get_window_extent()) for text in drawn]
            assert boxes
            width, height = canvas.get_width_height()
            for text, box in boxes:
                assert min(box.x0, box.y0) >= -1, text
                assert max(box.x1 - width, box.y1 - height) <= 1, text
            for (one, box), (other, its) in itertools.combinations(boxes, 2):
                across = min(box.x1, its.x1) - max(box.x0, its.x0)
                down = min(box.y1, its.y1) - max(box.y0, its.y0)
                assert min(across, down) <= 1, f"{one!r} lies on {other!r}"

    return check
