from __future__ import annotations

import json
import linecache
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pandas as pd
import pytest

from glue_submit import compute
from relation_tf.bench import RunFolder, plan_suite, read_results, run_suite
from relation_tf.bench import runner as runner_module
from relation_tf.bench.runner import build_methods
from relation_tf.config import Method, load_suite
from relation_tf.config.suite import load_published
from relation_tf.errors import RelationError, SuiteError
from relation_tf.registry import METRICS
from relation_tf.report import make_report
from relation_tf.training import session
from tests.bench.finished_runs import finish_suite

pytestmark = pytest.mark.tensorflow


class Mixer(keras.layers.Dense):
    """A user's own layer: the mean of all tokens, for each."""

    def call(self, x):
        return super().call(x + keras.ops.mean(x, axis=1, keepdims=True))


class Drawn(Mixer):
    """A layer with randomness that no variable holds."""

    def build(self, shape):
        super().build(shape)
        self.matrix = np.random.normal(size=(shape[-1], shape[-1])).astype("float32")

    def call(self, x):
        noise = keras.random.normal(keras.ops.shape(x))
        return super().call(keras.ops.matmul(x, self.matrix) + 0.1 * noise)


class Broken(keras.layers.Dense):
    def call(self, x):
        raise RuntimeError("no such thing")


@pytest.fixture
def run(tmp_path, small_glue):
    """Return a function that runs a suite in the folder `out`, by default on the small GLUE."""

    def run(asked, out="out", **options):
        return run_suite(asked, tmp_path / out, **{"data": small_glue, "quiet": True} | options)

    return run


# For tests that need no second network.
ONE = {"tasks": ["CoLA"], "method": [Method(mechanism="baseline", units=8)]}


def contents(folder):
    """The bytes of every file that has no times in it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and (path.suffix == ".tsv" or path.name == "config.json")
    }


def test_run_folder_has_the_documented_files(tmp_path, run, suite):
    asked = suite(tasks=["MNLI"], seeds=[2], method=[Method(mechanism="relation", units=8)])
    assert len(run(asked).runs) == 1
    folder = tmp_path / "out" / "runs" / "MNLI" / "relation-8" / "seed-2"
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == {
        "config.json", "manifest.json", "history.csv", "result.json",
        "predictions/MNLI-m.dev.tsv", "predictions/MNLI-mm.dev.tsv",
        "predictions/MNLI-m.test.tsv", "predictions/MNLI-mm.test.tsv", "predictions/AX.test.tsv",
    }  # fmt: skip
    header, row = (folder / "predictions" / "MNLI-m.dev.tsv").read_text().splitlines()[:2]
    assert header.split("\t")[:3] == ["index", "prediction", "label"]
    assert sum(map(float, row.split("\t")[3:])) == pytest.approx(1, abs=1e-5)
    result = json.loads((folder / "result.json").read_text())
    assert (result["epochs"], result["stopped"]) == (3, "reached 3 epochs")
    assert result["peak_memory_of"] == ("run" if LINUX else "process")
    assert result["peak_memory_mib"] > 100
    assert result["peak_device_memory_mib"] is None
    # The process of the tests can release memory after the base was measured.
    assert not LINUX or result["base_memory_mib"] > 100
    assert result["seconds"]["cpu"] > 0
    assert result["seconds"]["total"] <= result["seconds"]["wall"]
    assert set(result["metrics"]) == {"MNLI-m", "MNLI-mm"}
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["versions"]["keras"] == keras.__version__
    assert manifest["data"]["rows"]["train"] == 60


def test_finished_runs_are_kept_and_unfinished_ones_repeated(tmp_path, run, suite):
    run(suite(**ONE))
    before = contents(tmp_path)
    kept, lost = (tmp_path / f"out/runs/CoLA/baseline-8/seed-{seed}" for seed in (1, 2))
    stamp = (kept / "result.json").stat().st_mtime_ns
    (lost / "result.json").unlink()
    (lost / "predictions" / "CoLA.dev.tsv").write_text("half")
    run(suite(**ONE))
    assert (kept / "result.json").stat().st_mtime_ns == stamp
    assert contents(tmp_path) == before


@pytest.mark.slow
@pytest.mark.usefixtures("worker_processes")
def test_processes_give_the_same_bytes(tmp_path, run, suite):
    run(suite(), "one")
    run(suite(), "two", jobs=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked_layers")
def test_randomness_of_a_custom_layer_depends_on_the_seed(run, suite):
    both = run(suite(tasks=["CoLA"], method=[Method(mechanism=Drawn)]), "a")
    alone = run(suite(tasks=["CoLA"], method=[Method(mechanism=Drawn)]), "b", seeds=[2])
    losses = {each["seed"]: both.history(each)["loss"].tolist() for each in both.runs}
    assert losses[2] == alone.history(alone.runs[0])["loss"].tolist()
    assert losses[1] != losses[2]


OWN = """
import keras

class Own(keras.layers.Dense):
    def __init__(self, units, **kwargs):
        super().__init__({width}, **kwargs)
"""


def custom_layer(folder, monkeypatch, width):
    """Write and import a module with a custom layer."""
    (folder / "custom_layer.py").write_text(OWN.format(width=width), encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    sys.modules.pop("custom_layer", None)
    linecache.checkcache()
    return Method(mechanism="custom_layer:Own", units=8)


@pytest.mark.usefixtures("unchecked_layers")
@pytest.mark.parametrize("deep", [False, True], ids=["alone", "in an encoder"])
def test_changed_layer_is_not_mixed_with_older_runs(tmp_path, run, suite, monkeypatch, deep):
    method = custom_layer(tmp_path, monkeypatch, "units")
    if deep:
        method = Method(mechanism="encoder", units=8, options={"mechanism": method.mechanism})
    one = suite(tasks=["CoLA"], seeds=[1], epochs=1, method=[method])
    run(one)
    custom_layer(tmp_path, monkeypatch, "units, activation='relu'")
    with pytest.raises(SuiteError, match="this run was done with another version of"):
        run(one)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"mechanism": "nowhere:Layer"}, "cannot import .*: no such module. .* and the inst"),
        ({"mechanism": "keras.layers:Nothing"}, "cannot import .*'Nothing'"),
        (
            {"mechanism": "encoder", "options": {"mechanism": "relaton"}},
            r"unknown mechanism 'relaton'\. Did you mean 'relation'\?",
        ),
    ],
)
def test_a_layer_that_cannot_be_imported_is_refused_at_once(tmp_path, run, suite, method, message):
    asked = suite(method=[Method(name="own", **method)])
    with pytest.raises(SuiteError, match=f"method own: {message}"):
        run(asked)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("unchecked_layers")
def test_a_failed_run_leaves_its_error_and_the_suite_continues(tmp_path, run, suite, capsys):
    methods = [Method(mechanism=Broken), {"mechanism": "baseline", "units": 64}]
    results = run(suite(**ONE, epochs=1), replace_methods=methods, quiet=False)
    assert {each["method"] for each in results.runs} == {"baseline-64"}
    assert [name for name, _ in results.failures] == [
        "CoLA/Broken-64/seed-1", "CoLA/Broken-64/seed-2",
    ]  # fmt: skip
    assert all("no such thing" in error for _, error in results.failures)
    written = tmp_path / "out" / "runs" / "CoLA" / "Broken-64" / "seed-1" / "error.json"
    assert "Traceback" in json.loads(written.read_text())["traceback"]
    assert "failed: CoLA/Broken-64/seed-1" in capsys.readouterr().out


def test_a_metric_that_is_not_finite_fails_its_run(run, suite, monkeypatch):
    undefined = replace(METRICS["matthews"], function=lambda predictions, labels: float("nan"))
    monkeypatch.setitem(METRICS._entries, "matthews", undefined)
    results = run(suite(**ONE, epochs=1, seeds=[1]))
    assert results.runs == []
    ((name, error),) = results.failures
    assert name == "CoLA/baseline-8/seed-1"
    assert error.startswith("metric matthews on CoLA is nan. It must be a finite number: ")


@pytest.mark.parametrize("changed", ["CoLA/train.tsv", "glove.txt", "CoLA/test.tsv"])
def test_files_that_change_after_the_start_are_refused(
    tmp_path, small_glue, run, suite, monkeypatch, changed
):
    data, glove = tmp_path / "data", tmp_path / "data" / "glove.txt"
    shutil.copytree(small_glue, data)
    glove.write_text(("the " + " ".join(["0.5"] * 12) + "\n") * 2)

    def check_and_change(*arguments):
        build_methods(*arguments)
        lines = (data / changed).read_text().splitlines(keepends=True)
        (data / changed).write_text("".join(lines[:-1]))

    monkeypatch.setattr(runner_module, "build_methods", check_and_change)
    asked = suite(**ONE, embeddings="glove", seeds=[1], epochs=1)
    results = run(asked, data=data, glove=glove)
    errors = [error for _, error in results.failures]
    place = {"glove.txt": f"--glove {glove}", "CoLA/train.tsv": "CoLA (train)"}.get(changed)
    line = f"{place}: its files changed after the command started. Run it again"
    assert errors == ([line] if place else [])
    monkeypatch.undo()
    results = run(asked, data=data, glove=glove)
    assert (len(results.runs), results.failures) == (1, [])


@pytest.mark.parametrize("event", ["start", "compile", "epoch", "done"])
def test_a_closed_output_makes_no_failed_run(tmp_path, run, suite, monkeypatch, event):
    def closed(progress, sent):
        if sent["event"] == event:
            raise BrokenPipeError(32, "Broken pipe")

    asked = suite(**ONE, epochs=1)
    with monkeypatch.context() as patch:
        patch.setattr("relation_tf.bench.progress.Progress.notify", closed)
        with pytest.raises(BrokenPipeError):
            run(asked)
    assert not list(tmp_path.rglob("error.json"))
    results = run(asked)
    assert (len(results.runs), results.failures) == (2, [])


GLOVE = {"embeddings": "glove"}


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"data": "."}, "not found. Searched: "),
        ({}, {"data": "partial"}, r"dev\.tsv: this file of task CoLA does not exist"),
        ({}, {}, "needs --data DIR"),
        (GLOVE, {"glove": "narrow.txt"}, r"narrow\.txt:1: expected a word and 12 numbers, found 2"),
        (GLOVE, {}, "needs --glove FILE"),
        (
            GLOVE | {"embedding_dim": 2, "sweep": {"embedding_dim": [2, 3], "seeds": [9]}},
            {"glove": "narrow.txt"},
            r"narrow\.txt:1: expected a word and 3 numbers, found 2",
        ),
        ({}, {"glove": "x"}, r"has random embeddings.*Received: --glove x"),
    ],
)
def test_missing_input_is_refused_before_the_first_run(
    tmp_path, small_glue, suite, monkeypatch, changes, options, message
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(small_glue / "CoLA", tmp_path / "partial" / "CoLA")
    (tmp_path / "partial" / "CoLA" / "dev.tsv").unlink()
    (tmp_path / "narrow.txt").write_text("the 0.1 0.2\n", encoding="utf-8")
    data = {"data": small_glue} if "glove" in options or changes else {}
    with pytest.raises(RelationError, match=message):
        run_suite(suite(tasks=["CoLA"], **changes), "out", **{**data, **options}, quiet=True)
    assert not Path("out").exists()


def test_finished_runs_are_not_lost_to_another_suite(tmp_path, run, suite):
    one = suite(**ONE, seeds=[1])
    finish_suite(tmp_path / "out", one)
    with pytest.raises(SuiteError, match="run is not in suite small, which has Mixer"):
        run(one, replace_methods=[Mixer], allow_failing_checks=True)
    with pytest.raises(SuiteError, match="epochs = 3, but now epochs = 4"):
        run(suite(**ONE | {"tasks": ["CoLA", "STS-B"]}, epochs=4), tasks=["STS-B"])
    assert len(read_results(tmp_path / "out").runs) == 1


def test_other_data_or_vectors_are_not_mixed_in(tmp_path, small_glue, suite):
    """A run says what it was made from; an older one, which does not, is kept."""
    data = tmp_path / "data"
    shutil.copytree(small_glue, data)
    glove = tmp_path / "glove.txt"
    glove.write_text("the " + " ".join(["0.5"] * 12) + "\n")
    settings = {"data": data, "glove": glove, "out": tmp_path / "out", "quiet": True}
    made = suite(**ONE | {"tasks": ["RTE"]}, seeds=[1], epochs=1, embeddings="glove")
    run_suite(made, **settings)
    run_suite(made, **settings)  # nothing to do, and nothing to refuse
    glove.write_text("the " + " ".join(["0.25"] * 12) + "\n")
    with pytest.raises(SuiteError, match="this run was done with other word vectors"):
        run_suite(made, **settings)
    glove.write_text("the " + " ".join(["0.5"] * 12) + "\n")
    train = data / "RTE" / "train.tsv"
    lines = train.read_text().splitlines(keepends=True)
    train.write_text("".join(lines[:-1]))
    with pytest.raises(SuiteError, match=r"this run was done with other data \(train\)"):
        run_suite(made, **settings)
    for path in (tmp_path / "out").rglob("config.json"):
        config = json.loads(path.read_text())
        del config["data_digests"], config["glove_digest"]
        path.write_text(json.dumps(config))
    assert len(run_suite(made, **settings).runs) == 1


def test_a_malformed_line_fails_its_run(tmp_path, small_glue, run, suite):
    data = tmp_path / "data"
    shutil.copytree(small_glue / "CoLA", data / "CoLA")
    with (data / "CoLA" / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("broken\n")
    one = suite(**ONE, seeds=[1], epochs=1)
    ((_, error),) = run(one, "strict", data=data).failures
    assert "train.tsv:61: expected 4 fields" in error


def test_invalid_option_is_refused_before_the_first_run(tmp_path, run, suite):
    impossible = Method(mechanism="contextualizer", options={"rank": 0})
    asked = suite(method=[Method(mechanism="relation", units=8), impossible])
    with pytest.raises(SuiteError, match=r"method contextualizer-64: .* Received: rank=0$"):
        run(asked)
    assert not list(tmp_path.glob("out/runs/*/*/*/config.json"))


def test_custom_figures_are_copied_with_the_folder(tmp_path, suite):
    home = tmp_path / "home"
    home.mkdir()
    (home / "figures.toml").write_text('source = "A paper"', encoding="utf-8")
    (home / "mine.toml").write_text(suite(published=None).to_toml(), encoding="utf-8")
    asked = load_suite(home / "mine.toml", {"published": "figures.toml"})
    RunFolder(tmp_path / "out").open(asked)
    shutil.rmtree(home)
    kept = RunFolder(tmp_path / "out").suite().published
    assert load_published(kept).source == "A paper"


LINUX = Path("/proc/self/clear_refs").exists()


@pytest.mark.skipif(not LINUX, reason="only Linux resets the peak")
def test_peak_memory_is_of_the_run():
    held = np.ones(40 * 2**17)  # 40 MiB
    session.peaks()
    del held
    assert session.forget_peaks() == "run"
    before = session.peaks()["peak_memory_mib"]
    held = np.ones(200 * 2**17)
    assert 180 <= session.peaks()["peak_memory_mib"] - before <= 220
    assert len(held)


@pytest.mark.tensorflow
def test_methods_with_their_own_tokens(tmp_path, run, suite):
    """Word vectors and pieces of words in one suite, on built-in data."""
    glove = tmp_path / "glove.txt"
    glove.write_text("the " + " ".join(["0.5"] * 12) + "\n")
    methods = [
        Method(mechanism="dan", name="pieces", options={"num_layers": 1}),
        Method(mechanism="dan", name="words", units=4, tokens="word", embeddings="glove"),
    ]
    asked = suite(**ONE | {"method": methods}, seeds=[1], epochs=1, tokens="wordpiece",
                  vocabulary_size=90)  # fmt: skip
    with pytest.raises(SuiteError, match="'glove' needs --glove FILE"):
        run(asked)
    results = run(asked, glove=glove)
    assert not results.failures
    runs = {each["method"]: each for each in results.runs}
    sizes = {name: each["manifest"]["data"]["vocabulary"] for name, each in runs.items()}
    assert sizes["pieces"] == 90 != sizes["words"]
    digests = {name: each["config"]["glove_digest"] for name, each in runs.items()}
    assert digests["pieces"] is None is not digests["words"]


@pytest.mark.slow
def test_full_disk_stops_the_suite_with_one_line(run, suite):
    """Simulated by a limit on file sizes; the suite resumes when there is space."""
    resource = pytest.importorskip("resource")
    asked = suite(**ONE, epochs=1)
    whole = run(asked, "whole")
    run(asked, seeds=[1])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(SuiteError, match=r"cannot be written: File too large") as error:
            run(asked)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "\n" not in str(error.value)
    assert run(asked).metrics.equals(whole.metrics)


@pytest.mark.slow
def test_tasks_that_are_learned_together(tmp_path, run, suite, small_glue):
    """Runs, scores, submissions' files and the report of a group are those of its tasks."""
    group = {"name": "three", "tasks": ["CoLA", "RTE", "STS-B"]}
    asked = suite(tasks=["three", "WNLI"], group=[group], seeds=[1])
    results = run(asked)
    assert (len(results.runs), results.failures) == (4, [])
    assert set(results.scores["task"]) == {"CoLA", "RTE", "STS-B", "WNLI", "mean of these tasks"}
    assert len(results.scores) == 5 * 2
    three = next(each for each in results.runs if each["task"] == "three")
    files = {path.name for path in (Path(three["folder"]) / "predictions").iterdir()}
    assert {"CoLA.dev.tsv", "RTE.test.tsv", "STS-B.dev.tsv"} <= files
    rows = pd.read_csv(Path(three["folder"]) / "predictions" / "STS-B.dev.tsv", sep="\t")
    found = compute(["spearman"], rows["prediction"], rows["label"])
    assert found["spearman"] == pytest.approx(three["metrics"]["STS-B"]["spearman"], abs=1e-6)
    before = contents(tmp_path)
    assert len(run(asked).runs) == 4
    assert contents(tmp_path) == before
    report = make_report(results)
    assert "three (CoLA, RTE, STS-B)" in str(report.markdown())
    assert report.tables["runs"]["mean_length"].between(2, 60).all()
    assert plan_suite(asked, tmp_path / "other", data=small_glue, quiet=True).total == 4
