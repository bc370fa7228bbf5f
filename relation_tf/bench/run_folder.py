"""The folder of a suite's runs; files are written atomically. Does not import Keras.

    OUT/suite.toml                            the suite
    OUT/failing_layers.json                   methods whose layer fails its checks, if any
    OUT/runs/<task>/<method>/seed-<s>/
        config.json  manifest.json  history.csv  predictions/<name>.<dev|test>.tsv
        result.json

A run is done when its result.json exists; this file is written last and has checksums of the
others. A run with a damaged file is not done. An unfinished run has a state.npz, from which it
resumes. With save_models, a run has its network in model.keras and its vocabulary in
vocabulary.json. A failed run has an error.json; one that diverged is not trained again with the
same configuration.

Several processes can train the runs of a folder: a process locks a run while it trains it, with a
file in OUT/.locks.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from errno import ENOTDIR
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from filelock import FileLock, Timeout

from relation_tf.config.run import RunConfig
from relation_tf.config.suite import Suite, load_suite
from relation_tf.errors import SuiteError, reason_of
from relation_tf.files import read_json, write_json, write_text
from relation_tf.tasks.sources import digest_of_file
from relation_tf.training.pretraining_settings import SETTINGS

if TYPE_CHECKING:
    from relation_tf.bench.pretraining import PretrainingRun

AnyRun: TypeAlias = "RunConfig | PretrainingRun"

# Messages for digests that differ. All runs have the last two digests.
_MADE_FROM = {
    "data_digests": "other data",
    "glove_digest": "other word vectors",
    "pretrained_digest": "another pre-trained encoder",
    "plugins_digest": "another version of its plugins",
    "mechanism_digest": "another version of its layer",
    "callbacks_digest": "another version of its callbacks",
    "text": "another text, or another version of tokenizers",
}
# Names of tables in suites.
_TABLES = {"custom_task": "[[task]]", "group": "[[group]]"}
STATE, ERROR = "state.npz", "error.json"
FAILING_LAYERS = "failing_layers.json"
SWEEP = "sweep"  # folder of the tuning runs
_LOOK = 0.2  # seconds in which another process looks whether a run is locked
_ALWAYS_KNOWN = ("mechanism_digest", "text")


@dataclass(frozen=True)
class RunFolder:
    """A suite's folder.

    Attributes:
        path: The folder.
        began: Start of the command, in seconds since the epoch.
    """

    path: Path
    began: float = field(default_factory=time.time, compare=False)

    @contextmanager
    def locked(self, name: object, *, wait: bool = False) -> Iterator[bool]:
        """Lock a run, or a file of the folder, until the block or the process ends.

        Args:
            name: The run, or the name of a file.
            wait: If True, wait until no other process has the lock.

        Yields:
            False if another process has the lock.

        Raises:
            SuiteError: If the folder cannot be written.
        """
        path = self._lock(name)
        lock = FileLock(path)
        with writing(self.path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(Timeout):
                # Another command may look whether a run is locked: it locks it for a moment.
                lock.acquire(timeout=-1 if wait else _LOOK, poll_interval=_LOOK / 10)
        try:
            yield lock.is_locked
        finally:
            lock.release()

    def is_locked(self, run: AnyRun) -> bool:
        """Return True if a process trains a run."""
        path = self._lock(run)
        try:
            if path.exists():
                with FileLock(path, blocking=False):
                    pass
        except Timeout:
            return True
        except OSError:  # writing the run fails, too, with a message
            pass
        return False

    def check_locked(self, runs: Iterable[AnyRun]) -> None:
        """Check that the runs that other processes train have the same configuration.

        Raises:
            SuiteError: If one has another configuration; names the key and both values.
        """
        for run in runs:
            if self.is_locked(run) and (self.run(run) / "config.json").exists():
                self.check_configuration(run)

    def _lock(self, name: object) -> Path:
        return self.path / ".locks" / f"{name}.lock"

    def check_runs(self, suite: Suite) -> None:
        """Check that a suite has all finished runs of the folder: reports would omit the others.

        Raises:
            SuiteError: If a finished run is not in the suite, or the runs are those of `pretrain`.
        """
        if _look_up(self.path / SETTINGS):
            raise SuiteError(f"{self.path}: contains runs of pretrain. Choose another --out")
        requested = {self.run(config) for config in suite.runs()}
        for result in sorted(self.path.glob("runs/*/*/*/result.json")):
            if result.parent not in requested:
                methods = ", ".join(str(method.name) for method in suite.methods())
                raise SuiteError(
                    f"{result.parent}: this finished run is not in suite {suite.name}, which has "
                    f"{methods} on {', '.join(suite.tasks)} with seeds "
                    f"{', '.join(map(str, suite.seeds))}. Choose another --out"
                )

    def open(self, suite: Suite) -> None:
        """Create the folder and write `suite.toml`.

        Raises:
            SuiteError: If the folder cannot be written.
        """
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            for state in self.path.glob(f"runs/*/*/*/{STATE}"):
                if (state.parent / "result.json").exists():  # killed before deleting it
                    state.unlink(missing_ok=True)
            if suite.published is not None and Path(suite.published).is_file():
                # A copy, so that the folder is complete.
                write_text(self.path / "published.toml", Path(suite.published).read_text("utf-8"))
                suite = suite.model_copy(update={"published": "published.toml"})
            write_text(self.path / "suite.toml", suite.to_toml())

    def suite(self) -> Suite:
        """Return the suite of the folder; its plugins are not imported, see `load_suite`.

        Raises:
            SuiteError: If it is not the folder of a suite, or a plugin is not imported.
        """
        return load_suite(self.suite_file(), import_plugins=False)

    def suite_file(self) -> Path:
        """Return the path of `suite.toml`.

        Raises:
            SuiteError: If it is not the folder of a suite.
        """
        path = self.path / "suite.toml"
        if not _look_up(path):
            fault = "no such folder"
            if self.path.exists():
                fault = "no suite.toml in this folder" if self.path.is_dir() else "not a folder"
            raise SuiteError(
                f"{self.path}: {fault}. DIR must be a folder written by `relation-tf run` (it "
                f"contains suite.toml).{suites_inside(self.path)}"
            )
        return path

    def run(self, run: AnyRun) -> Path:
        """Return the folder of a run."""
        return self.path / "runs" / str(run)

    def is_done(self, run: AnyRun) -> bool:
        """Return True if a run is finished, or has diverged with this configuration.

        The finished run may have another configuration, see `check_configuration`.
        """
        if self.holds_result(run):
            return self.has_result(run)
        return has_diverged(self.run(run)) and self._has_configuration(run)

    def new_error(self, run: AnyRun) -> Mapping[str, Any] | None:
        """Return the `error.json` of a run with this configuration, if it failed in this command.

        Another command, which trains the runs of the same folder, may have written it.
        """
        path = self.run(run) / ERROR
        with suppress(OSError, SuiteError):
            if path.stat().st_mtime >= self.began and self._has_configuration(run):
                return read_json(path)
        return None

    def has_other_settings(self, run: AnyRun) -> bool:
        """Return True if a run has diverged, with another configuration."""
        folder = self.run(run)
        known = has_diverged(folder) and (folder / "config.json").exists()
        return known and not self._has_configuration(run)

    def _has_configuration(self, run: AnyRun) -> bool:
        try:
            self.check_configuration(run)
        except SuiteError:
            return False
        return True

    def check_configuration(self, run: AnyRun) -> None:
        """Check that a finished or diverged run has this configuration.

        Raises:
            SuiteError: If it has another one; names the key and both values.
        """
        folder = self.run(run)
        requested, trained = run.model_dump(mode="json"), read_config(folder, type(run))
        self.check_unchanged(folder, requested, trained)

    def check_unchanged(
        self, folder: Path, requested: Mapping[str, Any], trained: Mapping[str, Any]
    ) -> None:
        """Refuse a finished run of another configuration.

        Args:
            folder: Its folder, for the message.
            requested: The requested configuration.
            trained: The configuration of the finished run.

        Raises:
            SuiteError: Names the first key that differs and both values; in tables, all keys that
                differ.
        """
        for key in sorted(requested.keys() | trained.keys()):
            # Runs that are not requested have no digests; nor have runs of older versions.
            if key == "source" and requested[key] == "auto":
                continue
            # A moved folder has the same contents.
            if key == "pretrained" and requested[key] and trained["pretrained_digest"]:
                continue
            now, before = requested.get(key), trained.get(key)
            if now == before or (
                key in _MADE_FROM and key not in _ALWAYS_KNOWN and None in (now, before)
            ):
                continue
            differing = _MADE_FROM.get(key) or _changes(_TABLES.get(key, key), before, now)
            if key == "data_digests" and now and before:
                differing += f" ({', '.join(differing_splits(now, before))})"
            raise SuiteError(
                f"{folder}: this run was done with {differing}. Choose another --out (out=), or "
                f"delete {self.path} to run everything again"
            )

    def failing_layers(self) -> dict[str, str]:
        """Return the methods whose layer fails its checks, and the faults."""
        path = self.path / FAILING_LAYERS
        if not _look_up(path):
            return {}
        return {str(name): str(fault) for name, fault in read_json(path).items()}

    def record_failing_layers(self, checked: Collection[str], failing: Mapping[str, str]) -> None:
        """Record the checks of some methods; those of other methods are kept."""
        with self.locked(FAILING_LAYERS, wait=True), writing(self.path):
            before = self.failing_layers()
            kept = {name: fault for name, fault in before.items() if name not in checked}
            if (now := {**kept, **failing}) != before:
                write_json(self.path / FAILING_LAYERS, now)

    def holds_result(self, run: AnyRun) -> bool:
        """Return True if a run has a `result.json`; its files may be damaged."""
        return os.path.exists(self.run(run) / RESULT)  # noqa: PTH110 - Path.exists can raise

    def has_result(self, run: AnyRun) -> bool:
        """Return True if a run is done, with any configuration."""
        return self.holds_result(run) and damage(self.run(run)) is None

    def damaged(self, runs: Iterable[AnyRun]) -> list[str]:
        """Return the damaged files of finished runs, each with its fault."""
        folders = [self.run(run) for run in runs if self.holds_result(run)]
        return [fault for folder in folders if (fault := damage(folder)) is not None]

    def start(self, run: AnyRun) -> Path:
        """Create the folder of a run with its configuration; of an old run, keep the checkpoint."""
        folder = self.run(run)
        with writing(self.path):
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                raise NotADirectoryError(ENOTDIR, "must be a folder", str(folder))
            for path in folder.glob("*"):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                elif path.name != STATE:
                    path.unlink()
            folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "config.json", run.model_dump(mode="json"))
        return folder

    def with_file(self, name: str) -> list[Path]:
        """Return the folders of runs that have a file, in order of task, method and seed."""
        folders = map(self.run, self.suite().runs())
        return [folder for folder in folders if _look_up(folder / name)]


def has_diverged(folder: Path) -> bool:
    """Return True if the last attempt at a run diverged."""
    with suppress(SuiteError):  # no file, or a broken one: the run is repeated
        return read_json(folder / ERROR).get("diverged") is True
    return False


def count_diverged(folder: RunFolder, runs: Iterable[AnyRun], pending: Iterable[AnyRun]) -> int:
    """Return the number of runs that have diverged and are not pending again."""
    again = {run.key for run in pending}
    return sum(run.key not in again and has_diverged(folder.run(run)) for run in runs)


def suites_inside(folder: Path) -> str:
    """Return a hint that names folders of suites in a folder; empty if there are none."""
    folders = sorted(str(path.parent) for path in folder.glob("*/suite.toml"))
    return f" It contains {', '.join(folders[:4])}." if folders else ""


def prediction_file(name: str, split: str) -> str:
    """Return the name of the file with the predictions of a scored or answered name.

    Args:
        name: The name.
        split: Its split: "dev_matched" is a dev set, "diagnostic" a test set.

    Example:
        >>> prediction_file("MNLI-m", "dev_matched"), prediction_file("AX", "MNLI:diagnostic")
        ('MNLI-m.dev.tsv', 'AX.test.tsv')
    """
    return f"{name}.{kind_of(split)}.tsv"


def kind_of(split: str) -> str:
    """Return what a split is, such as "dev" or "test".

    Example:
        >>> kind_of("dev_matched"), kind_of("diagnostic"), kind_of("MR:test")
        ('dev', 'test', 'test')
    """
    split = split.rpartition(":")[2]  # of a group's task
    return "test" if split == "diagnostic" else split.partition("_")[0]


def _changes(key: str, before: Any, value: Any) -> str:
    """Describe the change of a value, or of the keys of a table that differ.

    Example:
        >>> _changes("options", {"num_heads": 2, "bias": True}, {"num_heads": 4})
        'options.num_heads = 2, but now options.num_heads = 4; options.bias = True, but now none'
    """
    if isinstance(before, Mapping) and isinstance(value, Mapping):
        keys = [
            name for name in {**before, **value} if before.get(name, ...) != value.get(name, ...)
        ]
        return "; ".join(
            _changes(f"{key}.{name}", before.get(name, ...), value.get(name, ...)) for name in keys
        )
    now = "none" if value is ... else f"{key} = {_shown(value)}"
    return f"{'no ' + key if before is ... else f'{key} = {_shown(before)}'}, but now {now}"


def _shown(value: Any) -> str:
    """Return a value; a table that is new or removed without its keys."""
    return "{...}" if isinstance(value, Mapping) and value else repr(value)


def differing_splits(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Return the splits whose digests differ."""
    splits = dict.fromkeys([*first, *second])
    return [split for split in splits if first.get(split) != second.get(split)]


def _look_up(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise SuiteError(f"{path}: cannot be read: {error.strerror}") from error


def read_config(folder: Path, model: type[AnyRun] = RunConfig) -> dict[str, Any]:
    """Return the configuration of a run; missing new keys get their defaults.

    Raises:
        SuiteError: If the file is missing or broken.
    """
    defaults = {
        key: field.get_default(call_default_factory=True)
        for key, field in model.model_fields.items()
        if not field.is_required()
    }
    return {**defaults, **read_json(folder / "config.json")}


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raise a `SuiteError` of one line if the body cannot write to a folder."""
    try:
        yield
    except OSError as error:
        raise unwritable(Path(error.filename or folder), error) from error


def unwritable(place: Path, error: OSError) -> SuiteError:
    """Return the error of a file or folder that cannot be written."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        return SuiteError(f"{place}: cannot be written: must be a folder, not a file")
    return SuiteError(
        f"{place}: cannot be written: {error.strerror or error}. Finished runs are kept: when this "
        "is fixed, run the same command again to resume"
    )


RESULT, MODEL, VOCABULARY = "result.json", "model.keras", "vocabulary.json"
FILES = "files"
DIGEST = "sha256"
_MODELS = (MODEL, VOCABULARY)


def write_result(folder: Path, result: Mapping[str, Any]) -> None:
    """Write `result.json` with the size and SHA-256 of each file of the run.

    The file also has the SHA-256 of its own content. It is written last: it makes a run a finished
    run.

    Args:
        folder: The folder of the run.
        result: The entries; earlier checksums are replaced.
    """
    files = {
        name: {"bytes": path.stat().st_size, DIGEST: digest_of(path)}
        for name, path in _files(folder)
    }
    content = {key: value for key, value in result.items() if key != DIGEST} | {FILES: files}
    write_json(folder / RESULT, {**content, DIGEST: _digest(content)})


def damage(folder: Path, *, models: bool = True, others: bool = True) -> str | None:
    r"""Return which file of a finished run has changed since it was written, and how.

    Files without a checksum are not checked: they were added later. Models may be deleted.

    Args:
        folder: The folder of a run with a `result.json`.
        models: If False, only the sizes of models are checked: reports do not read
            them, and reading them can take longer than the report.
        others: If False, only models are checked, and `result.json`.

    Returns:
        A sentence that starts with the path of the file, or None.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     folder = Path(name)
        ...     _ = (folder / "history.csv").write_text("epoch,loss\n1,0.5\n")
        ...     write_result(folder, {"seed": 1})
        ...     before = damage(folder)
        ...     _ = (folder / "history.csv").write_text("epoch,loss\n1,0.4\n")
        ...     before, damage(folder).removeprefix(str(folder))
        (None, '/history.csv: damaged: its content has changed since the run')
    """
    try:
        result = read_json(folder / RESULT)
    except SuiteError as error:
        return str(error)
    content = {key: value for key, value in result.items() if key != DIGEST}
    if (FILES in result or DIGEST in result) and result.get(DIGEST) != _digest(content):
        return f"{folder / RESULT}: damaged: its content has changed since the run"
    for name, recorded in result.get(FILES, {}).items():
        is_model, path = name in _MODELS, folder / name
        if (is_model and not path.exists()) or not (is_model or others):
            continue
        if fault := _fault(path, recorded, content=models or not is_model):
            return f"{path}: damaged: {fault}"
    return None


def _fault(path: Path, recorded: Mapping[str, Any], content: bool) -> str | None:
    try:
        size = path.stat().st_size
        if size != recorded["bytes"]:
            return f"it had {recorded['bytes']:,} bytes after the run, and has {size:,}"
        if content and digest_of(path) != recorded[DIGEST]:
            return "its content has changed since the run"
    except OSError as error:
        return reason_of(error)
    return None


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the names and paths of the files of a run, but not temporary files."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in (RESULT, STATE) and not path.name.startswith("."):
            yield path.relative_to(folder).as_posix(), path


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal digits."""
    return digest_of_file(path).hex()


def _digest(content: Mapping[str, Any]) -> str:
    written = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()
