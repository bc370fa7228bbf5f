"""Pre-train encoders of several mechanisms on plain text, in a worker process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from relation_tf.bench import workers
from relation_tf.bench.progress import Progress
from relation_tf.bench.run_folder import ERROR, RunFolder, count_diverged, read_config, writing
from relation_tf.bench.runner import refusal, sentence
from relation_tf.bench.workers import EventCallback, Group, TrainRun, train_shared
from relation_tf.config.run import RunKey, vocabulary_of
from relation_tf.config.user_code import (
    custom_digest,
    load_plugins,
    plugins_digest,
    shaping_plugins,
)
from relation_tf.errors import OptionError, SuiteError
from relation_tf.files import expand_home, read_json, write_json, write_table, write_text
from relation_tf.networks.check.report import Fault
from relation_tf.networks.mechanisms import custom_layers, is_built_in
from relation_tf.registry import MECHANISMS, OPTIMIZERS
from relation_tf.tasks.plain_text import HELD_OUT, PlainText, read_plain_text
from relation_tf.training import session
from relation_tf.training.pretrained import finished_runs, write_weights
from relation_tf.training.pretraining_settings import SETTINGS, SPEEDS, WEIGHTS, PretrainingSettings

if TYPE_CHECKING:
    from relation_tf.training.language_model import LanguageModelTrainer
    from relation_tf.training.trainer import TrainingResult

PERPLEXITY, SPEED = "perplexity", "tokens per second"
"""Task names of `scores.csv` and `speeds.csv`, which are separate rankings."""

_CHECKPOINT_EVERY = 10.0  # seconds


@dataclass(frozen=True)
class Pretraining:
    """Results of a folder of pre-training.

    Attributes:
        folder: The folder.
        runs: Results of all finished runs.
        failures: Failed requested runs and their errors.
    """

    folder: Path
    runs: list[dict[str, Any]]
    failures: list[tuple[str, str]]


class PretrainingRun(BaseModel):
    """One run: a mechanism and a seed; extra fields are the settings and the digest of the text."""

    model_config = ConfigDict(extra="allow", frozen=True)

    mechanism: str
    mechanism_digest: str | None  # of the source of a custom layer
    seed: int

    @property
    def method(self) -> str:
        """Name of the run's folder."""
        return self.mechanism.rpartition(":")[2]

    @property
    def key(self) -> RunKey:
        """(mechanism, method, seed)."""
        return self.mechanism, self.method, self.seed

    @property
    def user_parts(self) -> list[str]:
        """The custom layer of the run, if it has one."""
        return custom_layers(self.mechanism, {})

    def __str__(self) -> str:
        return f"{self.method}/seed-{self.seed}"


@dataclass(frozen=True)
class PretrainingGroup(Group):
    """Runs of pre-training.

    Attributes:
        settings: Their settings.
        text: The text to train on.
    """

    runs: Sequence[PretrainingRun]
    settings: PretrainingSettings
    text: PlainText

    def prepare(self, notify: EventCallback) -> TrainRun:
        """Start TensorFlow, see `Group`."""
        session.start_tensorflow(self.folder / session.LOG, self.settings.threads)
        return partial(_train_run, settings=self.settings, text=self.text, notify=notify)


@workers.ends_workers
def pretrain(
    files: str | Path | Iterable[str | Path],
    out: str | Path,
    mechanisms: str | Iterable[str] = ("relation", "linear-attention", "attention"),
    seeds: int | Iterable[int] = (1,),
    settings: PretrainingSettings | None = None,
    *,
    held_out: str | Path | float = HELD_OUT,
    plugins: Sequence[str] = (),
    allow_failing_checks: bool = False,
    quiet: bool = False,
) -> Pretraining:
    r"""Pre-train encoders on plain text; finished runs in the folder are kept.

    Safe to interrupt: the same call resumes and, on a CPU, gives the same weights.

    Args:
        files: Text files to train on, see `read_plain_text`.
        out: The folder of the runs.
        mechanisms: Token-mixing mechanisms: registered names, or `"package.module:Name"`. The runs
            of custom layers are called `Name` and start again if interrupted.
        seeds: Seeds of each mechanism, 0 or more.
        settings: Other settings, by default `PretrainingSettings()`.
        held_out: Validation file, or share of the blocks to hold out.
        plugins: Modules to import first, which may register mechanisms.
        allow_failing_checks: If True, train custom layers that fail their checks, with a note.
        quiet: If True, print nothing.

    Raises:
        SuiteError: If a setting or folder cannot be used, or a custom layer fails its checks.
        DataError: If the text cannot be read.

    Example:
        >>> import os, tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> os.environ["RELATION_TF_CACHE"] = str(folder / "cache")
        >>> _ = (folder / "a.txt").write_text("so good it is\n" * 99)
        >>> small = PretrainingSettings(
        ...     num_layers=1, units=4, length=8, batch_size=2, steps=2, vocabulary_size=50
        ... )
        >>> out = folder / "out"
        >>> results = pretrain([folder / "a.txt"], out, ["relation"], [1], small, quiet=True)
        >>> [run["method"] for run in results.runs], (out / "scores.csv").is_file()
        (['relation'], True)
    """
    session.check_tensorflow()
    settings = settings or PretrainingSettings()
    load_plugins(plugins)
    mechanisms = [mechanisms] if isinstance(mechanisms, str) else mechanisms
    requested = _requested(mechanisms, [seeds] if isinstance(seeds, int) else seeds)
    if is_file := isinstance(held_out, str | Path):
        held_out = expand_home(held_out)
    files = [files] if isinstance(files, str | Path) else files
    paths = [expand_home(file) for file in files]
    text = read_plain_text(paths, settings.length, held_out, settings.vocabulary_size)
    split = {"text": text.digest, "held_out": "a file" if is_file else held_out}
    shared = {**asdict(settings), **split}
    if digest := plugins_digest(shaping_plugins(plugins)):
        shared["plugins_digest"] = digest
    runs = [PretrainingRun(**run, **shared) for run in requested]
    folder = RunFolder(expand_home(out))
    _check_folder(folder, shared)
    pending = [run for run in runs if not folder.is_done(run)]
    for run in runs:
        if run not in pending:
            folder.check_configuration(run)
    folder.check_locked(pending)
    lost = count_diverged(folder, runs, pending)

    def execute(free: Sequence[PretrainingRun], notify: EventCallback) -> None:
        group = PretrainingGroup(free, folder.path, settings, text, began=folder.began)
        workers.run_locally([group], notify)

    with Progress(folder.path, len(runs), pending, lost, quiet=quiet) as progress:
        if free := [run for run in pending if not folder.is_locked(run)]:
            for note in _check(free, settings, text, allow_failing_checks):
                progress.say(note)
        with writing(folder.path):
            folder.path.mkdir(parents=True, exist_ok=True)
            write_text(vocabulary_of(folder.path), text.vocabulary.to_json())
            write_json(folder.path / SETTINGS, shared)
        try:
            train_shared(pending, folder, progress, execute)
        finally:  # also after an interruption
            _write_scores(folder.path)
    unfinished = {run: folder.run(run) for run in runs if not folder.holds_result(run)}
    failures = [
        (str(run), str(read_json(path / ERROR)["error"]))
        for run, path in unfinished.items()
        if (path / ERROR).exists()
    ]
    return Pretraining(folder.path, [*finished_runs(folder.path)], failures)


def _requested(mechanisms: Iterable[str], seeds: Iterable[int]) -> list[dict[str, Any]]:
    mechanisms, seeds = [*dict.fromkeys(mechanisms)], [*dict.fromkeys(map(int, seeds))]
    for name, values in (("mechanisms", mechanisms), ("seeds", seeds)):
        if not values:
            raise OptionError(name, "must have one or more values. Received: none")
    if wrong := [seed for seed in seeds if not 0 <= seed < 2**31]:
        raise OptionError("seeds", f"must be 0 to {2**31 - 1:,}. Received: {wrong[0]}")
    if len({name.rpartition(":")[2].lower() for name in mechanisms}) < len(mechanisms):
        raise OptionError(
            "mechanisms",
            "must have names that differ in more than case (for custom layers, the part after the "
            "colon). "
            f"Received: {', '.join(mechanisms)}",
        )
    digests = {name: custom_digest(custom_layers(name, {}), "mechanisms") for name in mechanisms}
    # All mechanisms of a seed before the next seed: other load on the machine then slows all.
    return [
        {"mechanism": name, "mechanism_digest": digests[name], "seed": seed}
        for seed in seeds
        for name in mechanisms
    ]


def _check_folder(folder: RunFolder, shared: dict[str, Any]) -> None:
    """Refuse a folder with runs of a suite or of other settings."""
    if (folder.path / "suite.toml").exists():
        raise SuiteError(f"{folder.path}: contains runs of a suite. Choose another --out")
    for result in sorted(folder.path.glob("runs/*/*/result.json")):
        config = read_config(result.parent, PretrainingRun)
        folder.check_unchanged(result.parent, {**config, **shared}, config)


def _check(
    pending: Sequence[PretrainingRun],
    settings: PretrainingSettings,
    text: PlainText,
    allow_failing_checks: bool,
) -> list[str]:
    """Build a model of each mechanism and check custom layers, before the first run.

    If a custom layer fails later, the other runs continue.

    Returns:
        A note for each failing layer that is trained.

    Raises:
        SuiteError: If a model cannot be built, or a layer fails and this is not allowed.
    """
    names = [*dict.fromkeys(run.mechanism for run in pending)]
    arguments = names, settings, text.vocabulary.size
    notes = []
    for faults in workers.call(_faults, *arguments, runs=pending):
        if faults and not allow_failing_checks:
            raise SuiteError(refusal(faults))
        notes += [f"{sentence(faults)} It is trained."] if faults else []
    return notes


def _faults(
    mechanisms: Sequence[str], settings: PretrainingSettings, vocabulary_size: int
) -> list[list[Fault]]:
    """Build a model of each built-in mechanism; return the failed checks of custom layers."""
    session.start_tensorflow(Path(os.devnull), settings.threads)
    import keras

    from relation_tf.training.building import faults_of
    from relation_tf.training.language_model import build_model, pretraining_optimizer

    pretraining_optimizer(settings)
    options = {} if settings.objective == "masked" else {"causal": True}
    faults, units = [], settings.units
    for name in mechanisms:
        if name in MECHANISMS:
            model = build_model(name, settings, vocabulary_size)
            reach = getattr(model.encoder.blocks[0].mixer, "max_length", None)
            most = None if reach is None else reach + (settings.objective == "causal")
            if most is not None and most < settings.length:
                raise OptionError(
                    "length", f"must be at most {most} for {name}. Received: {settings.length}"
                )
        failed = []
        if not is_built_in(name, {}):
            where = f"mechanism {name}"
            failed = faults_of(name, units, units, options, "float32", where, all_read=True)
        keras.backend.clear_session()
        faults.append(failed)
    return faults


def _train_run(
    run: PretrainingRun,
    path: Path,
    settings: PretrainingSettings,
    text: PlainText,
    notify: EventCallback,
) -> None:
    import keras

    from relation_tf.bench.train import train_and_write
    from relation_tf.training.language_model import LanguageModelTrainer

    # Compile for each run: memory is measured per run, and custom layers may have random state
    # outside their variables.
    keras.backend.clear_session()  # frees the memory of the previous run
    notify({"event": "compile", "run": run.key})
    trainer = LanguageModelTrainer(run.mechanism, settings, text)

    def on_step(step: int, row: Any) -> None:
        notify({"event": "step", "run": run.key, "step": step, "steps": settings.steps})

    def write(trained: TrainingResult) -> tuple[dict[str, Any], dict[str, Any]]:
        write_weights(path / WEIGHTS, *trainer.encoder_weights(), *trainer.output_weights())
        result = _result(trainer, run, trained)
        note = (
            f"{run}: perplexity {result['perplexity']:.2f}, "
            f"{result['tokens_per_second']:,.0f} tokens per second"
        )
        notify({"event": "note", "run": run.key, "note": note})
        return {}, result

    custom_optimizer = OPTIMIZERS.is_of_user(settings.optimizer)
    resumable = is_built_in(run.mechanism, {}) and not custom_optimizer
    train_and_write(
        trainer, run, path, on_step, write,
        resumable=resumable, checkpoint_every=_CHECKPOINT_EVERY,
    )  # fmt: skip


def _result(
    trainer: LanguageModelTrainer, run: PretrainingRun, trained: TrainingResult
) -> dict[str, Any]:
    last, steps = trained.history[-1], trainer.settings.steps
    return {
        "method": run.method,
        "mechanism": run.mechanism,
        "seed": run.seed,
        "held_out_loss": last["held_out_loss"],
        "perplexity": last["perplexity"],
        "tokens_per_second": steps * trainer.step_tokens / trained.seconds["training"],
        "steps": steps,
        "parameters": trainer.model.count_params(),
    }


def _write_scores(folder: Path) -> None:
    """Write the files for `relation-tf compare`; a lower perplexity is better."""
    runs = [*finished_runs(folder)]
    if not runs:
        return
    with writing(folder):
        for file, task, key in (
            ("scores.csv", PERPLEXITY, "perplexity"),
            (SPEEDS, SPEED, "tokens_per_second"),
        ):
            columns = {
                "task": [task] * len(runs),
                "method": [run["method"] for run in runs],
                "seed": [run["seed"] for run in runs],
                "score": [run[key] for run in runs],
            }
            write_table(folder / file, columns, ",")
        write_json(folder / "report.json", {"in_points": False, "lower_is_better": [PERPLEXITY]})
