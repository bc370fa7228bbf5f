"""Run a suite: check it, execute the pending runs, read the results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from relation_tf.bench import workers
from relation_tf.bench.inputs import (
    check_folders,
    check_requirements,
    encoder_digest,
    vectors_digest,
)
from relation_tf.bench.layer_checks import check_layers
from relation_tf.bench.options import RunOptions, accepts_options, make_options
from relation_tf.bench.progress import Progress
from relation_tf.bench.results import Results, read_results
from relation_tf.bench.run_folder import RunFolder, count_diverged
from relation_tf.bench.sweeping import check_no_untuned_runs, tune
from relation_tf.bench.tracking import check_trackers
from relation_tf.bench.train import (
    EventCallback,
    RunGroup,
    build_methods,
    group_runs,
    train_shared,
)
from relation_tf.config import Method, RunConfig, Suite, load_suite
from relation_tf.config.layer_source import callbacks_digest, custom_digest
from relation_tf.config.loading import drop_other_methods, make_suite, select
from relation_tf.config.plugins import plugins_digest, shaping_plugins
from relation_tf.config.run import RunKey
from relation_tf.files import expand_home
from relation_tf.registry import EXECUTORS
from relation_tf.tasks.catalogue import find_source
from relation_tf.tasks.official import shortfalls
from relation_tf.tasks.sources import TaskSource
from relation_tf.training.session import check_tensorflow


@accepts_options()
@workers.ends_workers
def run_suite(
    suite: str | Path | Suite,
    out: str | Path | None = None,
    *,
    methods: str | Iterable[str] | None = None,
    tasks: str | Iterable[str] | None = None,
    seeds: int | Iterable[int] | None = None,
    settings: Mapping[str, Any] | None = None,
    replace_methods: Sequence[Method | type | str] | None = None,
    **options: Any,
) -> Results:
    """Train the pending runs of a suite and read the results of all runs.

    Finished runs are kept. Safe to interrupt: the same call resumes.

    Args:
        suite: A name of `list_suites()`, a TOML file, or a `Suite`.
        out: The folder of the runs, by default `runs/<suite>`.
        methods: Names of the methods to run, by default all. The name of a mechanism, such as
            `"relation"`, selects all its methods.
        tasks: Tasks to run, by default all.
        seeds: Seeds to run, by default all.
        settings: Suite keys to override, such as `{"epochs": 10}`.
        replace_methods: Methods to use instead of the suite's: `Method`s, Keras layer classes or
            names of mechanisms. A reference or control that is not among them no longer applies,
            nor does its margin.
        **options: Fields of `relation_tf.bench.RunOptions`: `data`, `jobs`, `executor` and others.

    Returns:
        The results of all finished runs in the folder.

    Raises:
        SuiteError: If a suite, option or folder cannot be used.
        TypeError: If an option is unknown.

    Example:
        >>> import tempfile
        >>> from relation_tf.bench import run_suite
        >>> one = {"tasks": ["WNLI"], "methods": ["baseline-64"], "seeds": [1]}
        >>> results = run_suite("demo", tempfile.mkdtemp(), **one, quiet=True)
        >>> results.metrics[["task", "method", "seed", "metric"]].to_numpy().tolist()
        [['WNLI', 'baseline-64', 1, 'accuracy']]
    """
    made = make_options(options)
    suite = load(suite, settings, replace_methods, made.plugins)
    folder = folder_of(suite, out)
    tasks, methods, seeds = _listed(tasks), _listed(methods), _listed(seeds)
    EXECUTORS.find(made.executor)
    check_trackers(made.track)
    if suite.sweep is not None:
        # What the runs after the sweep need: no error comes after hours of tuning.
        runs = select(suite, tasks, methods, seeds)
        check_requirements(suite, runs, made)
        RunFolder(folder).check_runs(suite)
        check_no_untuned_runs(suite, folder, runs)
        say = Console(quiet=made.quiet, highlight=False, soft_wrap=True).print
        once = replace(made, track=())

        def train(tuning: Suite, path: Path, names: list[str] | None) -> Results:
            runs = select(tuning, tasks, names, None)
            return _train_pending(tuning, runs, RunFolder(path), once)

        suite = tune(suite, folder, train, say, tasks, methods)
    runs = select(suite, tasks, methods, seeds)
    return _train_pending(suite, runs, RunFolder(folder), made)


def _listed(selection: Any) -> Any:
    """Return a selection that can be read several times."""
    return [*selection] if isinstance(selection, Iterator) else selection


def _train_pending(
    suite: Suite,
    runs: Sequence[RunConfig],
    folder: RunFolder,
    options: RunOptions,
) -> Results:
    """Train the pending runs of a suite whose settings are known.

    Args:
        suite: The suite.
        runs: The requested runs.
        folder: The folder of the suite.
        options: Options of the call.
    """
    check_requirements(suite, runs, options)
    request = request_of(suite, runs, options)
    done = request.done(folder)
    pending = [run for run in request.chosen if run.key not in done]
    folder.check_runs(suite)
    folder.check_locked(pending)
    lines = check_layers(_unlocked(pending, folder), folder, options)
    lines += [
        *notes_of(request, options),
        *(f"{each}: run again" for each in folder.damaged(pending)),
    ]
    lost = count_diverged(folder, request.chosen, pending)

    def train(free: Sequence[RunConfig], notify: EventCallback) -> None:
        groups = [
            RunGroup(part, folder.path, options, suite.save_models)
            for part in group_runs(suite, free, options.jobs or 1)
        ]
        EXECUTORS.find(options.executor)(groups, notify, options)

    with Progress(folder.path, len(runs), pending, lost, quiet=options.quiet) as progress:
        for line in lines:
            progress.say(line)
        if free := _unlocked(pending, folder):
            build_in_worker(free, options)
        folder.open(suite)
        train_shared(pending, folder, progress, train)
    return read_results(folder.path)


def load(
    suite: str | Path | Suite,
    settings: Mapping[str, Any] | None,
    methods: Sequence[Method | type | str] | None,
    plugins: Sequence[str],
) -> Suite:
    """Load a suite for runs, with other settings and methods, see `run_suite`."""
    check_tensorflow()
    suite = load_suite(suite, settings, plugins)
    if methods is None:
        return suite
    replaced = [
        each.model_dump() if isinstance(each, Method) else {"mechanism": each} for each in methods
    ]
    values = {**suite.model_dump(), "method": replaced}
    drop_other_methods("replace_methods", values, settings or {})
    return make_suite("replace_methods", values)


def folder_of(suite: Suite, out: str | Path | None) -> Path:
    """Return the folder of a suite's runs."""
    return expand_home(out) if out is not None else Path("runs") / suite.name


def _unlocked(runs: Sequence[RunConfig], folder: RunFolder) -> list[RunConfig]:
    """Return the runs that no other process trains."""
    return [run for run in runs if not folder.is_locked(run)]


def build_in_worker(runs: Sequence[RunConfig], options: RunOptions) -> None:
    """Build the network of each method in a worker process, see `build_methods`."""
    one_of_each = [*{run.method: run for run in runs}.values()]
    workers.call(build_methods, one_of_each, options, runs=one_of_each)


@dataclass(frozen=True)
class Request:
    """Requested runs of a suite.

    Attributes:
        suite: The suite.
        runs: All runs of the suite; the requested runs have digests of their data.
        chosen: The requested runs.
        sources: Data sources of their tasks.
    """

    suite: Suite
    runs: list[RunConfig]
    chosen: list[RunConfig]
    sources: Mapping[str, TaskSource]

    def done(self, folder: RunFolder) -> set[RunKey]:
        """Return the keys of all finished runs.

        Reads all files of these runs, for their checksums.

        Raises:
            SuiteError: If a finished run has another configuration.
        """
        done = [config for config in self.runs if folder.is_done(config)]
        for config in done:
            folder.check_configuration(config)
        return {config.key for config in done}


def request_of(suite: Suite, chosen: Sequence[RunConfig], options: RunOptions) -> Request:
    """Find the layers, data and word vectors of the requested runs."""
    runs, digests = suite.runs(), {}
    for layers, method in {tuple(run.custom_layers): run.method for run in runs}.items():
        digests[layers] = custom_digest(layers, f"method {method}")
    callbacks = callbacks_digest(suite.callbacks)
    plugins = plugins_digest(shaping_plugins(suite.plugins))
    check_folders(suite, options.data, options.tfds_folder, options.skip_bad_lines)
    keys = {config.key for config in chosen}
    vectors = vectors_digest(suite, chosen, options.glove)
    sources = {
        name: find_source(suite.entry(name), suite.source, options.data, options.tfds_folder)
        for name in dict.fromkeys(config.task for config in chosen)
    }
    read: dict[tuple[str, str], dict[str, Any]] = {
        (name, vocabulary): {"data_digests": sources[name].training_digests(vocabulary)}
        | ({} if sources[name].kind == "generated" else {"source": sources[name].kind})
        for name, vocabulary in dict.fromkeys((run.task, run.vocabulary) for run in chosen)
    }
    made = []
    for run in runs:
        known = {"mechanism_digest": digests[tuple(run.custom_layers)], "plugins_digest": plugins}
        known["callbacks_digest"] = callbacks
        known["glove_digest"] = vectors if run.embeddings == "glove" else None
        if run.key in keys:
            known["pretrained_digest"] = encoder_digest(run)
        made.append(run.model_copy(update=known | read.get((run.task, run.vocabulary), {})))
    return Request(suite, made, [run for run in made if run.key in keys], sources)


def notes_of(request: Request, options: RunOptions) -> Iterator[str]:
    """Yield notes on the machine and the data."""
    alone = options.jobs == 1 or (options.jobs is None and options.executor == "local")
    if request.suite.timed and not alone:
        yield "parallel runs slow each other down; use --jobs 1 for exact times"
    found = [each for source in request.sources.values() for each in shortfalls(source)]
    if found:
        files = "; ".join(map(str, found))
        yield (
            f"warning: no complete test set for {files}. These runs keep their weights: "
            "when the files are complete, `relation-tf predict` adds the predictions"
        )
