"""The model card of an exported model, in the format of the Hugging Face Hub."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from relation_tf.bench.models import MODEL, modules_of
from relation_tf.bench.results import Results, read_results
from relation_tf.errors import SuiteError, join_names
from relation_tf.files import write_text
from relation_tf.stats.summary import mean_interval
from relation_tf.tasks.metrics import find_metric
from relation_tf.tasks.vocabulary import START, Vocabulary

if TYPE_CHECKING:
    from relation_tf.bench.trained_model import TrainedModel

_HEADER = """\
---
library_name: keras
tags:
- relation_tf
# license: add the license of your model, such as apache-2.0
---
"""


def write_card(trained: TrainedModel, folder: Path, format: str, safe_mode: bool) -> None:
    """Write `README.md` of an exported model.

    Scores are shown with the mean and the 95 % interval over the finished seeds of the method, if
    the run is still in the folder of its suite.

    Args:
        trained: The model.
        folder: The folder of the exported model.
        format: Its format.
        safe_mode: If False, the code of the card loads the model without Keras's safe mode.
    """
    config, task = trained.config, trained.task
    parts = [
        _HEADER,
        f"# {config.method} on {task.name}\n",
        f"A network around the token-mixing mechanism `{config.mixer}`, trained on "
        f"{_tasks(trained)} with seed {config.seed} by "
        f"relation_tf {trained.manifest['versions']['relation_tf']}.\n",
        "## Task\n",
        _table(("", ""), _task_rows(trained)),
        "## Scores\n",
        *_scores(trained),
        "## Training\n",
        _table(("", ""), _training_rows(trained)),
        "## Load\n",
        *_loading(trained, format, safe_mode),
    ]
    write_text(folder / "README.md", "\n".join(parts))


def _tasks(trained: TrainedModel) -> str:
    """Return the tasks of the training."""
    group = trained.config.group
    if group is None:
        return f"the task {trained.task.name}"
    names = [entry if isinstance(entry, str) else entry.name for entry in group.tasks]
    return f"the tasks {join_names(names)} together"


def _table(header: Sequence[str], rows: Iterator[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    cells = ([str(cell).replace("|", "\\|") for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def _task_rows(trained: TrainedModel) -> Iterator[Sequence[Any]]:
    config, task = trained.config, trained.task
    yield "input", " and ".join(task.inputs[:1] if trained.is_generated else task.inputs)
    if trained.labels is not None:
        yield "labels, in the order of the outputs", ", ".join(trained.labels)
    elif not task.written:
        yield "output", f"a score divided by {task.maximum:g}, from 0 to 1"
    if isinstance(trained.vocabulary, Vocabulary):
        length = f", at most {config.max_length} per text" if config.max_length else ""
        yield "tokens", f"{config.tokens}, {trained.vocabulary.size:,} ids, 0 is padding{length}"


def _scores(trained: TrainedModel) -> Iterator[str]:
    results = _results(trained.folder)
    rows, seeds = [], 0
    for name in trained.task.scorable:
        for metric, value in trained.result["metrics"].get(name, {}).items():
            values = [] if results is None else _of_seeds(results, trained, name, metric)
            seeds = max(seeds, len(values))
            known = find_metric(metric)
            mean = _mean(np.array(values) * known.points)
            rows.append((name, known.label, _number(value * known.points), *mean))
    header = ("task", "metric", f"seed {trained.config.seed} (this model)")
    if seeds > 1:
        yield _table((*header, f"mean of {seeds} seeds", "95 % interval of the mean"), iter(rows))
        yield "The mean and its interval (Student's t) are those of the method in its suite.\n"
    else:
        yield _table(header, (row[: len(header)] for row in rows))
    yield from (f"{note}.\n" for note in trained.manifest["data"]["notes"])


def _results(folder: Path) -> Results | None:
    """Return the results of the suite, if the folder is still in that of the suite."""
    parents = folder.resolve().parents
    if len(parents) < 4 or parents[2].name != "runs" or not (parents[3] / "suite.toml").exists():
        return None
    try:
        return read_results(parents[3])
    except SuiteError:  # such as a broken file; the model can be used without it
        return None


def _of_seeds(results: Results, trained: TrainedModel, name: str, metric: str) -> list[float]:
    return [
        run["metrics"][name][metric]
        for run in results.runs
        if (run["task"], run["method"]) == (trained.config.task, trained.config.method)
        and metric in run["metrics"].get(name, {})
    ]


def _mean(values: np.ndarray) -> tuple[str, str]:
    if len(values) < 2 or not np.isfinite(values).all():
        return "", ""
    low, high = mean_interval(values)
    return _number(float(values.mean())), f"{_number(low)} to {_number(high)}"


def _number(value: float) -> str:
    return f"{value:.2f}"


def _training_rows(trained: TrainedModel) -> Iterator[Sequence[Any]]:
    config, result, manifest = trained.config, trained.result, trained.manifest
    yield "seed", config.seed
    yield "epochs", f"{result['epochs']}; the weights are those of epoch {result['kept_epoch']}"
    yield "stopped", result["stopped"]
    of = " of the networks of all tasks" if config.group else ""
    yield f"parameters{of}", ", ".join(f"{size:,} {part}" for part, size in _sizes(result))
    if manifest["glove"]:
        yield (
            "initial word vectors",
            f"{manifest['glove']['found']}; SHA-256 `{manifest['glove']['digest']}`",
        )
    if manifest["pretrained"]:
        yield "initial encoder", f"SHA-256 `{manifest['pretrained']['digest']}`"
    command = manifest["command"]
    yield "command", f"`{command if isinstance(command, str) else ' '.join(command)}`"
    data = manifest["data"]
    digests: Mapping[str, str] = data.get("digests") or {"all": data["digest"]}
    yield "data", data["source"]
    for split, digest in digests.items():
        yield f"SHA-256 of {split}", f"`{digest}`"
    yield "versions", ", ".join(f"{name} {own}" for name, own in manifest["versions"].items())
    yield "commit", manifest["commit"] or "unknown"


def _sizes(result: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    return ((part, size) for part, size in result["parameters"].items() if isinstance(size, int))


def _loading(trained: TrainedModel, format: str, safe_mode: bool) -> Iterator[str]:
    several = trained.num_texts > 1
    unsafe = "" if safe_mode else ", safe_mode=False"
    if format == "keras":
        text = json.dumps([trained.sample])
        task = f", task={trained.task.name!r}" if trained.config.group else ""
        yield _code(
            "import relation_tf",
            "",
            f'trained = relation_tf.load("FOLDER"{task}{unsafe})  # this folder, or "hf://USER/REPO"',
            f"print(trained, trained.predict({text}))",
        )
        yield "Keras reads the network alone, if the modules of its layers are imported:\n"
        yield _code("import keras", *_imports(trained), "",
                    f'model = keras.saving.load_model("model.keras"{unsafe})')  # fmt: skip
        return
    ids = "[first, second]" if several else "ids"
    if format == "saved-model":
        lines = [
            "import tensorflow as tf",
            "",
            'model = tf.saved_model.load("saved-model")',
            f"outputs = model.serve({ids})",
        ]
    elif format == "onnx":
        lines = [
            "import onnxruntime",
            "",
            'session = onnxruntime.InferenceSession("model.onnx")',
            "names = [each.name for each in session.get_inputs()]",
            f"(outputs,) = session.run(None, dict(zip(names, {ids if several else '[ids]'})))",
        ]
    else:
        lines = [
            "import json",
            "from pathlib import Path",
            "",
            "import keras",
            *_imports(trained),
            "from safetensors.numpy import load_file",
            "",
            'config = json.loads(Path("architecture.json").read_text())',
            f"model = keras.saving.deserialize_keras_object(config{unsafe})",
            'tensors = load_file("model.safetensors")',
            "for weight, name in zip(model.weights, sorted(tensors)):",
            "    weight.assign(tensors[name])",
            f"outputs = model({ids})",
        ]
    yield _code(*lines)
    names = "`first` and `second`, the texts of each pair," if several else "`ids`"
    shape = "`(batch, tokens)`, `int32`, padded with 0"
    if trained.vocabulary is None:
        yield f"{names} are strings `(batch,)`.\n"
    elif not isinstance(trained.vocabulary, Vocabulary):
        yield (
            f"{names} are ids {shape}: `relation_tf.load` of the run's folder and `encode` make "
            "them.\n"
        )
    else:
        yield f"{names} are token ids {shape}:\n"
        yield _code(*_tokenizing(trained))


def _tokenizing(trained: TrainedModel) -> Iterator[str]:
    """Yield code that encodes a text as in training."""
    assert isinstance(trained.vocabulary, Vocabulary)
    yield "import numpy as np"
    yield "from tokenizers import Tokenizer"
    yield ""
    yield 'tokenizer = Tokenizer.from_file("vocabulary.json")'
    start = f"{[trained.vocabulary.words[START]]} + " if trained.config.start_token else ""
    length = f"[:{trained.config.max_length}]" if trained.config.max_length else ""
    tokens = f'{start}tokenizer.encode("a text").ids'
    yield f'ids = np.array([{f"({tokens}){length}" if length else tokens}], "int32")'


def _imports(trained: TrainedModel) -> list[str]:
    return [f"import {module}" for module in modules_of(trained.folder / MODEL)]


def _code(*lines: str) -> str:
    return "\n".join(["```python", *lines, "```\n"])
