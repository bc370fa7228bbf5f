from __future__ import annotations

import os
from dataclasses import dataclass, field
from threading import Timer

import pytest
from filelock import FileLock

from relation_tf.bench import RunFolder
from relation_tf.bench.workers import Group, fail
from relation_tf.config import load_suite
from relation_tf.errors import SuiteError
from relation_tf.files import read_json, write_json


@pytest.fixture
def finished(suite, tmp_path):
    """Return a function that finishes the first run of a suite: the folder, and the run's."""

    def finish(asked=None, **config):
        folder = RunFolder(tmp_path)
        folder.open(asked or suite())
        run = folder.start((asked or suite()).runs()[0].model_copy(update=config))
        write_json(run / "result.json", {})
        return folder, run

    return finish


def test_a_run_is_done_when_its_result_is_there(tmp_path, suite):
    folder = RunFolder(tmp_path / "out")
    folder.open(suite())
    config = folder.suite().runs()[0]
    assert not folder.is_done(config)
    path = folder.start(config)
    assert not folder.is_done(config)
    write_json(path / "result.json", {})
    assert folder.is_done(config)
    assert folder.with_file("result.json") == [path]


@dataclass(frozen=True)
class Recorded(Group):
    trained: list = field(default_factory=list)

    def prepare(self, notify):
        return lambda run, path: self.trained.append(run.key)


def test_a_run_that_failed_in_another_command_meanwhile_is_not_repeated(tmp_path, suite):
    folder, run = RunFolder(tmp_path), suite().runs()[0]
    group, events = Recorded([run], tmp_path, began=folder.began), []
    folder.start(run)
    fail(folder, run, "too large", events.append)
    os.utime(folder.run(run) / "error.json", (folder.began + 1,) * 2)
    group.train(events.append)
    first, second = events
    assert not group.trained
    assert first.items() <= second.items()
    later = Recorded([run], tmp_path, began=folder.began + 2)
    later.train(events.append)
    assert later.trained == [run.key]


def test_unfinished_files_are_deleted(tmp_path, suite):
    folder = RunFolder(tmp_path)
    folder.open(suite())
    path = folder.start(folder.suite().runs()[0])
    (path / "history.csv").write_text("half")
    (path / "error.json").write_text("{}")
    folder.start(folder.suite().runs()[0])
    assert {file.name for file in path.iterdir()} == {"config.json"}


def test_another_configuration_is_refused_with_both_values(finished, suite):
    folder, path = finished()
    with pytest.raises(SuiteError) as caught:
        folder.check_configuration(suite(dropout=0.25).runs()[0])
    error = str(caught.value)
    assert f"{path}: this run was done with dropout = 0.5, but now dropout = 0.25" in error


TASK = {
    "name": "films",
    "inputs": ["text"],
    "label": "label",
    "labels": ["good", "bad"],
    "files": {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"},
}
ATTENTION = {"mechanism": "attention", "units": 8}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"task": [TASK | {"labels": ["bad", "good"]}]},
            "[[task]].labels = ['good', 'bad'], but now [[task]].labels = ['bad', 'good']",
        ),
        (
            {"task": [TASK | {"files": {"train": "train.tsv", "test": "b.tsv"}}]},
            "[[task]].files.dev = 'dev.tsv', but now none; [[task]].files.test = 'test.tsv', but "
            "now [[task]].files.test = 'b.tsv'",
        ),
        (
            {"method": [ATTENTION | {"options": {"num_heads": 2, "use_bias": True}}]},
            "no options.use_bias, but now options.use_bias = True",
        ),
    ],
)
def test_only_differing_keys_of_a_table_are_shown(finished, suite, changes, message):
    method = [ATTENTION | {"options": {"num_heads": 2}}]
    asked = {"tasks": ["films"], "task": [TASK], "method": method, "seeds": [1]}
    folder, path = finished(suite(**asked))
    with pytest.raises(SuiteError) as error:
        folder.check_configuration(suite(**asked | changes).runs()[0])
    assert str(error.value).startswith(f"{path}: this run was done with {message}. Choose another")


def test_a_run_from_before_keys_existed_is_done(finished, suite):
    folder, path = finished()
    older = read_json(path / "config.json")
    for key in ("network", "sized_by", "size", "learning_rate_schedule"):
        del older[key]
    write_json(path / "config.json", older)
    folder.check_configuration(suite().runs()[0])
    assert not folder.is_done(suite().runs()[-1])


def test_a_run_that_is_not_requested_may_have_a_moved_encoder(finished, suite):
    known = {"pretrained": "there", "pretrained_digest": "a"}
    folder, _ = finished(**known)
    config = suite().runs()[0]
    folder.check_configuration(config.model_copy(update={"pretrained": "moved"}))
    folder.check_configuration(config.model_copy(update={**known, "pretrained": "moved"}))
    with pytest.raises(SuiteError, match="another pre-trained"):
        folder.check_configuration(config.model_copy(update={**known, "pretrained_digest": "b"}))
    with pytest.raises(SuiteError, match="pretrained = 'there', but now pretrained = None"):
        folder.check_configuration(config)


def test_a_run_that_is_not_requested_may_have_any_source(finished, suite):
    folder, _ = finished(source="tfds")
    config = suite().runs()[0]
    folder.check_configuration(config)
    with pytest.raises(SuiteError, match="source = 'tfds', but now source = 'files'"):
        folder.check_configuration(config.model_copy(update={"source": "files"}))


def test_a_run_is_locked_by_one_process_at_a_time(tmp_path, suite):
    folder, (first, second, *_) = RunFolder(tmp_path / "out"), suite().runs()
    assert not folder.is_locked(first)
    assert not folder.path.exists()
    with folder.locked(first) as is_ours, RunFolder(tmp_path / "out").locked(first) as again:
        assert (is_ours, again) == (True, False)
        assert (folder.is_locked(first), folder.is_locked(second)) == (True, False)
    assert not folder.is_locked(first)


def test_a_look_at_a_lock_does_not_take_the_run(tmp_path, suite):
    """A waiting command locks a run for a moment, to see whether it is free."""
    folder, run = RunFolder(tmp_path), suite().runs()[0]
    with folder.locked(run):
        pass
    look = FileLock(tmp_path / ".locks" / f"{run}.lock", thread_local=False)
    look.acquire()
    Timer(0.05, look.release).start()
    with folder.locked(run) as is_ours:
        assert is_ours


def test_no_suite_in_the_folder(tmp_path):
    with pytest.raises(SuiteError, match=r"no suite\.toml in this folder\. DIR must be a folder "):
        RunFolder(tmp_path).suite()
    with pytest.raises(SuiteError, match=r"no such folder\. DIR must be a folder written by"):
        RunFolder(tmp_path / "none").suite()
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "suite.toml").touch()
    with pytest.raises(SuiteError, match=rf" It contains {tmp_path}/sweep\.$"):
        RunFolder(tmp_path).suite()
    with pytest.raises(SuiteError, match=r"suite\.toml: not a folder\. DIR must"):
        RunFolder(tmp_path / "sweep" / "suite.toml").suite()


def test_a_suite_does_not_share_the_folder_of_encoders(tmp_path):
    (tmp_path / "pretraining.json").write_text("{}")
    with pytest.raises(SuiteError, match="contains runs of pretrain"):
        RunFolder(tmp_path).check_runs(load_suite("demo"))


def test_a_run_in_training_with_other_settings_is_refused(tmp_path, suite):
    folder, runs = RunFolder(tmp_path), suite().runs()
    folder.start(runs[0])
    others = suite(dropout=0.25).runs()
    folder.check_locked(others)  # no process trains it
    with folder.locked(runs[0]):
        folder.check_locked(runs)
        with pytest.raises(SuiteError, match="dropout"):
            folder.check_locked(others)
