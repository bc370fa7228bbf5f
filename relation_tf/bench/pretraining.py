"""Pre-training: encoders of several mechanisms learn from plain text, before any task.

Keras and TensorFlow are loaded when the first run starts, not with this module.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from rich.console import Console

from relation_tf.bench import groups, provenance
from relation_tf.bench.layer_source import layer_digest
from relation_tf.bench.progress import PLAIN_EVERY, Bar, say, start_bar, time_left
from relation_tf.bench.run_folder import RunFolder
from relation_tf.config.run import vocabulary_of
from relation_tf.errors import RelationError, SuiteError
from relation_tf.files import read_json, write_json, write_table, write_text
from relation_tf.networks.mechanisms import find_mechanism
from relation_tf.registry import MECHANISMS
from relation_tf.tasks.plain_text import HELD_OUT, PlainText, read_plain_text
from relation_tf.training import session
from relation_tf.training.checkpoint import STATE, Checkpoint
from relation_tf.training.pretrained import (
    SETTINGS,
    SPEEDS,
    WEIGHTS,
    finished_runs,
    run_folder,
    write_weights,
)
from relation_tf.training.pretraining_settings import PretrainingSettings

if TYPE_CHECKING:
    from relation_tf.training.language_model import LanguageModelTrainer
    from relation_tf.training.trainer import TrainingResult

PERPLEXITY, SPEED = "perplexity", "tokens a second"
"""The tasks of `scores.csv` and of `speeds.csv`: apart, for a mechanism is not ranked by both."""

_CHECKPOINT_EVERY = 10.0  # seconds


@dataclass(frozen=True)
class Pretraining:
    """What a folder of pre-training holds.

    Attributes:
        folder: The folder.
        runs: The results of all finished runs.
        failures: The runs asked for that failed, and why.
    """

    folder: Path
    runs: list[dict[str, Any]]
    failures: list[tuple[str, str]]

    def __str__(self) -> str:
        names = dict.fromkeys(run["method"] for run in self.runs)
        width = max(map(len, names), default=0)
        lines = []
        for name in names:
            own = [run for run in self.runs if run["method"] == name]
            perplexity = np.array([run["perplexity"] for run in own])
            speed = np.mean([run["tokens_per_second"] for run in own])
            spread = f" ± {perplexity.std(ddof=1):.2f}" if len(own) > 1 else ""
            lines.append(
                f"{name:{width}}  perplexity {perplexity.mean():.2f}{spread} of {len(own)} "
                f"{'seed' if len(own) == 1 else 'seeds'}, {speed:,.0f} tokens a second"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class _Run:
    """A mechanism, a digest of its source where it is not the package's, and a seed."""

    mechanism: str
    mechanism_digest: str | None
    seed: int

    @property
    def method(self) -> str:
        """What its folder is called."""
        return self.mechanism.rpartition(":")[2]

    def __str__(self) -> str:
        return f"{self.method}/seed-{self.seed}"


def pretrain(
    files: Sequence[str | Path],
    out: str | Path,
    mechanisms: Iterable[str] = ("relation", "linear-attention", "attention"),
    seeds: Iterable[int] = (1,),
    settings: PretrainingSettings | None = None,
    *,
    held_out: str | Path | float = HELD_OUT,
    quiet: bool = False,
) -> Pretraining:
    r"""Let encoders learn from plain text what is not yet learned in a folder.

    Finished runs are kept: stopped at any moment, the same call goes on where it was, to the same
    weights.

    Args:
        files: Text files to learn from, as for `read_plain_text`.
        out: The folder of the runs.
        mechanisms: What can stand in an encoder: names of the registry, and
            `"package.module:Name"`, whose runs are called `Name` and begin anew if interrupted.
        seeds: Seeds of each mechanism, 0 or more.
        settings: All else, by default `PretrainingSettings()`.
        held_out: The file, or the share of the blocks, that perplexity is of.
        quiet: Print nothing.

    Raises:
        SuiteError: For a setting or folder that cannot be.
        DataError: For text that cannot be read.

    Example:
        >>> import os, tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> os.environ["RELATION_TF_CACHE"] = str(folder / "cache")
        >>> _ = (folder / "a.txt").write_text("so good it is\n" * 99)
        >>> small = PretrainingSettings(
        ...     num_layers=1, units=4, length=8, batch_size=2, steps=2, vocabulary_size=50
        ... )
        >>> out = folder / "out"
        >>> made = pretrain([folder / "a.txt"], out, ["relation"], [1], small, quiet=True)
        >>> [run["method"] for run in made.runs], (out / "scores.csv").is_file()
        (['relation'], True)
    """
    settings = settings or PretrainingSettings()
    asked = _asked(mechanisms, seeds)
    text = read_plain_text(
        files,
        settings.length,
        Path(held_out).expanduser() if isinstance(held_out, str | Path) else held_out,
        settings.vocabulary_size,
    )
    made_from: dict[str, Any] = {
        "text": text.digest,
        "held_out": "a file" if isinstance(held_out, str | Path) else held_out,
    }
    folder = Path(out).expanduser()
    with RunFolder(folder).locked():
        _open(folder, settings, made_from, text)
        pending = [run for run in asked if not _is_done(folder, run, settings, made_from)]
        with _PretrainingProgress(folder, settings.steps, asked, pending, quiet) as report:
            if pending:
                report.say(_extent(text, settings))
                _check(pending, folder, settings, text)
            try:
                _run_all(pending, folder, settings, made_from, text, report)
            finally:  # an interrupted command leaves the scores of what is done
                _write_scores(folder)
    failures = [
        (str(run), str(read_json(path)["error"]))
        for run in asked
        if (path := _folder_of(folder, run) / "error.json").exists()
    ]
    return Pretraining(folder, [*finished_runs(folder)], failures)


def _asked(mechanisms: Iterable[str], seeds: Iterable[int]) -> list[_Run]:
    mechanisms, seeds = [*dict.fromkeys(mechanisms)], [*dict.fromkeys(map(int, seeds))]
    for name, values in (("mechanisms", mechanisms), ("seeds", seeds)):
        if not values:
            raise SuiteError(f"{name}: expected one or more. Received: none")
    for seed in seeds:
        if seed < 0:
            raise SuiteError(f"seeds: expected 0 or more. Received: {seed}")
    digests = {mechanism: _digest(mechanism) for mechanism in mechanisms}
    # A seed's mechanisms in turn, so that what slows the machine for a while slows them all.
    runs = [_Run(mechanism, digests[mechanism], seed) for seed in seeds for mechanism in mechanisms]
    if len({str(run) for run in runs}) < len(runs):
        raise SuiteError(
            "mechanisms: expected names that differ, of layers of one's own after the colon. "
            f"Received: {', '.join(mechanisms)}"
        )
    return runs


def _digest(mechanism: str) -> str | None:
    """Of the source of a layer of one's own."""
    try:
        entry = find_mechanism(mechanism)
        own = entry.input_type != "text" and mechanism not in MECHANISMS
        digest = layer_digest(mechanism) if own else None
    except ValueError as error:
        raise SuiteError(f"mechanisms: {error}") from error
    except Exception as error:
        raise SuiteError(
            f"mechanisms: cannot import {mechanism}: {provenance.one_line(error)}"
        ) from error
    if entry.input_type == "text":
        raise SuiteError(f"mechanisms: expected what mixes tokens. Received: {mechanism}")
    return digest


def _folder_of(folder: Path, run: _Run) -> Path:
    return run_folder(folder, run.method, run.seed)


def _open(
    folder: Path, settings: PretrainingSettings, made_from: dict[str, Any], text: PlainText
) -> None:
    """Write down what is asked, unless runs are there of something else."""
    if (folder / SETTINGS).exists() and any(folder.glob("runs/*/*")):
        settings.refuse_others(folder, read_json(folder / SETTINGS), **made_from)
    elif (folder / "suite.toml").exists():
        raise SuiteError(f"{folder}: holds a suite's runs. Give another --out")
    elif any(folder.glob("runs/*/*")):
        raise SuiteError(
            f"{folder}: holds runs, and no {SETTINGS} that says of what. Give another --out"
        )
    with _writing(folder):
        write_text(vocabulary_of(folder), text.vocabulary.to_json())
        write_json(folder / SETTINGS, {**asdict(settings), **made_from})


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Say in a line that a folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise groups.unwritable(folder, error) from error


def _is_done(
    folder: Path, run: _Run, settings: PretrainingSettings, made_from: dict[str, Any]
) -> bool:
    own = _folder_of(folder, run)
    if not (own / "result.json").exists():
        return False
    (own / STATE).unlink(missing_ok=True)  # killed before it could tidy up
    settings.refuse_others(own, read_json(own / "config.json"), **made_from, **asdict(run))
    return True


def _extent(text: PlainText, settings: PretrainingSettings) -> str:
    passes = settings.steps * settings.batch_size / len(text.train)
    return (
        f"{text.train.size:,} tokens to learn from, {text.held_out.size:,} held out, "
        f"{text.vocabulary.size:,} ids; passes over the text in a run: {passes:.2g}"
    )


def _check(
    pending: Sequence[_Run], folder: Path, settings: PretrainingSettings, text: PlainText
) -> None:
    """Build a model of each mechanism, so that one that cannot be is said before the first run.

    A layer of one's own is left to its runs: it may do anything, and the others go on if it fails.
    """
    session.start_tensorflow(folder / session.LOG, settings.threads)
    import keras

    from relation_tf.training.language_model import build_model
    from relation_tf.training.optimizing import make_optimizer

    make_optimizer(settings.optimizer, settings.learning_rate)
    ours = (run.mechanism for run in pending if run.mechanism in MECHANISMS)
    for mechanism in dict.fromkeys(ours):
        build_model(mechanism, settings, text.vocabulary.size)
        keras.backend.clear_session()


def _run_all(
    pending: Sequence[_Run],
    folder: Path,
    settings: PretrainingSettings,
    made_from: dict[str, Any],
    text: PlainText,
    report: _PretrainingProgress,
) -> None:
    """Train all; a run that fails leaves `error.json`, and the others continue."""
    import keras

    from relation_tf.training.language_model import LanguageModelTrainer

    for run in pending:
        own = _folder_of(folder, run)
        try:
            _start(own, {**asdict(settings), **made_from, **asdict(run)})
            # Compiled for each run: kept ones would count in the memory of those that follow, and
            # a layer of one's own may hold what no variable holds, drawn when it was built.
            keras.backend.clear_session()  # frees what Keras keeps of the run before
            trainer = LanguageModelTrainer(run.mechanism, settings, text)
            _run(trainer, run, own, report)
        except OSError as error:
            raise groups.unwritable(own, error) from error
        except RelationError as error:
            _fail(own, run, str(error), report)
        except Exception as error:
            _fail(own, run, provenance.one_line(error), report, traceback.format_exc())


def _start(own: Path, config: dict[str, Any]) -> None:
    """A folder for a run, empty but for the state of one half done."""
    own.mkdir(parents=True, exist_ok=True)
    for path in own.iterdir():
        if path.name != STATE:
            path.unlink()
    write_json(own / "config.json", config)


def _run(trainer: LanguageModelTrainer, run: _Run, own: Path, report: _PretrainingProgress) -> None:
    started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    about = {**provenance.machine(None), **provenance.software()}
    peak_of = session.forget_peaks()
    made_by = {"config": read_json(own / "config.json"), **about}
    checkpoint = None
    if run.mechanism in MECHANISMS:
        checkpoint = Checkpoint(own / STATE, made_by, _CHECKPOINT_EVERY)
    trained = trainer.run(run.seed, lambda step, row: report.step(run, step), checkpoint)
    write_weights(own / WEIGHTS, *trainer.encoder_weights())
    columns = {key: [row[key] for row in trained.history] for key in trained.history[0]}
    write_table(own / "history.csv", columns, ",")
    manifest = {
        "started": started,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "resumed_after_steps": list(trained.resumed),
        "command": provenance.command(),
        **about,
    }
    write_json(own / "manifest.json", manifest)
    result = _result(trainer, run, trained) | session.peaks() | {"peak_memory_of": peak_of}
    write_json(own / "result.json", result)
    (own / STATE).unlink(missing_ok=True)
    report.done(run, result)


def _result(trainer: LanguageModelTrainer, run: _Run, trained: TrainingResult) -> dict[str, Any]:
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
        "seconds": {**trained.seconds, "compilation": trainer.compile_seconds},
    }


def _fail(
    own: Path, run: _Run, reason: str, report: _PretrainingProgress, detail: str = ""
) -> None:
    with _writing(own):
        write_json(own / "error.json", {"error": reason, "traceback": detail})
    report.failed(run, reason)


def _write_scores(folder: Path) -> None:
    """Write what `relation-tf compare` reads, and that the lowest perplexity is the best."""
    runs = [*finished_runs(folder)]
    if not runs:
        return
    with _writing(folder):
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


class _PretrainingProgress:
    """Shows how far all runs are, in steps, with an estimate of the time left.

    Args:
        folder: The folder, for what is said at an interruption.
        steps: Of a run.
        asked: The runs asked for.
        pending: Those of them that are to do.
        quiet: Print nothing.
    """

    def __init__(
        self, folder: Path, steps: int, asked: Sequence[_Run], pending: Sequence[_Run], quiet: bool
    ) -> None:
        self._console = Console(quiet=quiet, highlight=False, soft_wrap=True)
        self._folder, self._steps = folder, steps
        self._asked, self._pending = len(asked), [*pending]
        self._finished = len(asked) - len(pending)
        self._taken: dict[str, list[float]] = {}  # steps of each mechanism, and their seconds
        self._last: tuple[_Run, int, float] | None = None
        self._last_line = time.monotonic()
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        if self._finished:
            self.say(f"{self._finished} of {self._asked} runs are done already, in {self._folder}")
        if self._pending:
            total, done = self._asked * self._steps, self._finished * self._steps
            self._bar = start_bar(self._console, "steps", total, done)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        done = f"{self._finished} of {self._asked} runs"
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self.say(
                f"Interrupted. {done} are done and kept in {self._folder}; the same command goes "
                "on from there."
            )
        elif kind is None:
            self.say(f"{done} done, in {self._folder}")

    def say(self, text: str) -> None:
        """Print a line."""
        say(self._console, text)

    def step(self, run: _Run, step: int) -> None:
        """Take note of a step that is done."""
        now = time.monotonic()
        if self._last is not None and self._last[0] == run:
            taken = self._taken.setdefault(run.mechanism, [0.0, 0.0])
            taken[0] += step - self._last[1]
            taken[1] += now - self._last[2]
        self._last = run, step, now
        note = f"{self._time_left(run, step)}{run} step {step:,}"
        if self._bar is not None:
            self._bar.update(self._finished * self._steps + step, note)
        elif now - self._last_line >= PLAIN_EVERY:
            self._last_line = now
            self.say(f"{self._finished}/{self._asked} runs, {note} of {self._steps:,}")

    def done(self, run: _Run, result: dict[str, Any]) -> None:
        """EventCallback of a run that is done."""
        self._pending.remove(run)
        self._finished += 1
        self.say(
            f"{run}: perplexity {result['perplexity']:.2f}, {result['tokens_per_second']:,.0f} "
            "tokens a second"
        )

    def failed(self, run: _Run, reason: str) -> None:
        """EventCallback of a run that failed."""
        self._pending.remove(run)
        self.say(f"failed: {run}: {reason}")

    def _time_left(self, run: _Run, step: int) -> str:
        """From the seconds of a step of each mechanism, or else of all."""
        pace = {name: seconds / steps for name, (steps, seconds) in self._taken.items()}
        if not pace:
            return ""
        usual = sum(pace.values()) / len(pace)
        left = -step * pace.get(run.mechanism, usual)
        left += sum(self._steps * pace.get(each.mechanism, usual) for each in self._pending)
        return time_left(left)
