"""The command `relation-tf`. Commands import what they need when they run: help is quick."""

from __future__ import annotations

import importlib.util
import os
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from relation_tf import __version__
from relation_tf.errors import RelationError

if TYPE_CHECKING:
    from relation_tf.bench import Results, Submissions
    from relation_tf.config import RunConfig

app = typer.Typer(
    name="relation-tf",
    help="Compare token-mixing mechanisms: train, test for significance, report, submit.",
    add_completion=False,
    no_args_is_help=True,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)

# typer exports one member of its family of usage errors; the family's head is its parent.
_UsageError = cast("type[Exception]", typer.BadParameter.__base__)

Data = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of the tasks' files (glue_data ...).")
]
Tfds = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder of TFDS's prepared sets.", show_default="TFDS's own"),
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A suite's folder, as `run` makes it.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the suite; may be repeated."),
]
FillMissing = Annotated[
    bool,
    typer.Option(
        "--fill-missing",
        help="Fill tasks without predictions with the majority of their training set.",
    ),
]


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Compare token-mixing mechanisms: train, test for significance, report, submit."""
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command()
def suites() -> None:
    """List the suites that come with the package."""
    from relation_tf.config import list_suites, load_suite

    names = list_suites()
    width = max(map(len, names))
    for name in names:
        suite = load_suite(name)
        typer.echo(f"{name:{width}} {len(suite.runs()):4} runs  {suite.title}")


@app.command()
def tasks(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Show examples of these tasks.")
    ] = None,
    data: Data = None,
    tfds: Tfds = None,
    suite: Annotated[
        str | None,
        typer.Option(metavar="SUITE", help="As this suite reads them, its own tasks included."),
    ] = None,
    settings: Settings = None,
) -> None:
    """List every task and where its text is found, or show examples as a network reads them.

    What is found is encoded, which takes a while the first time and is kept for runs.
    """
    from relation_tf.config import load_suite
    from relation_tf.registry import TASKS
    from relation_tf.tasks import listing

    reading: dict[str, Any] = {}
    entries: dict[str, Any] = {name: name for name in TASKS}
    if suite is not None:
        loaded = load_suite(suite, _settings(settings or []))
        entries = {name: loaded.entry(name) for name in loaded.tasks}
        reading = {config.task: config.reading() for config in loaded.runs()}
    elif settings:
        raise typer.BadParameter("--set: is for the keys of a suite: name one with --suite")
    folders = _expanded(data), _expanded(tfds)
    if names:
        for name in names:
            described = listing.describe(entries.get(name, name), *folders, reading.get(name, {}))
            typer.echo(described)
    else:
        for line in listing.lines(entries.values(), *folders, reading):
            typer.echo(line)


@app.command()
def download(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Tasks that TFDS has.")],
    tfds: Tfds = None,
) -> None:
    """Download tasks and prepare them through TFDS; a run never downloads by itself."""
    from relation_tf.tasks.tfds import download as prepare

    for name in names:
        typer.echo(f"{name}: {prepare(name, _expanded(tfds))}")


@app.command()
def run(
    suite: Annotated[
        str, typer.Argument(metavar="SUITE", help="A name of `suites`, or a TOML file.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the runs.", show_default="runs/SUITE"),
    ] = None,
    data: Data = None,
    tfds: Tfds = None,
    glove: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Word vectors to start from, as text.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Runs at once.", show_default="1, on a cluster what it has room for"
        ),
    ] = None,
    run_timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="End a run that takes longer; it has failed then."),
    ] = None,
    executor: Annotated[
        str,
        typer.Option(metavar="NAME", help="Run on this machine (local) or a Ray cluster (ray)."),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Head of the Ray cluster; auto for this machine's."),
    ] = None,
    run_cpus: Annotated[
        float | None,
        typer.Option(
            metavar="N", help="CPUs of the cluster for a run.", show_default="its threads"
        ),
    ] = None,
    run_gpus: Annotated[
        float | None,
        typer.Option(metavar="N", help="GPUs of the cluster for a run, 0 to 1.", show_default="0"),
    ] = None,
    run_memory: Annotated[
        float | None,
        typer.Option(metavar="GIB", help="Memory of the cluster that is set aside for a run."),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Share each run among devices: of this host (mirrored), or of all hosts of "
            "TF_CONFIG (multi-worker).",
        ),
    ] = None,
    devices: Annotated[
        int | None,
        typer.Option(metavar="N", help="Devices of mirrored.", show_default="all"),
    ] = None,
    deterministic: Annotated[
        bool,
        typer.Option("--deterministic", help="Give the same bits on a GPU too; without XLA."),
    ] = False,
    tasks: Annotated[str | None, typer.Option(metavar="A,B", help="Run these tasks only.")] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B", help="Run these methods only.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(metavar="1,2", help="Run these seeds only.")] = None,
    settings: Settings = None,
    skip_bad_lines: Annotated[
        bool,
        typer.Option("--skip-bad-lines", help="Leave out malformed lines of training files."),
    ] = False,
    fill_missing: FillMissing = False,
) -> None:
    """Run a suite, or what is left of it; then write its report and its GLUE submissions.

    Interrupted at any moment, the same command goes on where it was.
    """
    from relation_tf.bench import RunResources, run_suite
    from relation_tf.config.loading import select

    asked = (run_cpus, run_gpus, run_memory)
    resources = None
    if any(amount is not None for amount in asked):
        resources = RunResources(run_cpus, run_gpus or 0.0, run_memory)
    _find_layers(suite)
    results = run_suite(
        suite,
        out,
        tasks=_split(tasks),
        only_methods=_split(methods),
        seeds=_integers(seeds),
        data=data,
        tfds_folder=tfds,
        glove=glove,
        jobs=jobs,
        run_timeout=run_timeout,
        executor=executor,
        address=address,
        resources=resources,
        strategy=strategy,
        devices=devices,
        deterministic=deterministic,
        settings=_settings(settings or []),
        skip_bad_lines=skip_bad_lines,
    )
    if results.runs:
        _report(results)
        _submit_if_whole(results, fill_missing)
    if results.failures:
        _print_failures(results)
    if any(names is not None for names in (tasks, methods, seeds)):
        _print_selected(
            results, select(results.suite, _split(tasks), _split(methods), _integers(seeds))
        )
    if results.failures:
        raise typer.Exit(1)


@app.command()
def plan(
    suite: Annotated[
        str, typer.Argument(metavar="SUITE", help="A name of `suites`, or a TOML file.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the runs.", show_default="runs/SUITE"),
    ] = None,
    data: Data = None,
    tfds: Tfds = None,
    glove: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Word vectors to start from, as text.")
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", help="Runs at once.")] = 1,
    tasks: Annotated[str | None, typer.Option(metavar="A,B", help="Of these tasks only.")] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B", help="Of these methods only.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(metavar="1,2", help="Of these seeds only.")] = None,
    settings: Settings = None,
    skip_bad_lines: Annotated[
        bool,
        typer.Option("--skip-bad-lines", help="Leave out malformed lines of training files."),
    ] = False,
) -> None:
    """Say what a suite will take: runs, hours, disk, and what its seeds can show.

    Nothing is run: some steps of a few methods and tasks are timed on this machine.
    """
    from relation_tf.bench import plan_suite

    _find_layers(suite)
    typer.echo(
        plan_suite(
            suite,
            out,
            tasks=_split(tasks),
            only_methods=_split(methods),
            seeds=_integers(seeds),
            data=data,
            tfds_folder=tfds,
            glove=glove,
            jobs=jobs,
            settings=_settings(settings or []),
            skip_bad_lines=skip_bad_lines,
        )
    )


@app.command()
def pretrain(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="UTF-8 text to learn from, also packed as .gz."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the runs.")] = Path(
        "pretrained"
    ),
    mechanisms: Annotated[
        str, typer.Option(metavar="A,B", help="What mixes the tokens of the encoders.")
    ] = "relation,linear-attention,attention",
    seeds: Annotated[str, typer.Option(metavar="1,2", help="Seeds of each mechanism.")] = "1",
    held_out: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Text that perplexity is of, or the share of FILE..., from the end.",
        ),
    ] = "0.05",
    objective: Annotated[
        str, typer.Option(metavar="NAME", help="Tell masked words, or each next one (causal).")
    ] = "masked",
    layers: Annotated[int, typer.Option(metavar="N", help="Blocks of an encoder.")] = 4,
    units: Annotated[int, typer.Option(metavar="N", help="Width of the blocks.")] = 128,
    embedding_dim: Annotated[
        int | None,
        typer.Option(metavar="N", help="Width of the embedding.", show_default="the units"),
    ] = None,
    norm: Annotated[str, typer.Option(metavar="NAME", help="pre or post.")] = "pre",
    dropout: Annotated[float, typer.Option(metavar="RATE", help="In the blocks.")] = 0.1,
    vocabulary: Annotated[int, typer.Option(metavar="N", help="Word pieces at most.")] = 8000,
    length: Annotated[int, typer.Option(metavar="N", help="Tokens of a block of text.")] = 128,
    batch_size: Annotated[int, typer.Option(metavar="N", help="Blocks of a step.")] = 32,
    steps: Annotated[int, typer.Option(metavar="N", help="Steps of a run.")] = 10_000,
    learning_rate: Annotated[float, typer.Option(metavar="RATE", help="The highest.")] = 1e-3,
    warmup: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the steps in which it rises.")
    ] = 0.1,
    weight_decay: Annotated[float, typer.Option(metavar="RATE", help="Of matrices.")] = 0.01,
    evaluate_every: Annotated[
        int, typer.Option(metavar="N", help="Steps between two evaluations.")
    ] = 500,
    threads: Annotated[int, typer.Option(metavar="N", help="Threads of one operation.")] = 1,
) -> None:
    """Let encoders learn from plain text, for suites to start from.

    Interrupted at any moment, the same command goes on where it was.
    """
    from relation_tf.bench.pretraining import pretrain as learn
    from relation_tf.training.pretrained import PretrainingSettings

    sys.path.insert(0, str(Path.cwd()))  # where a layer of one's own may lie
    made = learn(
        [_home(file) for file in files],
        _home(out),
        _split(mechanisms) or [],
        _integers(seeds) or [],
        PretrainingSettings(
            objective=objective,
            num_layers=layers,
            units=units,
            embedding_dim=embedding_dim,
            norm=norm,
            dropout=dropout,
            vocabulary_size=vocabulary,
            length=length,
            batch_size=batch_size,
            steps=steps,
            learning_rate=learning_rate,
            warmup=warmup,
            weight_decay=weight_decay,
            evaluate_every=evaluate_every,
            threads=threads,
        ),
        held_out=_share(held_out),
    )
    if made.runs:
        typer.echo(f"\n{made}\n\nscores: {made.folder / 'scores.csv'}")
    if made.failures:
        raise typer.Exit(1)


@app.command()
def check_layer(
    layer: Annotated[
        str,
        typer.Argument(
            metavar="LAYER", help="package.module:Name of a layer of your own, or a mechanism."
        ),
    ],
    units: Annotated[int, typer.Option(metavar="N", min=1, help="Width asked of the layer.")] = 8,
    width: Annotated[int, typer.Option(metavar="N", min=1, help="Width of its input.")] = 6,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Set an option of the layer; may be repeated."
        ),
    ] = None,
) -> None:
    """Check a layer of your own before a suite: shapes, padding, gradients, saving and more.

    The exit code is 1 where a suite must not run with it; warnings are advice.
    """
    from relation_tf.training.session import loading_quietly

    options = _settings(settings or [])
    sys.path.insert(0, str(Path.cwd()))
    module, colon, _ = layer.partition(":")
    if colon and module.isidentifier() and importlib.util.find_spec(module) is None:
        raise typer.BadParameter(
            f"cannot import mechanism {layer!r}: no {module}.py in this folder, and no package of "
            "that name installed"
        )
    with loading_quietly():
        import keras

        from relation_tf.networks import check_layer

        keras.ops.zeros(1)  # the first use of a device
    try:
        report = check_layer(layer, units, width, options)
    except ValueError as error:  # the name; what the layer raises is in the report
        raise typer.BadParameter(str(error)) from None
    typer.echo(str(report))
    if not report.passed:
        raise typer.Exit(1)


@app.command()
def status(folder: Folder) -> None:
    """Show how many runs of a suite are done, for each task and method."""
    from relation_tf.bench import read_results

    results = read_results(folder)
    suite = results.suite
    done = Counter((run["task"], run["method"]) for run in results.runs)
    failed = Counter(tuple(run.split("/")[:2]) for run, _ in results.failures)
    names = [str(method.name) for method in suite.methods()]
    width = max(map(len, names)) + 2
    first = max(map(len, suite.tasks))
    typer.echo(" " * first + "".join(f"{name:>{width}}" for name in names))
    for task in suite.tasks:
        cells = []
        for name in names:
            cell = task, name
            faults = f" ({failed[cell]} failed)" if failed[cell] else ""
            cells.append(f"{done[cell]}/{len(suite.seeds)}{faults}")
        typer.echo(f"{task:{first}}" + "".join(f"{cell:>{width}}" for cell in cells))
    total = len(suite.runs())
    typer.echo(f"{done.total()} of {total} runs done, {failed.total()} failed")
    _print_failures(results)


@app.command()
def report(folder: Folder) -> None:
    """Write the report of a suite anew: report.html, report.md and the tables."""
    from relation_tf.bench import read_results

    results = read_results(folder)
    _report(results)
    _print_failures(results)


@app.command()
def compare(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            help="Suites' or reports' folders, CSV files with task, method, seed and score.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the report.")] = Path(
        "comparison"
    ),
    labels: Annotated[
        str | None, typer.Option(metavar="A,B", help="What the sources are called.")
    ] = None,
    merge: Annotated[
        bool,
        typer.Option("--merge", help="A method's seeds of several sources are of one method."),
    ] = False,
    lower_is_better: Annotated[
        str | None, typer.Option(metavar="A,B", help="Tasks whose lowest score is the best.")
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(metavar="P", help="Level of the tests.", show_default="the suites' own, .05"),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(metavar="METHOD", help="What all others are compared with, decided before."),
    ] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="Of the report.")] = "",
) -> None:
    """Compare scores of any origin, with no training: suites side by side, or tables of others."""
    from relation_tf.report import compare as compare_scores
    from relation_tf.report.report import check_folder

    folder = _home(out)
    check_folder(folder)
    report = compare_scores(
        *sources,
        labels=_split(labels),
        merge=merge,
        lower_is_better=_split(lower_is_better) or (),
        alpha=alpha,
        control=control,
        title=title,
    )
    typer.echo(f"\n{report}\n")
    typer.echo(f"report: {report.write(folder)}")


@app.command()
def submit(folder: Folder, fill_missing: FillMissing = False) -> None:
    """Write and check a GLUE submission for each method and seed of a suite."""
    from relation_tf.bench import read_results
    from relation_tf.errors import SuiteError

    results = read_results(folder)
    if not any(results.suite.find_task(name).answered for name in results.suite.tasks):
        raise SuiteError(
            f"{folder}: the leaderboard has none of the tasks of suite {results.suite.name}, which "
            f"has {', '.join(results.suite.tasks)}"
        )
    if not results.runs:
        raise SuiteError(f"{folder}: nothing to submit: no finished runs")
    submissions = _submit(results, fill_missing)
    if submissions.refused:
        raise typer.Exit(1 if submissions.packed else 2)


def _report(results: Results) -> None:
    from relation_tf.report import make_report
    from relation_tf.report.report import check_folder

    folder = results.folder / "report"
    check_folder(folder)
    report = make_report(results)
    typer.echo(f"\n{report}\n")
    typer.echo(f"report: {report.write(folder)}")


def _print_failures(results: Results) -> None:
    """Say which runs gave nothing to report: the first with its reason, the report has them all."""
    if results.failures:
        (name, error), *others = results.failures
        more = f"; and {len(others)} more" if others else ""
        typer.echo(f"not reported: {name}: {error}{more}")


def _print_selected(results: Results, asked: Sequence[RunConfig]) -> None:
    """Say how far a part of a suite is, which a report of the whole calls preliminary."""
    done = {(run["task"], run["method"], run["seed"]) for run in results.runs}
    keys = {config.key for config in asked}
    others = {config.key for config in results.suite.runs()} - keys - done
    typer.echo(
        f"{len(keys & done)} of {len(keys)} asked for are done; {len(others)} others of the suite "
        "are not"
    )


def _submit_if_whole(results: Results, fill_missing: bool) -> None:
    """Submissions after a run, where it has all that they need."""
    from relation_tf.errors import join_names
    from relation_tf.tasks import GLUE

    learned = {task.name for task in results.suite.learned()}
    missing = [name for name in GLUE if name not in learned]
    if len(missing) > len(GLUE) / 2 and not fill_missing:
        return  # not made for the leaderboard
    if missing and not fill_missing:
        typer.echo(f"no submissions: {', '.join(missing)} not in the suite (see --fill-missing)")
    elif fill_missing or not (lacking := _lacking(results)):
        _submit(results, fill_missing)
    else:
        typer.echo(
            f"submissions: none written, {join_names(lacking)} lack predictions "
            "(--fill-missing fills them)"
        )


def _lacking(results: Results) -> list[str]:
    """The tasks that some method or seed has no finished run of."""
    done = Counter(run["task"] for run in results.runs)
    asked = Counter(config.task for config in results.suite.runs())
    return [name for name in results.suite.tasks if done[name] < asked[name]]


def _submit(results: Results, fill_missing: bool) -> Submissions:
    """Write the submissions and tell of them."""
    from relation_tf.bench import write_submissions

    submissions = write_submissions(results, fill_missing=fill_missing)
    if submissions.refused and not submissions.packed:
        _complain("; ".join(str(submissions).splitlines()))
    if submissions.packed:
        typer.echo(str(submissions))
        typer.echo(f"zips: {results.folder / 'submissions'}")
        if results.suite.source == "miniglue":
            typer.echo("They answer embedded test sets: right in form, no use to the leaderboard.")
    return submissions


def _find_layers(suite: str) -> None:
    """Where a layer of one's own lies: beside the suite, or here."""
    beside = [str(Path(suite).resolve().parent)] if suite.endswith(".toml") else []
    sys.path[:0] = [str(Path.cwd()), *beside]


def _expanded(path: Path | None) -> Path | None:
    return None if path is None else _home(path)


def _home(path: Path) -> Path:
    """The path with the home that it names.

    Raises:
        BadParameter: For one of a user who is not there.
    """
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise typer.BadParameter(f"{path}: {error}") from None


def _split(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def _integers(seeds: str | None) -> list[int] | None:
    try:
        return None if seeds is None else [int(seed) for seed in _split(seeds) or []]
    except ValueError:
        raise typer.BadParameter(
            f"--seeds: expected numbers such as 1,2. Received: {seeds!r}"
        ) from None


def _share(held_out: str) -> float | Path:
    """A share, or else a file."""
    try:
        return float(held_out)
    except ValueError:
        return _home(Path(held_out))


def _settings(pairs: list[str]) -> dict[str, Any]:
    """`key=value` pairs; the value is TOML, or text where it is not."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"--set: expected KEY=VALUE. Received: {pair!r}")
        try:
            settings[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            settings[key.strip()] = value
    return settings


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Bad input is one line and exit code 2; an interruption is exit code 130."""
    from glue_submit import SubmissionError

    try:
        yield
    except _UsageError as error:
        message = " ".join(cast("typer.BadParameter", error).format_message().split())
        # Without a command the help has been shown, and there is no message.
        sys.exit(_complain(f"{message} (see relation-tf --help)") if message else 2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # What read our output has closed, as `head` does; Python would complain again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except SubmissionError as error:
        sys.exit(_complain(str(error)))
    except RelationError as error:
        sys.exit(_complain(str(error)))


def _complain(message: str) -> int:
    typer.echo(f"relation-tf: {message}", err=True)
    return 2


def main() -> None:
    """Run the command."""
    with _one_line_errors():
        sys.exit(app(standalone_mode=False))


if __name__ == "__main__":
    main()
