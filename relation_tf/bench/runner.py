"""A suite from its question to its results."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console

from relation_tf.bench.groups import EventCallback, RunGroup, check_methods, run_group
from relation_tf.bench.hosts import connect_hosts
from relation_tf.bench.layer_source import layer_digest
from relation_tf.bench.planning import SuitePlan, make_plan
from relation_tf.bench.processes import run_in_processes
from relation_tf.bench.progress import Progress
from relation_tf.bench.ray_cluster import RunResources, run_on_ray
from relation_tf.bench.results import Results, read_results
from relation_tf.bench.run_folder import RunFolder
from relation_tf.config.loading import load_suite, make_suite, select
from relation_tf.config.method import Method
from relation_tf.config.run import RunConfig
from relation_tf.config.suite import Suite
from relation_tf.errors import SuiteError
from relation_tf.networks.mechanisms import find_mechanism
from relation_tf.stats import default_procedure, what_can_be_shown
from relation_tf.tasks.catalogue import find_source, find_task
from relation_tf.tasks.glove import check_glove
from relation_tf.tasks.sources import TaskSource, digest_of_file
from relation_tf.training.distribution import Distribution, make_distribution
from relation_tf.training.pretrained import pretrained_digest
from relation_tf.training.session import LOG


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
    jobs: int | None = None,
    run_timeout: float | None = None,
    executor: str = "local",
    address: str | None = None,
    resources: RunResources | None = None,
    strategy: str | None = None,
    devices: int | None = None,
    deterministic: bool = False,
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
        jobs: Runs at once, by default 1, and on a cluster as many as it has room for. Above 1 they
            run in processes of their own, of which one that dies costs only its run; what they give
            is the same.
        run_timeout: Seconds after which a run is ended and has failed; it then runs in a process of
            its own whatever `jobs` is. The same call goes on from its last epoch.
        executor: `"local"`, or `"ray"` to send the runs to a Ray cluster; what they give is the
            same, and comes back.
        address: Of the cluster's head, `HOST:PORT`, or `"auto"` for the one of this machine.
        resources: What is set aside on the cluster for a run, by default a CPU for each thread.
        strategy: `"mirrored"` to share each run among the devices of this host, `"multi-worker"`
            among those of all hosts that the environment variable `TF_CONFIG` names: each makes the
            same call, and the chief writes what the runs give. By default a run has one device.
        devices: How many devices `"mirrored"` takes, by default all; without a GPU the CPU is
            parted into so many.
        deterministic: Whether TensorFlow's operations are to give the same bits each time, on a GPU
            too, for as long as the process lasts; XLA is then off. On a CPU they do without.
        settings: Keys to set over what the suite says, such as `{"stopping": "early_stopping"}`.
        skip_bad_lines: Leave out malformed lines of training files and count them.
        quiet: Print nothing.

    Returns:
        The results of all finished runs in the folder; on hosts beside the chief, of none.

    Raises:
        SuiteError: For a suite, option or folder that cannot be, and where one of several hosts
            is lost.

    Example:
        >>> import tempfile
        >>> from relation_tf.bench import run_suite
        >>> one = {"tasks": ["WNLI"], "only_methods": ["baseline-64"], "seeds": [1]}
        >>> results = run_suite("demo", tempfile.mkdtemp(), **one, quiet=True)
        >>> results.metrics[["task", "method", "seed", "metric"]].to_numpy().tolist()
        [['WNLI', 'baseline-64', 1, 'accuracy']]
    """
    distribution = make_distribution(strategy, devices)
    suite = _asked(suite, settings, methods)
    asked = select(suite, tasks, only_methods, seeds)
    at_once = 1 if jobs is None else jobs
    _check_options(asked, at_once, run_timeout, distribution)
    _check_cluster(executor, address, resources, distribution)
    if executor == "ray" and suite.pretrained is not None:
        raise SuiteError(
            "executor: expected local for a suite that is pretrained: its folder is not sent to "
            f"other machines. Received: ray, with pretrained = {suite.pretrained!r}"
        )
    whole = RunGroup(
        asked,
        Path(out) if out is not None else Path("runs") / suite.name,
        data=_path(data),
        tfds_folder=_path(tfds_folder),
        glove=_path(glove),
        skip_bad_lines=skip_bad_lines,
        distribution=distribution,
        deterministic=deterministic,
    )
    with connect_hosts(distribution, suite.threads, quiet) as hosts:
        in_processes = at_once > 1 or run_timeout is not None or executor == "ray"
        request = _request(suite, whole, in_processes)
        folder = RunFolder(whole.folder if hosts.is_chief else hosts.scratch)
        with folder.locked(), hosts.log_to(folder.path / LOG):
            pending = hosts.agree_on_pending(
                request.chosen, request.pending(folder), deterministic, skip_bad_lines
            )
            change = folder.change(suite)
            folder.open(suite)
            cells = [
                replace(whole, runs=list(runs), folder=folder.path)
                for _, runs in groupby(
                    _in_turn(pending) if suite.timed else pending,
                    key=lambda config: (config.task, config.method),
                )
            ]
            quiet = quiet or not hosts.is_chief
            total = len(request.chosen)
            with Progress(folder.path, total, pending, at_once, quiet=quiet) as progress:
                alone = jobs == 1 or (jobs is None and executor == "local")
                for line in (
                    *filter(None, [change]),
                    *_foreword(request, folder, deterministic, alone),
                ):
                    progress.say(line)
                if cells and address is not None:
                    run_on_ray(cells, progress.notify, address, resources, jobs, run_timeout)
                else:
                    _execute(cells, progress.notify, at_once, run_timeout)
        if not hosts.is_chief:
            return Results(whole.folder, suite, [], [])
        return read_results(folder.path)


def plan_suite(
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
    settings: Mapping[str, Any] | None = None,
    skip_bad_lines: bool = False,
    quiet: bool = False,
) -> SuitePlan:
    """Say what `run_suite` will take with the same arguments; it runs nothing.

    A few steps of some cells are timed on this machine, which takes seconds a cell; runs that are
    done in the folder say what theirs take. The data is encoded, and kept for the runs.

    Args:
        suite: As for `run_suite`, and so are all others.
        out: The folder of the runs.
        methods: Methods in place of the suite's.
        tasks: These tasks only.
        only_methods: These methods only.
        seeds: These seeds only.
        data: The folder that holds the tasks' files.
        tfds_folder: The folder of TFDS's prepared sets.
        glove: A file of word vectors.
        jobs: Runs at once.
        settings: Keys to set over what the suite says.
        skip_bad_lines: Leave out malformed lines of training files.
        quiet: Print nothing of what is timed.

    Returns:
        Runs, hours, disk, and what the seeds can show; `print` shows it.

    Raises:
        SuiteError, DataError: As `run_suite`.

    Example:
        >>> import tempfile
        >>> from relation_tf.bench import plan_suite
        >>> one = {"tasks": ["WNLI"], "only_methods": ["baseline-64"]}
        >>> plan = plan_suite("demo", tempfile.mkdtemp(), **one, quiet=True)
        >>> plan.total, plan.hours[0] < plan.hours[1]
        (5, True)
    """
    suite = _asked(suite, settings, methods)
    asked = select(suite, tasks, only_methods, seeds)
    _check_options(asked, jobs, None, None)
    whole = RunGroup(
        asked,
        Path(out) if out is not None else Path("runs") / suite.name,
        data=_path(data),
        tfds_folder=_path(tfds_folder),
        glove=_path(glove),
        skip_bad_lines=skip_bad_lines,
    )
    request = _request(suite, whole, in_processes=jobs > 1)
    pending = request.pending(RunFolder(whole.folder))
    say = Console(quiet=quiet, highlight=False, soft_wrap=True).print
    return make_plan(suite, request.chosen, pending, whole, jobs, say)


def _in_turn(runs: Sequence[RunConfig]) -> list[RunConfig]:
    """Of each task a seed of every method, then the next seed.

    What is timed depends on what else the machine does: for a while, and not for one method.
    """
    tasks = [*dict.fromkeys(run.task for run in runs)]
    return sorted(runs, key=lambda run: (tasks.index(run.task), run.seed))


def _execute(
    cells: Sequence[RunGroup], notify: EventCallback, jobs: int, run_timeout: float | None
) -> None:
    """Give the cells to what runs them."""
    if not cells:
        return
    if jobs > 1 or run_timeout is not None:
        run_in_processes(cells, jobs, notify, run_timeout)
    else:
        runs = [run for cell in cells for run in cell.runs]
        check_methods(runs, cells[0].folder, cells[0].distribution)
        for cell in cells:
            run_group(cell, notify)


def _check_options(
    asked: Sequence[RunConfig],
    jobs: int,
    run_timeout: float | None,
    distribution: Distribution | None,
) -> None:
    """Refuse options that cannot be, or that do not go together."""
    if jobs < 1:
        raise SuiteError(f"jobs: expected 1 or more. Received: {jobs}")
    if run_timeout is not None and not run_timeout > 0:
        raise SuiteError(f"run_timeout: expected seconds above 0. Received: {run_timeout:g}")
    if distribution is None:
        return
    timed = next((run.task for run in asked if find_task(run.entry).timed), None)
    if timed is not None:
        raise SuiteError(
            f"strategy: expected none for {timed}, which is timed on one device. "
            f"Received: {distribution.strategy}"
        )
    if jobs > 1:
        raise SuiteError(
            f"jobs: expected 1 with --strategy {distribution.strategy}, which gives each run all "
            f"devices. Received: {jobs}"
        )
    if run_timeout is not None:
        raise SuiteError(
            f"run_timeout: expected none with --strategy {distribution.strategy}, which trains in "
            f"this process. Received: {run_timeout:g}"
        )
    if any(config.xla for config in asked):
        raise SuiteError(
            f"key 'xla': expected false with --strategy {distribution.strategy}: XLA compiles the "
            "step of one device. Received: true"
        )


def _check_cluster(
    executor: str,
    address: str | None,
    resources: RunResources | None,
    distribution: Distribution | None,
) -> None:
    """Refuse what does not go with the executor."""
    if executor not in ("local", "ray"):
        raise SuiteError(f"executor: expected local or ray. Received: {executor}")
    if executor == "local":
        for name, value in (("address", address), ("resources of a run", resources)):
            if value is not None:
                raise SuiteError(f"{name}: expected --executor ray beside it. Received: {value}")
    elif address is None:
        raise SuiteError(
            "--executor ray needs --address HOST:PORT of a cluster's head; none was given"
        )
    elif distribution is not None:
        raise SuiteError(
            f"executor: expected local with --strategy {distribution.strategy}, which has hosts "
            "and devices of its own. Received: ray"
        )


@dataclass(frozen=True)
class _Request:
    """What a call asks for.

    Attributes:
        suite: The suite.
        runs: All its runs, with the digests of what they are made from where that is asked for.
        chosen: The runs that are asked for.
        sources: Where their tasks' text was found.
    """

    suite: Suite
    runs: list[RunConfig]
    chosen: list[RunConfig]
    sources: Mapping[str, TaskSource]

    def pending(self, folder: RunFolder) -> list[RunConfig]:
        """What is asked for and not done; all that is done must have been made as now asked."""
        done = {config.key for config in self.runs if folder.is_done(config)}
        return [config for config in self.chosen if config.key not in done]


def _asked(
    suite: str | Path | Suite,
    settings: Mapping[str, Any] | None,
    methods: Sequence[Method | type | str] | None,
) -> Suite:
    suite = load_suite(suite, settings)
    if methods is None:
        return suite
    return make_suite("methods", {**suite.model_dump(), "method": [_method(m) for m in methods]})


def _request(suite: Suite, whole: RunGroup, in_processes: bool) -> _Request:
    """What is missing for all runs is said here, once."""
    runs = suite.runs()
    one_each = {run.custom_layer: run for run in runs}
    digests = {layer: _digest(layer, run, in_processes) for layer, run in one_each.items()}
    runs = [run.model_copy(update={"mechanism_digest": digests[run.custom_layer]}) for run in runs]
    keys = {config.key for config in whole.runs}
    names = dict.fromkeys(config.task for config in runs if config.key in keys)
    sources = {name: _find_source(suite, name, whole.data, whole.tfds_folder) for name in names}
    vectors = _vectors_digest(suite, whole.glove)
    read = {
        name: {
            **({} if found.kind == "generated" else {"source": found.kind}),
            "data_digest": found.digest(),
            "glove_digest": vectors,
        }
        for name, found in sources.items()
    }
    runs = [config.model_copy(update=read.get(config.task, {})) for config in runs]
    runs = [_with_pretrained(config) if config.key in keys else config for config in runs]
    return _Request(suite, runs, [config for config in runs if config.key in keys], sources)


def _with_pretrained(config: RunConfig) -> RunConfig:
    """A run with the digest of what it starts from, if only of the vocabulary."""
    if config.pretrained is None:
        return config
    digest = pretrained_digest(config.pretrained)
    if config.encoder_weights != "random":
        try:
            digest = pretrained_digest(config.pretrained, config.mixes, config.seed)
        except SuiteError as error:
            raise SuiteError(
                f"{error}; {config.method} starts from it, or with start = 'random' from none"
            ) from error
    return config.model_copy(update={"pretrained_digest": digest})


def _foreword(
    request: _Request, folder: RunFolder, deterministic: bool, alone: bool
) -> Iterator[str]:
    """What is to be known before the first run."""
    if request.suite.timed and not alone:
        yield "runs side by side take each other's time; --jobs 1 times each alone"
    for source in request.sources.values():
        if request.suite.source == "auto" and source.kind == "tfds":
            yield f"{source.task.name}: from TFDS, {source}"
    if deterministic and any(config.xla for config in request.chosen):
        yield "XLA is off: op determinism does not hold for what it compiles"
    # Of all that the report will hold, which are the runs that are there already too.
    reported = [*request.chosen, *(run for run in request.runs if folder.has_result(run))]
    num_methods = len({config.method for config in reported})
    if num_methods > 1:
        num_seeds = len({config.seed for config in reported})
        test = default_procedure(request.suite.control)
        yield what_can_be_shown(num_methods, num_seeds, request.suite.alpha, test=test)


def _method(method: Method | type | str) -> dict[str, Any]:
    if isinstance(method, Method):
        return method.model_dump()
    return {"mechanism": method}


def _digest(layer: str | None, run: RunConfig, in_processes: bool) -> str | None:
    """Of the source of a layer of one's own.

    Raises:
        SuiteError: Where it cannot be imported; said once, before the first run.
    """
    if layer is None:
        return None
    if in_processes and layer.startswith("__main__:"):
        raise SuiteError(
            f"method {run.method}: {layer} cannot be imported by worker processes: "
            "put it into a module, or use jobs=1"
        )
    try:
        entry = find_mechanism(layer)
        if entry.input_type == "text":
            return _saved_model_digest(Path(entry.options["path"]))
        return layer_digest(layer)
    except ValueError as error:
        raise SuiteError(f"method {run.method}: {error}") from error
    except Exception as error:
        raise SuiteError(
            f"method {run.method}: cannot import {layer}: {type(error).__name__}: {error}"
        ) from error


def _saved_model_digest(folder: Path) -> str:
    """Of a saved model's files."""
    if not (folder / "saved_model.pb").is_file():
        raise ValueError(f"expected a folder with a saved_model.pb. Received: {folder}")
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(path.relative_to(folder).as_posix().encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def _find_source(
    suite: Suite, name: str, data: Path | None, tfds_folder: Path | None
) -> TaskSource:
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
