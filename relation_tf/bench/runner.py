"""Run a suite: check it, execute the pending runs, read the results."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relation_tf.bench import workers
from relation_tf.bench.options import RunOptions, accepts_options, make_options
from relation_tf.bench.progress import Progress
from relation_tf.bench.results import Results, read_results
from relation_tf.bench.run_folder import RunFolder, count_diverged
from relation_tf.bench.workers import EventCallback, RunGroup, group_runs, train_shared
from relation_tf.config import Method, Suite, load_suite
from relation_tf.config.run import RunConfig
from relation_tf.config.suite import select
from relation_tf.config.user_code import (
    callbacks_digest,
    custom_digest,
    load_plugins,
    plugins_digest,
    shaping_plugins,
)
from relation_tf.errors import RelationError, SuiteError, one_line
from relation_tf.files import expand_home
from relation_tf.networks.mechanisms import find_mechanism
from relation_tf.registry import SOURCES
from relation_tf.tasks.catalogue import find_source, find_task
from relation_tf.tasks.metrics import check_installed
from relation_tf.tasks.sources import TaskSource, digest_of_file, shortfalls
from relation_tf.terminal import stderr_to
from relation_tf.training.session import check_tensorflow, start_tensorflow

if TYPE_CHECKING:
    from relation_tf.networks.check.report import Fault


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
    replace_methods: Sequence[Method | Mapping[str, Any] | type | str] | None = None,
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
        replace_methods: Methods to use instead of the suite's: `Method`s, dictionaries of their
            keys, Keras layer classes or names of mechanisms. A reference or control that is not
            among them no longer applies, nor does its margin.
        **options: Fields of `relation_tf.bench.RunOptions`: `data`, `jobs`, `quiet` and others.

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
    run_options = make_options(options)
    suite = load(suite, settings, replace_methods, run_options.plugins)
    folder = RunFolder(folder_of(suite, out))
    tasks, methods, seeds = _listed(tasks), _listed(methods), _listed(seeds)
    if suite.sweep is not None:
        from relation_tf.bench.sweeping import check_no_untuned_runs, tune

        # What the runs after the sweep need: no error comes after hours of tuning.
        runs = select(suite, tasks, methods, seeds)
        check_metrics(runs)
        folder.check_runs(suite)
        check_no_untuned_runs(suite, folder.path, runs)

        def train_tuning(tuning: Suite, path: Path, names: list[str] | None) -> Results:
            runs = select(tuning, tasks, names, None)
            return _train_pending(tuning, runs, RunFolder(path, folder.began), run_options)

        suite = tune(suite, folder.path, train_tuning, run_options.say, tasks, methods)
    runs = select(suite, tasks, methods, seeds)
    return _train_pending(suite, runs, folder, run_options)


def _listed(selection: Any) -> Any:
    """Return a selection that can be read more than once."""
    return [*selection] if isinstance(selection, Iterator) else selection


def _train_pending(
    suite: Suite,
    runs: Sequence[RunConfig],
    folder: RunFolder,
    options: RunOptions,
) -> Results:
    """Train the pending runs of a suite whose settings are known."""
    check_metrics(runs)
    requested = find_requested(suite, runs, options)
    pending = requested.pending(folder)
    folder.check_runs(suite)
    folder.check_locked(pending)
    lines = [
        *record_layer_checks(_unlocked(pending, folder), folder, options),
        *notes_of(requested, options),
        *(f"{fault}: run again" for fault in folder.damaged(pending)),
    ]
    lost = count_diverged(folder, requested.runs, pending)

    def execute(free: Sequence[RunConfig], notify: EventCallback) -> None:
        groups = [
            RunGroup(part, folder.path, options, suite.save_models, began=folder.began)
            for part in group_runs(suite, free, options.jobs or 1)
        ]
        workers.run_locally(groups, notify, options.jobs or 1)

    with Progress(folder.path, len(runs), pending, lost, quiet=options.quiet) as progress:
        for line in lines:
            progress.say(line)
        if free := _unlocked(pending, folder):
            one_of_each = [*{run.method: run for run in free}.values()]
            workers.call(build_methods, one_of_each, options, runs=one_of_each)
        folder.open(suite)
        train_shared(pending, folder, progress, execute)
    return read_results(folder.path)


def load(
    suite: str | Path | Suite,
    settings: Mapping[str, Any] | None,
    methods: Sequence[Method | Mapping[str, Any] | type | str] | None,
    plugins: Sequence[str],
) -> Suite:
    """Load a suite for runs, with other settings and methods, see `run_suite`."""
    check_tensorflow()
    if methods is not None:
        settings = {**(settings or {}), "method": [*map(_keys, methods)]}
    return load_suite(suite, settings, plugins)


def _keys(method: Method | Mapping[str, Any] | type | str) -> Mapping[str, Any]:
    if isinstance(method, Mapping):
        return method
    return method.model_dump() if isinstance(method, Method) else {"mechanism": method}


def folder_of(suite: Suite, out: str | Path | None) -> Path:
    """Return the folder of a suite's runs."""
    return expand_home(out) if out is not None else Path("runs") / suite.name


def _unlocked(runs: Sequence[RunConfig], folder: RunFolder) -> list[RunConfig]:
    """Return the runs that no other process trains."""
    return [run for run in runs if not folder.is_locked(run)]


def build_methods(configs: Sequence[RunConfig], options: RunOptions) -> None:
    """Build the network of each method, so that wrong options are reported before the first run.

    Callbacks are created. Custom layers are not built; if one fails later, the other runs continue.

    Raises:
        SuiteError: For the first method that cannot be built.
    """
    from relation_tf.bench.train import trainer_class

    load_plugins(configs[0].plugins)
    by_method = {config.method: config for config in configs}
    layers = {layer for config in by_method.values() for layer in config.custom_layers}
    free = {layer for layer in layers if find_mechanism(layer).factory == layer}
    known = [config for config in by_method.values() if not free & {*config.custom_layers}]
    log = Path(os.devnull)
    if known or configs[0].callbacks:
        threads = configs[0].threads
        start_tensorflow(log, threads, options.deterministic)
    for entry in configs[0].callbacks:  # of all methods
        from relation_tf.training.callbacks import make_callback

        make_callback(entry)
    for config in known:
        try:
            with stderr_to(log):
                trainer_class(config).try_build(config)
        except RelationError:
            raise
        except Exception as error:  # a plugin may raise anything
            raise SuiteError(f"method {config.method}: {one_line(error)}") from error


@dataclass(frozen=True)
class RequestedRuns:
    """Requested runs of a suite.

    Attributes:
        suite: The suite.
        runs: The requested runs, with digests of their data.
        others: The other runs of the suite.
        sources: Data sources of the tasks of the requested runs.
    """

    suite: Suite
    runs: list[RunConfig]
    others: list[RunConfig]
    sources: Mapping[str, TaskSource]

    def pending(self, folder: RunFolder) -> list[RunConfig]:
        """Return the unfinished runs. Reads all files of finished runs, for their checksums.

        Raises:
            SuiteError: If a finished run of the suite has another configuration.
        """
        done = {config.key for config in (*self.runs, *self.others) if folder.is_done(config)}
        for config in (*self.runs, *self.others):
            if config.key in done:
                folder.check_configuration(config)
        return [config for config in self.runs if config.key not in done]


def find_requested(suite: Suite, chosen: Sequence[RunConfig], options: RunOptions) -> RequestedRuns:
    """Find the layers, data and word vectors of the requested runs."""
    runs, digests = suite.runs(), {}
    for layers, method in {tuple(run.custom_layers): run.method for run in runs}.items():
        digests[layers] = custom_digest(layers, f"method {method}")
    callbacks = callbacks_digest(suite.callbacks)
    plugins = plugins_digest(shaping_plugins(suite.plugins))
    check_folders(suite, options.data, options.tfds_folder)
    keys = {config.key for config in chosen}
    vectors = vectors_digest(suite, chosen, options.glove)
    sources = {
        name: find_source(suite.entry(name), suite.source, options.data, options.tfds_folder)
        for name in dict.fromkeys(config.task for config in chosen)
    }
    read: dict[str, dict[str, Any]] = {}
    for name, source in sources.items():
        read[name] = {"data_digests": source.training_digests(suite.vocabulary, options.data)}
        read[name] |= {} if source.kind == "generated" else {"source": source.kind}
    configs: dict[bool, list[RunConfig]] = {True: [], False: []}  # by whether they are requested
    for run in runs:
        known = {"mechanism_digest": digests[tuple(run.custom_layers)], "plugins_digest": plugins}
        known["callbacks_digest"] = callbacks
        known["glove_digest"] = vectors if run.embeddings == "glove" else None
        if run.key in keys and run.pretrained is not None:
            from relation_tf.training.pretrained import encoder_digest

            known["pretrained_digest"] = encoder_digest(run)
        known |= read.get(run.task, {})
        configs[run.key in keys].append(run.model_copy(update=known))
    return RequestedRuns(suite, configs[True], configs[False], sources)


def notes_of(requested: RequestedRuns, options: RunOptions) -> Iterator[str]:
    """Yield notes on the machine and the data."""
    if requested.suite.timed and (options.jobs or 1) > 1:
        yield "parallel runs slow each other down; use --jobs 1 for exact times"
    sources = requested.sources.values()
    if incomplete := [shortfall for source in sources for shortfall in shortfalls(source)]:
        files = "; ".join(incomplete)
        yield (
            f"warning: no complete test set for {files}. These runs cannot be submitted: complete "
            "the files first, if you want to"
        )


def check_metrics(chosen: Sequence[RunConfig]) -> None:
    """Check that the packages of all metrics are installed.

    Raises:
        MissingPackageError: If one is not.
    """
    check_installed({metric for config in chosen for metric in find_task(config.entry).metrics})


def check_folders(suite: Suite, data: str | Path | None, tfds_folder: str | Path | None) -> None:
    """Check that the data source of a suite reads the given folders.

    Raises:
        SuiteError: If it does not read one of them, or all tasks are generated.
    """
    has, reads = f"source = {suite.source!r}, which reads", SOURCES[suite.source].reads
    if all(task.generated for task in suite.learned()):
        has, reads = "only generated tasks, which read", ()
    for name, folder, what in (
        ("data", data, "folder of files"),
        ("tfds", tfds_folder, "TFDS datasets"),
    ):
        if folder is not None and name not in reads:
            raise SuiteError(f"suite {suite.name} has {has} no {what}. Received: --{name} {folder}")


def vectors_digest(suite: Suite, chosen: Iterable[RunConfig], glove: Path | None) -> str | None:
    """Return the SHA-256 of the word vectors, or None if there are none.

    Args:
        suite: The suite.
        chosen: The requested runs.
        glove: File of the vectors.

    Raises:
        SuiteError: If no method of the suite uses the file, or requested runs lack it.
        DataError: If the file has no vectors of a width of the requested runs.
    """
    used = {suite.settings_of(method, task)["embeddings"]
            for task in suite.tasks for method in suite.methods()}  # fmt: skip
    if used == {"random"}:
        swept = suite.sweep is not None and "embeddings" in suite.sweep.values
        if glove is not None and not swept:  # a sweep can choose random embeddings
            raise SuiteError(
                f"suite {suite.name} has random embeddings; add --set embeddings=glove to start "
                f"from word vectors. Received: --glove {glove}"
            )
        return None
    widths = {run.embedding_dim for run in chosen if run.embeddings == "glove"}
    if glove is None and widths:
        raise SuiteError("embeddings = 'glove' needs --glove FILE")
    if glove is None:
        return None
    if not glove.is_file():
        raise SuiteError(f"--glove {glove}: no such file")
    from relation_tf.tasks.glove import check_glove

    for width in sorted(widths):
        check_glove(glove, width)
    return digest_of_file(glove).hex()


def record_layer_checks(
    configs: Sequence[RunConfig], folder: RunFolder, options: RunOptions
) -> list[str]:
    """Check the custom layers of runs, and record the failing ones in the folder.

    Args:
        configs: The pending runs.
        folder: The folder of the suite.
        options: Options of the run.

    Returns:
        A note for each method with a failing layer.

    Raises:
        SuiteError: If a layer fails and the options do not allow it, or an option of a layer is
            unknown.
    """
    checked = find_faults(configs, options)
    failing = {name: faults for name, faults in checked.items() if faults}
    if failing and not options.allow_failing_checks:
        name, faults = next(iter(failing.items()))
        raise SuiteError(f"method {name}: {refusal(faults)}")
    if checked:
        words = {
            name: " ".join(f"{fault.check}: {fault.message}" for fault in faults)
            for name, faults in failing.items()
        }
        folder.record_failing_layers(checked, words)
    return [
        f"method {name}: {sentence(faults)} It is trained and marked in reports."
        for name, faults in failing.items()
    ]


def find_faults(configs: Sequence[RunConfig], options: RunOptions) -> dict[str, Sequence[Fault]]:
    """Return the failed checks of each method with a custom layer.

    Args:
        configs: The pending runs.
        options: Options of the run.

    Raises:
        SuiteError: If an option of a layer is unknown.
    """
    methods = {config.method: config for config in configs if not config.has_built_in_layer}
    # Networks of generated tasks read all tokens, those of other tasks one.
    one_read = {config.method for config in configs if not find_task(config.entry).generated}
    keys = {name: _layer(config, name in one_read) for name, config in methods.items()}
    # Widths of one layer are checked once.
    layers = {keys[name]: (config, name not in one_read)
              for name, config in reversed(methods.items())}  # fmt: skip
    faults = {key: _check(*layer, options) for key, layer in layers.items()}
    return {name: faults[key] for name, key in keys.items()}


def _layer(config: RunConfig, one_read: bool) -> str:
    options = config.model_dump(mode="json", include={"options"})["options"]  # dates as text
    return json.dumps([config.mechanism, options, config.precision, one_read], sort_keys=True)


def sentence(faults: Sequence[Fault]) -> str:
    """Return a sentence that names the first failed check."""
    layer, name, message = faults[0]
    return f"{layer} fails the layer check {name!r}: {message}"


def refusal(faults: Sequence[Fault]) -> str:
    """Return the failed check of a layer that is not trained, and what to do."""
    return (
        f"{sentence(faults)} Fix the layer, or add --allow-failing-checks "
        "(allow_failing_checks=True) to train it"
    )


def _check(config: RunConfig, all_read: bool, options: RunOptions) -> list[Fault]:
    try:
        faults: list[Fault] = workers.call(_faults, config, all_read, options, runs=[config])
        return faults
    except workers.WorkerEndedError as error:
        from relation_tf.networks.check.report import Fault

        return [Fault(config.mixer, "process", f"{error}, while it checked the layer.")]


def _faults(config: RunConfig, all_read: bool, options: RunOptions) -> list[Fault]:
    load_plugins(config.plugins)
    log = Path(os.devnull)
    start_tensorflow(log, config.threads, options.deterministic)
    import keras

    from relation_tf.training.building import layer_faults

    try:
        with stderr_to(log):
            return layer_faults(config, all_read=all_read)
    finally:
        keras.backend.clear_session()
