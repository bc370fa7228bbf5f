"""A suite from its question to its results."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from relation_tf.bench.processes import run_in_processes
from relation_tf.bench.progress import Progress
from relation_tf.bench.results import Results, read_results
from relation_tf.bench.run_folder import RunFolder
from relation_tf.bench.suite import (
    Method,
    RunConfig,
    Suite,
    SuiteError,
    load_suite,
    make_suite,
    select,
)
from relation_tf.bench.worker import Cell, check_methods, run_cell
from relation_tf.networks.registry import MECHANISMS, find_mechanism, load
from relation_tf.stats import what_can_be_shown
from relation_tf.tasks.catalogue import find_source
from relation_tf.tasks.glove import check_glove
from relation_tf.tasks.sources import Source, digest_of_file


def run_suite(
    suite: str | Path | Suite,
    out: str | Path | None = None,
    methods: Sequence[Method | type | str] | None = None,
    *,
    tasks: str | Iterable[str] | None = None,
    only_methods: str | Iterable[str] | None = None,
    seeds: int | Iterable[int] | None = None,
    data: str | Path | None = None,
    tfds_folder: str | Path | None = None,
    glove: str | Path | None = None,
    jobs: int = 1,
    run_timeout: float | None = None,
    settings: Mapping[str, Any] | None = None,
    skip_bad_lines: bool = False,
    quiet: bool = False,
) -> Results:
    """Run what is not yet done of a suite, and read what it gave.

    Finished runs are kept: stopped at any moment, the same call goes on where it was.

    Args:
        suite: A name of `list_suites()`, a TOML file, or a `Suite`.
        out: The folder of the runs, by default `runs/<suite>`.
        methods: Methods in place of the suite's: `Method`s, Keras layer classes or names.
        tasks: Run no more than these tasks.
        only_methods: Run no more than these methods, by name.
        seeds: Run no more than these seeds.
        data: The folder that holds the tasks' files, such as `glue_data`.
        tfds_folder: The folder of TFDS's prepared sets, by default its own.
        glove: A file of word vectors, for `embeddings = "glove"`.
        jobs: Runs at once. Above 1 they run in processes of their own, of which one that dies costs
            only its run; what they give is the same.
        run_timeout: Seconds after which a run is ended and has failed; it then runs in a process of
            its own whatever `jobs` is. The same call goes on from its last epoch.
        settings: Keys to set over what the suite says, such as `{"stopping": "best"}`.
        skip_bad_lines: Leave out malformed lines of training files and count them.
        quiet: Print nothing.

    Returns:
        The results of all finished runs in the folder.

    Raises:
        SuiteError: For a suite, option or folder that cannot be.

    Example:
        >>> import tempfile
        >>> from relation_tf.bench import run_suite
        >>> one = {"tasks": ["WNLI"], "only_methods": ["baseline-64"], "seeds": [1]}
        >>> results = run_suite("demo", tempfile.mkdtemp(), **one, quiet=True)
        >>> results.metrics[["task", "method", "seed", "metric"]].to_numpy().tolist()
        [['WNLI', 'baseline-64', 1, 'accuracy']]
    """
    if jobs < 1:
        raise SuiteError(f"jobs: expected 1 or more. Received: {jobs}")
    if run_timeout is not None and not run_timeout > 0:
        raise SuiteError(f"run_timeout: expected seconds above 0. Received: {run_timeout:g}")
    suite = load_suite(suite, settings)
    if methods is not None:
        suite = make_suite(
            "methods", {**suite.model_dump(), "method": [_method(m) for m in methods]}
        )
    in_processes = jobs > 1 or run_timeout is not None
    folder = RunFolder(Path(out) if out is not None else Path("runs") / suite.name)
    digests = {m.mechanism: _digest(m, in_processes) for m in suite.methods()}
    runs = [_with_digest(config, digests) for config in suite.runs()]
    keys = {config.key for config in select(suite, tasks, only_methods, seeds)}
    names = dict.fromkeys(config.task for config in runs if config.key in keys)
    folders = _path(data), _path(tfds_folder)
    sources = {name: _find_source(suite, name, *folders) for name in names}
    vectors = _vectors_digest(suite, _path(glove))
    read = {
        name: {"source": found.kind, "data_digest": found.digest(), "glove_digest": vectors}
        for name, found in sources.items()
    }
    runs = [config.model_copy(update=read.get(config.task, {})) for config in runs]
    chosen = [config for config in runs if config.key in keys]
    with folder.locked():
        done = {config.key for config in runs if folder.is_done(config)}
        pending = [config for config in chosen if config.key not in done]
        folder.open(suite)
        cells = [
            Cell(list(runs), folder.path, folders[0], _path(glove), skip_bad_lines, folders[1])
            for _, runs in groupby(pending, key=lambda config: (config.task, config.method))
        ]
        with Progress(folder.path, len(chosen), pending, jobs, quiet=quiet) as progress:
            num_methods = len({config.method for config in chosen})
            num_seeds = len({config.seed for config in chosen})
            for source in sources.values():
                if suite.source == "auto" and source.kind == "tfds":
                    progress.say(f"{source.task.name}: from TFDS, {source}")
            if num_methods > 1:
                progress.say(what_can_be_shown(num_methods, num_seeds, suite.alpha))
            if cells and in_processes:
                run_in_processes(cells, jobs, progress.tell, run_timeout)
            else:
                check_methods(pending, folder.path)
                for cell in cells:
                    run_cell(cell, progress.tell)
    return read_results(folder.path)


def _method(method: Method | type | str) -> dict[str, Any]:
    if isinstance(method, Method):
        return method.model_dump()
    return {"mechanism": method}


def _digest(method: Method, in_processes: bool) -> str | None:
    """Of the class of a layer of one's own, so that runs of an older one are not taken for its.

    Raises:
        SuiteError: Where it cannot be imported; said once, before the first run.
    """
    if method.mechanism in MECHANISMS:
        return None
    if find_mechanism(method.mechanism).reads == "text":
        return _saved_model_digest(method)
    if in_processes and method.mechanism.startswith("__main__:"):
        raise SuiteError(
            f"method {method.name}: {method.mechanism} cannot be imported by worker processes: "
            "put it into a module, or use jobs=1"
        )
    try:
        source = inspect.getsource(load(method.mechanism))
    except (OSError, TypeError):
        return None  # written at a prompt, or compiled: there is no source to tell it by
    except ValueError as error:
        raise SuiteError(f"method {method.name}: {error}") from error
    except Exception as error:
        raise SuiteError(
            f"method {method.name}: cannot import {method.mechanism}: "
            f"{type(error).__name__}: {error}"
        ) from error
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def _saved_model_digest(method: Method) -> str:
    """Of a saved model's files."""
    folder = Path(find_mechanism(method.mechanism).options["path"])
    if not (folder / "saved_model.pb").is_file():
        raise SuiteError(
            f"method {method.name}: expected a folder with a saved_model.pb. Received: {folder}"
        )
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(path.relative_to(folder).as_posix().encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def _with_digest(config: RunConfig, digests: Mapping[str, str | None]) -> RunConfig:
    return config.model_copy(update={"mechanism_digest": digests[config.mechanism]})


def _find_source(suite: Suite, name: str, data: Path | None, tfds_folder: Path | None) -> Source:
    """Where a task's text is; what is missing for all runs is said once, before the first."""
    if suite.source in ("miniglue", "tfds") and data is not None:
        where = {"miniglue": "has embedded data", "tfds": "has source = 'tfds'"}[suite.source]
        raise SuiteError(f"suite {suite.name} {where}. Received: --data {data}")
    return find_source(suite.entry(name), suite.source, data, tfds_folder)


def _vectors_digest(suite: Suite, glove: Path | None) -> str | None:
    """SHA-256 of the file of word vectors, where the suite starts from them."""
    if suite.embeddings == "random":
        if glove is not None:
            raise SuiteError(
                f"suite {suite.name} starts from random embeddings, --set embeddings=glove makes "
                f"it start from word vectors. Received: --glove {glove}"
            )
        return None
    if glove is None:
        raise SuiteError("embeddings = 'glove' needs --glove FILE; none was given")
    if not glove.is_file():
        raise SuiteError(f"--glove {glove}: no such file")
    check_glove(glove, suite.embedding_dim)
    return digest_of_file(glove).hex()


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path).expanduser()
