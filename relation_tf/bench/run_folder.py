"""The folder of a suite's runs: written so that a half-written file is never read. Free of Keras.

    OUT/suite.toml                            what was asked
    OUT/runs/<task>/<method>/seed-<s>/
        config.json  manifest.json  history.csv  predictions/<split>.tsv  result.json

A run is done when its result.json is there: it is written last, under another name, then renamed.
One that is not done has a state.npz, from which it goes on.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ENOTDIR
from pathlib import Path
from typing import Any

from relation_tf.config.loading import load_suite
from relation_tf.config.run import RunConfig
from relation_tf.config.suite import Suite
from relation_tf.errors import SuiteError
from relation_tf.files import read_json, write_json, write_text
from relation_tf.training.checkpoint import STATE

# Digests of what a run was made from; they tell nobody anything, and are not known of all runs.
_MADE_FROM = {
    "data_digest": "other data",
    "glove_digest": "other word vectors",
    "pretrained_digest": "another pre-trained encoder",
    "plugins_digest": "another version of its plugins",
}


@dataclass(frozen=True)
class RunFolder:
    """A suite's folder.

    Attributes:
        path: The folder.
    """

    path: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and keep it to this process; the lock goes with the process.

        Raises:
            SuiteError: Where it cannot be written, or another process runs a suite in it.
        """
        with self._writing():
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / ".lock").open("w")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise SuiteError(
                    f"{self.path}: another process is running a suite in this folder. Wait for it, "
                    "or give another --out"
                ) from error
            yield

    def open(self, suite: Suite) -> None:
        """Make the folder and write down what is asked.

        Raises:
            SuiteError: Where it cannot be written, or holds finished runs that the suite does not
                have: they would be lost to its reports.
        """
        asked = {self.run(config) for config in suite.runs()}
        for result in sorted(self.path.glob("runs/*/*/*/result.json")):
            if result.parent not in asked:
                methods = ", ".join(str(method.name) for method in suite.methods())
                raise SuiteError(
                    f"{result.parent}: this finished run is not in suite {suite.name}, which has "
                    f"{methods} on {', '.join(suite.tasks)} with seeds "
                    f"{', '.join(map(str, suite.seeds))}. Give another --out"
                )
        with self._writing():
            self.path.mkdir(parents=True, exist_ok=True)
            for state in self.path.glob(f"runs/*/*/*/{STATE}"):
                if (state.parent / "result.json").exists():  # killed before it could tidy up
                    state.unlink()
            if suite.published is not None and Path(suite.published).is_file():
                # The folder tells all by itself.
                write_text(self.path / "published.toml", Path(suite.published).read_text("utf-8"))
                suite = suite.model_copy(update={"published": "published.toml"})
            write_text(self.path / "suite.toml", suite.to_toml())

    def change(self, suite: Suite) -> str | None:
        """What `open` will make of the folder, where it was another suite's; else None.

        A suite may grow, and so may be given its folder; one that only has the name of another
        would take that one's.
        """
        if not _is_there(self.path / "suite.toml"):
            return None
        try:
            before = self.suite()
        except SuiteError as error:
            return f"{error}; it is written anew"
        differing = [
            text
            for text, of in (
                ("another title", lambda own: own.title),
                ("other methods", lambda own: {method.name for method in own.methods()}),
                ("other tasks", lambda own: {*own.tasks}),
            )
            if of(before) != of(suite)
        ]
        if not differing:
            return None
        return (
            f"{self.path} held a suite of {_extent(before)}; from now on it is of "
            f"{_extent(suite)}, with {' and '.join(differing)}. Give another --out to keep them "
            "apart"
        )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            place = error.filename or self.path
            reason = error.strerror or error
            if isinstance(error, FileExistsError | NotADirectoryError):
                reason = "a folder is expected here"
            raise SuiteError(f"{place}: cannot be written: {reason}") from error

    def suite(self) -> Suite:
        """What was asked.

        Raises:
            SuiteError: Where the folder is not one of a suite.
        """
        path = self.path / "suite.toml"
        if not _is_there(path):
            received = "" if self.path.is_dir() else ". Received: no such folder"
            if self.path.is_file():
                received = ". Received: a file; `relation-tf compare` makes a report of a table"
            raise SuiteError(
                f"{self.path}: expected a suite's folder, with a suite.toml in it{received}"
            )
        return load_suite(path, search_suite_folder=False)

    def run(self, config: RunConfig) -> Path:
        """The folder of a run."""
        return self.path / "runs" / config.task / config.method / f"seed-{config.seed}"

    def is_done(self, config: RunConfig) -> bool:
        """Whether a run has its result; refuse it where it was another run's.

        Raises:
            SuiteError: Where the finished run has another configuration; it names the key and both
                values.
        """
        folder = self.run(config)
        if not self.has_result(config):
            return False
        asked = config.model_dump(mode="json")
        found = read_config(folder)
        for key in sorted(asked.keys() | found.keys()):
            # What was read is not known of runs that are not asked for this time, and its digests
            # not of runs from before they were kept.
            if key == "source" and config.source == "auto":
                continue
            if key == "pretrained" and asked["pretrained_digest"] and found["pretrained_digest"]:
                continue  # a folder may be moved; what is in it decides
            if key in _MADE_FROM and None in (asked.get(key), found.get(key)):
                continue
            if asked.get(key) != found.get(key):
                other = f"{key} = {found.get(key)!r}, now asked is {asked.get(key)!r}"
                if key == "mechanism_digest":
                    other = f"another version of {config.custom_layer}"
                raise SuiteError(
                    f"{folder}: this run was done with {_MADE_FROM.get(key, other)}. Give another "
                    f"--out (out=), or delete {self.path} to run all again"
                )
        return True

    def has_result(self, config: RunConfig) -> bool:
        """Whether a run is done, with whatever configuration."""
        return _is_there(self.run(config) / "result.json")

    def start(self, config: RunConfig) -> Path:
        """A folder for a run, with its configuration, empty but for the state of one half done."""
        folder = self.run(config)
        with self._writing():
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                raise NotADirectoryError(ENOTDIR, "a folder is expected here", str(folder))
            for path in folder.glob("*"):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                elif path.name != STATE:
                    path.unlink()
            (folder / "predictions").mkdir(parents=True)
        write_json(folder / "config.json", config.model_dump(mode="json"))
        return folder

    def done(self) -> Iterator[Path]:
        """The folders of all finished runs, in order of task, method and seed."""
        suite = self.suite()
        for config in suite.runs():
            if _is_there(self.run(config) / "result.json"):
                yield self.run(config)

    def failed(self) -> Iterator[Path]:
        """The folders of all failed runs."""
        for config in self.suite().runs():
            if _is_there(self.run(config) / "error.json"):
                yield self.run(config)


def _extent(suite: Suite) -> str:
    return f"{len(suite.methods())} methods and {len(suite.tasks)} tasks"


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise SuiteError(f"{path}: cannot be read: {error.strerror}") from error


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration of a run.

    A run that was made before a key was thought of was made as the key's default says.

    Raises:
        SuiteError: Where the file is not there or not one.
    """
    keys = RunConfig.model_fields.items()
    defaults = {
        key: field.get_default(call_default_factory=True)
        for key, field in keys
        if not field.is_required()
    }
    return {**defaults, **read_json(folder / "config.json")}
