from __future__ import annotations

import os
import subprocess
import sys

import pytest

from relation_tf.errors import DataError
from relation_tf.tasks.cache import cache_folder, made_once


def write(folder):
    (folder / "file").write_text("whole")


def folders():
    return sorted(path.name for path in cache_folder().iterdir() if path.is_dir())


def test_failed_creation_leaves_no_folder():
    def fail(folder):
        write(folder)
        raise KeyboardInterrupt("half way")

    with pytest.raises(KeyboardInterrupt, match="half way"):
        made_once("thing", fail)
    assert folders() == []


def run(code, *arguments):
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, env=dict(os.environ), stdout=subprocess.PIPE, text=True)


SLOW = """
import os, sys, time
from pathlib import Path
from relation_tf.tasks.cache import made_once

ready = Path(sys.argv[1])

def make(folder):
    print("made", end=" ", flush=True)
    (folder / "file").write_text("wh")
    while len([*ready.iterdir()]) < 3:
        time.sleep(0.01)
    time.sleep(0.1)
    (folder / "file").write_text("whole")

(ready / str(os.getpid())).touch()
print((made_once("thing", make) / "file").read_text())
"""


def test_one_process_creates_the_folder_and_others_wait(tmp_path):
    ready = tmp_path / "ready"
    ready.mkdir()
    processes = [run(SLOW, str(ready)) for _ in range(3)]
    said = sorted(process.communicate(timeout=600)[0].strip() for process in processes)
    assert said == ["made whole", "whole", "whole"]


def test_files_of_a_killed_process_are_ignored():
    left = cache_folder() / "thing.unfinished"
    left.mkdir(parents=True)
    (left / "another").write_text("half")
    folder = made_once("thing", write)
    assert [path.name for path in folder.iterdir()] == ["file"]
    assert (folder / "file").read_text() == "whole"
    assert folders() == ["thing"]


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_error_names_an_invalid_cache_folder(tmp_path, monkeypatch, place):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RELATION_TF_CACHE", str(tmp_path / place))
    with pytest.raises(DataError) as error:
        made_once("it", lambda folder: None)
    assert str(tmp_path / place) in str(error.value)
    assert "set RELATION_TF_CACHE to use another folder" in str(error.value)
