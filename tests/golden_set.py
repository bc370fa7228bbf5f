"""Golden set: numbers that refactoring must not change, see CONTRIBUTING.md.

python tests/golden_set.py reports            # write golden_values/reports.json and pages/
python tests/golden_set.py runs OUT           # train twelve small runs, in 3 minutes
python tests/golden_set.py compare OUT1 OUT2  # compare the runs of two commits

They need PYTHONPATH=. for modules of the tests.
"""

from __future__ import annotations

import _thread
import contextlib
import json
import math
import os
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

import relation_tf
from relation_tf.report import Report, compare, make_report

GOLDEN_VALUES = Path(__file__).parent / "golden_values"
REPORTS = GOLDEN_VALUES / "reports.json"
PAGES = GOLDEN_VALUES / "pages"
STUDIES_ZIP = GOLDEN_VALUES / "studies.zip"

Numbers: TypeAlias = dict[str, list[float | str | bool | None]]
"""Numbers and words of a row, by name."""

MECHANISMS = ("attention", "linear-attention", "relation", "baseline")

# Sources in studies.zip, and the options of their comparison.
STUDIES: dict[str, dict[str, Any]] = {
    "glue-small-smoothed": {"reference": "attention-64", "margin": 1.0},
    "glue-small-smoothed glue-small-vectors": {
        "labels": ["random", "vectors"],
        "test": "welch",
        "families": [[f"{name}-64 (random)", f"{name}-64 (vectors)"] for name in MECHANISMS],
    },
    "glue-sizes": {
        "families": [[f"{name}-{units}" for name in MECHANISMS] for units in (128, 256)],
        "control": ["attention-128", "attention-256"],
        "margin": 1.0,
        "margins": {"CoLA": 2.0},
    },
    "contextualizer-table4": {
        "control": "contextualizer",
        "test": "welch-control",
        "test_over_tasks": "wilcoxon-holm",
    },
    "decode": {"test": "brunner-munzel"},
    "fcsr-table5": {"control": "fcsr-shared"},
    "mqar": {"reference": "attention", "margin": 5.0},
    "pretraining": {},
    "relation-table1": {"split": "test", "test_over_tasks": "friedman-nemenyi"},
    "sequences": {},
}

# Suites whose runs are written as if they had been trained.
FOLDERS: dict[str, dict[str, Any]] = {
    "unfinished": {
        "title": "An unfinished suite",
        "tasks": ["CoLA", "mqar-32-2-v32", "mqar-32-8-v32"],
        "method": [{"name": name, "mechanism": name} for name in MECHANISMS],
        "reference": "attention",
        "margin": 5.0,
    },
    "times": {
        "title": "Times to a target",
        "tasks": ["RTE"],
        "method": [{"mechanism": name, "units": [8, 16]} for name in MECHANISMS[:3]],
        "families": "units",
        "stopping": "accuracy_reached",
    },
}
BROKEN: dict[str, dict[str, Any]] = {
    "relation": {"error": "diverged in epoch 1", "diverged": True},
    "linear-attention": {"error": "out of memory"},
    "baseline": {},  # not done
}
STATES = {"attention": 8192, "relation": 128}
LEVELS = {"attention": 0.97, "linear-attention": 0.71, "relation": 0.9, "baseline": 0.0}

ROWS = ("task", "method", "seed", "a", "b")
"""Columns of report.json that name a row."""

COLUMNS = {
    "table": "n mean sd letters",
    "pvalues": "pvalue difference difference_low difference_high effect_low effect_high better",
    "over_tasks": "pvalue effect_low effect_high better",
    "verdicts": "difference low high pvalue verdict beyond_margin",
    "capabilities": "score share level verdict",
    "runs": "status epochs kept_epoch",
}
"""Columns of report.json that are compared, by table."""


def make_reports() -> dict[str, Report]:
    """Return the reports by study."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(STUDIES_ZIP) as archive:
        archive.extractall(folder)
        with contextlib.chdir(folder):
            found = {name: compare(*name.split(), **own) for name, own in STUDIES.items()}
            for name, values in FOLDERS.items():
                write_runs(name, values)
                found[name] = make_report(name)
                found[name].json()  # reads what else is in the folder
            return found


def write_runs(name: str, values: Mapping[str, Any]) -> None:
    """Write the folder of a suite.

    Runs of `unfinished` on CoLA collapsed, failed, diverged or are not done; some runs of `times`
    missed the target.
    """
    from relation_tf.bench import RunFolder
    from relation_tf.config.suite import make_suite
    from relation_tf.files import write_json
    from tests.bench.finished_runs import write_finished

    suite = make_suite("golden", {"name": name, "seeds": 5, **values})
    folder = RunFolder(Path(name))
    folder.open(suite)
    for config in suite.runs():
        lost = BROKEN.get(config.method) if (config.task, config.seed) == ("CoLA", 5) else None
        if lost == {}:
            continue
        run = folder.start(config)
        if lost:
            write_json(run / "error.json", lost)
            continue
        write_finished(run, config, _score)
        result = json.loads((run / "result.json").read_text())
        if config.method in STATES:
            result["state_bytes"] = STATES[config.method]
        if name == "times":
            result["reached"] = config.mechanism != "attention" or config.seed < 3
            seconds = 100 * _score(*config.key)
            result["seconds"] |= {"training": round(seconds, 3), "input": 0.1}
        write_json(run / "result.json", result)


def _score(task: str, method: str, seed: int) -> float:
    level = next(level for name, level in LEVELS.items() if method.startswith(name))
    return level and level + seed / 500 - 0.5 * ((method, task) == ("relation", "mqar-32-8-v32"))


def reduce_reports(reports: Mapping[str, Report]) -> Numbers:
    """Return the numbers and verdicts of all reports by study, table and row."""
    found: Numbers = {}
    for study, report in reports.items():
        tables = json.loads(report.json())["tables"]
        for table, columns in COLUMNS.items():
            for row in tables.get(table, ()):
                name = "/".join([study, table, *(str(row[key]) for key in ROWS if key in row)])
                found[name] = [row.get(column) for column in columns.split()]
    return found


def pages(reports: Mapping[str, Report]) -> dict[str, str]:
    """Return the words of all reports, in a terminal and in Markdown, by the name of their file."""
    return {
        f"{study.replace(' ', '+')}.md": f"```text\n{report}\n```\n\n{report.markdown()}"
        for study, report in reports.items()
    }


# Settings of the runs.
SUITE = {
    "source": "miniglue",
    "batch_size": 32,
    "epochs": 20,
    "dropout": 0.1,
    "learning_rate": 0.005,
}
NOUNS = ("cat", "dog", "bird", "fox", "horse", "cow", "mouse", "fish")


def train(out: Path) -> Numbers:
    """Train the runs and return their epochs, losses, scores and predictions."""
    from relation_tf.bench import Results, pretrain, run_suite
    from relation_tf.config import Suite
    from relation_tf.training import PretrainingSettings

    out.mkdir(parents=True)  # finished runs of another commit would be kept
    os.environ["RELATION_TF_CACHE"] = str(out / "cache")
    found: Numbers = {}

    def run(name: str, methods: list[dict[str, Any]], **changes: Any) -> Results:
        suite = Suite(**{**SUITE, **changes, "name": name, "method": methods})
        results = run_suite(suite, out / name, seeds=[1])
        found.update(_numbers(results))
        return results

    run("mechanisms", [{"mechanism": name, "units": 8} for name in MECHANISMS], tasks=["CoLA"])
    relation = {"mechanism": "relation", "units": 8}
    run("pairs", [relation], tasks=["MRPC", "STS-B"])
    group = {"name": "both", "tasks": ["CoLA", "SST-2"]}
    run("group", [relation | {"sharing": "adversarial"}], tasks=["both"], group=[group])
    decoder = {"mechanism": "transformer-encoder-decoder", "units": 16}
    generated = {"source": "auto", "tasks": ["reversal"], "epochs": 1}
    run("sequences", [decoder | {"options": {"mechanism": "relation"}}], **generated)
    text = out / "text.txt"
    text.write_text("".join(f"the {a} sees the {b}\n" for a in NOUNS for b in NOUNS) * 20)
    for objective in ("masked", "causal"):
        settings = PretrainingSettings(
            objective, num_layers=1, units=16, length=16, vocabulary_size=60, batch_size=8, steps=50
        )
        made = pretrain(text, out / objective, "relation", settings=settings)
        found[objective] = [made.runs[0]["perplexity"]]
    blocks = {"mechanism": "relation", "num_layers": 1, "norm": "pre"}
    encoder = {"mechanism": "encoder", "units": 16, "options": blocks}
    start = {"pretrained": str(out / "masked"), "tokens": "wordpiece", "embedding_dim": 16}
    run("fine-tuned", [encoder], tasks=["CoLA"], **start)
    threading.Thread(target=_interrupt, args=[out / "resumed"], daemon=True).start()
    long = {"tasks": ["CoLA"], "epochs": 1000, "stopping": "early_stopping", "patience": 1000}
    try:
        run("resumed", [relation], **long)
    except KeyboardInterrupt:
        resumed = run("resumed", [relation], **long)
        assert resumed.runs[0]["manifest"]["resumed_after"]
        return found
    raise RuntimeError("the last run ended before it was interrupted: give it more epochs")


def _interrupt(folder: Path) -> None:
    """Press Ctrl-C after the first checkpoint of a run."""
    while not [*folder.rglob("state.npz")]:
        time.sleep(0.1)
    _thread.interrupt_main()


def _numbers(results: Any) -> Numbers:
    """Return epochs, the last loss, scores and predictions, by suite, run and task or file."""
    assert not results.failures, results.failures
    found: Numbers = {}
    for run in results.runs:
        name = "/".join([results.suite.name, run["task"], run["method"], str(run["seed"])])
        loss = results.history(run)["loss"].iloc[-1]
        found[name] = [run["epochs"], run["kept_epoch"], float(loss)]
        found |= {f"{name}/{task}": [*own.values()] for task, own in run["metrics"].items()}
        for file in Path(run["folder"], "predictions").glob("*.tsv"):
            table = pd.read_csv(file, sep="\t", keep_default_na=False)
            found[f"{name}/{file.name}"] = table["prediction"].tolist()
    return found


def differences(before: Numbers, after: Numbers, tolerance: float) -> Iterator[str]:
    """Yield a line for each row that is not in both, or whose words or numbers differ.

    Args:
        before: The expected numbers.
        after: The numbers to check.
        tolerance: Largest relative difference of two numbers that count as equal.
    """
    for name in sorted({*before, *after}):
        one, other = before.get(name, []), after.get(name, [])
        if len(one) != len(other):
            yield f"{name}: {len(one)} values before, {len(other)} now"
        for first, second in zip(one, other, strict=False):
            numbers = isinstance(first, int | float) and isinstance(second, int | float)
            if first != second and not (
                numbers and math.isclose(first, second, rel_tol=tolerance, abs_tol=1e-12)
            ):
                yield f"{name}: {first} before, {second} now"


def write(numbers: Numbers, file: Path) -> None:
    """Write numbers as JSON, with a line for each row."""
    rows = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in numbers.items()]
    file.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    if not Path(__file__).resolve().is_relative_to(Path(relation_tf.__file__).parents[1]):
        sys.exit(f"imports {relation_tf.__file__}, not this checkout: set PYTHONPATH to its folder")
    match sys.argv[1:]:
        case ["reports"]:
            reports = make_reports()
            write(reduce_reports(reports), REPORTS)
            for name, page in pages(reports).items():
                (PAGES / name).write_text(page, encoding="utf-8")
        case ["runs", folder]:
            write(train(Path(folder).resolve()), Path(folder, "numbers.json"))
        case ["compare", *folders] if len(folders) == 2:
            before, after = (json.loads(Path(own, "numbers.json").read_text()) for own in folders)
            found = [*differences(before, after, 1e-6)]
            print("\n".join(found) or f"{len(after)} rows are equal")
            sys.exit(bool(found))
        case _:
            sys.exit(__doc__)
