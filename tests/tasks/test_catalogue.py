from __future__ import annotations

import errno
import os
import pathlib

import pytest

from relation_tf.config.suite import make_suite
from relation_tf.errors import DataError, SuiteError, UnknownNameError
from relation_tf.registry import SOURCES, register_source
from relation_tf.tasks import find_source
from relation_tf.tasks.catalogue import NotFoundError
from relation_tf.tasks.sources import digest_of_path
from tests.tasks.equality import read_task


@pytest.mark.parametrize("name", ["MNLI", "fdu-baby", "WikiText-2"])
def test_error_says_which_files_are_required(tmp_path, name):
    """Expect the searched locations or the missing option, and how to get the data."""
    with pytest.raises(DataError) as error:
        find_source(name, "files")
    message = str(error.value)
    assert message.startswith(f"task {name}: needs --data DIR, a folder that contains ")
    assert ". To get the data: " in message
    places = message.partition("a folder that contains ")[2].partition(". To get")[0].split(" or ")
    with pytest.raises(DataError) as error:
        find_source(name, "files", tmp_path)
    message = str(error.value)
    assert message.startswith(f"task {name}: not found. Searched: {tmp_path / places[0]}")
    assert all(str(tmp_path / place) in message for place in places)
    assert "\n" not in message


def test_an_unknown_source_is_refused():
    with pytest.raises(
        UnknownNameError,
        match=r"source 'x'\. Must be one of auto, files, datasets, tfds, miniglue\.",
    ):
        find_source("CoLA", "x")
    with pytest.raises(DataError, match=r"source='miniglue' only has CoLA"):
        find_source("MR", "miniglue")


def test_a_source_declares_its_tasks():
    register_source("one-task", tasks=["RTE"])(lambda dataset, folders: None)
    try:
        with pytest.raises(DataError, match=r"task CoLA: source='one-task' only has RTE\."):
            find_source("CoLA", "one-task")
        with pytest.raises(NotFoundError, match="the source 'one-task' does not have it"):
            find_source("RTE", "one-task")
        suite = {"name": "x", "tasks": ["CoLA"], "method": [{"mechanism": "relation"}]}
        with pytest.raises(SuiteError, match="one of RTE with source = 'one-task'"):
            make_suite("x", {**suite, "source": "one-task"})
    finally:
        SOURCES.remove("one-task")


def test_error_names_a_missing_file(small_glue, tmp_path):
    folder = tmp_path / "RTE"
    folder.mkdir()
    (folder / "train.tsv").write_bytes((small_glue / "RTE" / "train.tsv").read_bytes())
    with pytest.raises(DataError, match=r"RTE/dev\.tsv: this file of task RTE does not exist"):
        find_source("RTE", "files", tmp_path)
    (tmp_path / "baby.task.train").write_text("1\tgood\n")
    with pytest.raises(
        DataError, match=r"baby\.task\.test: this file of task fdu-baby does not exist"
    ):
        read_task("fdu-baby", tmp_path)


def refuse(path, *arguments, **options):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


@pytest.mark.parametrize("method", ["exists", "open", "iterdir"])
def test_unreadable_files_and_folders_are_one_line(small_glue, tmp_path, monkeypatch, method):
    (tmp_path / "rte").mkdir()
    folder = tmp_path if method == "iterdir" else small_glue
    monkeypatch.setattr(pathlib.Path, method, refuse)
    with pytest.raises(DataError, match=r"(?i)rte.*: cannot be read: Permission denied$"):
        find_source("RTE", "auto", folder).digest()


def test_digest_of_a_folder(tmp_path, monkeypatch):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "é.txt").write_text("1")
    (tmp_path / "a.txt").write_text("2")
    assert digest_of_path(tmp_path).hex()[:16] == "29c50cacc573c9cf"
    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match=r"cannot be read: Permission denied$"):
        digest_of_path(tmp_path)
