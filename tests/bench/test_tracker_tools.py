"""Trackers of other packages, with the packages: TensorBoard, W&B, MLflow and Trackio, offline."""

from __future__ import annotations

import contextlib
import importlib.machinery
import json
import socket
import sqlite3
import struct
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from relation_tf.bench import run_suite
from relation_tf.bench.trackers import Trackers, process, track_report
from relation_tf.bench.trackers.tool import Tool
from relation_tf.errors import SuiteError
from relation_tf.files import read_json

TOOLS = ("tensorboard", "wandb", "mlflow", "trackio")


@pytest.fixture
def network(monkeypatch):
    """A proxy that all packages would use for the network, and that nothing may connect to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, url)
        yield
        server.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            connection, _ = server.accept()
            with connection:
                connection.settimeout(60)
                pytest.fail(f"something used the network: {connection.recv(200)!r}")


@pytest.fixture(autouse=True)
def offline(tmp_path, monkeypatch, network):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("WANDB_DIR", "WANDB_PROJECT", "MLFLOW_TRACKING_URI", "TRACKIO_DIR"):
        monkeypatch.delenv(name, raising=False)


def of_tensorboard(folder: Path) -> dict[str, dict]:
    pytest.importorskip("tensorflow")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import metadata

    found = {}
    for path in {file.parent for file in folder.rglob("events.out.tfevents.*")}:
        events = EventAccumulator(str(path)).Reload()
        text = {tag: events.Tensors(tag)[0].tensor_proto.string_val[0].decode()
                for tag in ("report", "error") if tag in events.Tags()["tensors"]}  # fmt: skip
        status = 0
        if metadata.SESSION_END_INFO_TAG in events.Tags()["tensors"]:
            plugin = events.SummaryMetadata(metadata.SESSION_END_INFO_TAG).plugin_data.content
            status = metadata.parse_session_end_info_plugin_data(plugin).status
        config = {}
        if metadata.SESSION_START_INFO_TAG in events.Tags()["tensors"]:
            plugin = events.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
            config = metadata.parse_session_start_info_plugin_data(plugin).hparams
        scalars = {tag: [(each.step, each.value) for each in events.Scalars(tag)]
                   for tag in events.Tags()["scalars"]}  # fmt: skip
        found[path.relative_to(folder).as_posix()] = {
            "status": {1: "finished", 2: "failed", 0: "interrupted"}[status],
            "units": config["units"].number_value if config else None,
            "loss": scalars.get("loss", []),
            "score": scalars.get("metrics/CoLA/matthews", [(0, None)])[0][1],
            "report": "# Report" in text.get("report", ""),
        }
    return found


def of_wandb(folder: Path) -> dict[str, dict]:
    """Read the offline files as `wandb sync` does: those of one id, in order, are one run."""
    by_id: dict[str, dict] = {}
    for path in sorted(folder.rglob("*.wandb"), key=lambda path: path.stat().st_mtime_ns):
        run = by_id.setdefault(path.stem.removeprefix("run-"), {"loss": [], "score": None})
        run["report"] = False
        for record in _records(path):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                run["name"], run["group"] = record.run.display_name, record.run.run_group
                config = {each.key: each.value_json for each in record.run.config.update}
                run["units"] = json.loads(config.get("units", "null"))
            elif kind == "history":
                values = {(*each.nested_key, each.key)[0]: each.value_json
                          for each in record.history.item}  # fmt: skip
                run["loss"].append((record.history.step.num, json.loads(values["loss"])))
            elif kind == "summary":
                for each in record.summary.update:
                    if each.key == "metrics/CoLA/matthews":
                        run["score"] = json.loads(each.value_json)
            elif kind == "artifact":
                files = [each.path for each in record.artifact.manifest.contents]
                run["report"] = record.artifact.type == "report" and "report.md" in files
            elif kind == "exit":
                code = record.exit.exit_code
                run["status"] = {0: "finished", 1: "failed", 255: "interrupted"}[code]
    assert {run.pop("group") for run in by_id.values()} == {"small"}
    names = [run.pop("name") for run in by_id.values()]
    assert len({*names}) == len(names), names
    return dict(zip(names, by_id.values(), strict=True))


def _records(path: Path):
    """Yield the records of W&B's log: LevelDB's format after 7 bytes."""
    from wandb.proto import wandb_internal_pb2

    data, at, whole = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, size, kind = struct.unpack("<IHB", data[at : at + 7])
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            yield wandb_internal_pb2.Record.FromString(whole)
            whole = b""


def of_mlflow(folder: Path) -> dict[str, dict]:
    statuses = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "interrupted"}
    database = sqlite3.connect(folder / "mlflow.db")
    experiments = dict(database.execute("SELECT experiment_id, name FROM experiments"))
    found: dict[str, dict] = {}
    rows = database.execute("SELECT run_uuid, name, status, experiment_id, artifact_uri FROM runs")
    for run, name, status, experiment, artifacts in rows:
        assert experiments[experiment] == "small"
        assert name not in found

        def values(table, key, run=run):
            query = f"SELECT * FROM {table} WHERE run_uuid = ? AND key = ?"
            rows = database.execute(query, (run, key))
            names = [column[0] for column in rows.description]
            return [dict(zip(names, row, strict=True)) for row in rows]

        score = values("metrics", "metrics/CoLA/matthews")
        found[name] = {
            "status": statuses[status],
            "units": next((int(each["value"]) for each in values("params", "units")), None),
            "loss": sorted((each["step"], each["value"]) for each in values("metrics", "loss")),
            "score": score[0]["value"] if score else None,
            "report": Path(artifacts.removeprefix("file://"), "report", "report.md").is_file(),
        }
    database.close()
    return found


def of_trackio(folder: Path) -> dict[str, dict]:
    database = sqlite3.connect(folder / "small.db")
    configs = dict(database.execute("SELECT run_id, config FROM configs"))
    alerts = dict(database.execute("SELECT run_id, title FROM alerts"))
    versions = database.execute("SELECT producer_run_id, manifest FROM artifact_versions")
    reports = {run for run, manifest in versions if "report.md" in str(manifest)}
    found: dict[str, dict] = {}
    last = "SELECT run_id, run_name, step, metrics FROM metrics ORDER BY id"
    rows = database.execute(last).fetchall()
    names = {run: name for run, name, *_ in rows} | dict.fromkeys(reports, "report")
    assert len({*names.values()}) == len(names)
    for run, name in names.items():
        logged = [(step, json.loads(values)) for each, _, step, values in rows if each == run]
        scores = [values["metrics/CoLA/matthews"] for _, values in logged if "epochs" in values]
        found[name] = {
            "status": "finished" if scores or run in reports else alerts[run],
            "units": json.loads(configs[run])["units"] if run in configs else None,
            "loss": [(step, values["loss"]) for step, values in logged if "loss" in values],
            "score": scores[0] if scores else None,
            "report": run in reports,
        }
    database.close()
    return found


RESULT = {"seed": 1, "metrics": {"CoLA": {"matthews": 0.25}}, "epochs": 3}


def events_of(tool: str, folder: Path, runs: list, *events: tuple) -> list[str]:
    """Send events to a tracker as a call of `run_suite` does; return its warnings."""
    warnings: list[str] = []
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    with Trackers([tool], folder, runs, warnings.append) as trackers:
        for run, kind, *values in events:
            event = {"run": run.key, "event": kind}
            if kind == "epoch":
                row = {"epoch": values[0], "loss": 1 / 2 ** values[0], "val_loss": float("nan")}
                event |= {"epoch": values[0], "row": row}
            elif kind == "done":
                path = folder / "runs" / str(run) / "result.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(RESULT))
            elif kind == "failed":
                event["error"] = "ValueError: no memory"
            trackers.notify(event)
    return warnings


@pytest.mark.parametrize(
    "tool", [pytest.param(tool, marks=[pytest.mark.slow] * (tool == "mlflow")) for tool in TOOLS]
)
def test_runs_are_tracked_and_continued(tool, tmp_path, suite):
    pytest.importorskip(tool)
    small = suite(tasks=["CoLA"], seeds=[1], epochs=3)
    first, second = small.runs()
    (tmp_path / "suite.toml").write_text(small.to_toml())
    # Two runs at a time; the first is interrupted after two epochs.
    begun = [(first, "start"), (second, "start"), (first, "epoch", 1), (second, "epoch", 1),
             (first, "epoch", 2), (second, "failed")]  # fmt: skip
    assert events_of(tool, tmp_path, [first, second], *begun) == []
    read = {"tensorboard": of_tensorboard, "wandb": of_wandb, "mlflow": of_mlflow,
            "trackio": of_trackio}[tool]  # fmt: skip
    folder = tmp_path / "tracking" / tool
    before = {"units": 8, "loss": [(1, 0.5)], "score": None, "report": False}
    assert read(folder) == {
        str(first): before | {"status": "interrupted", "loss": [(1, 0.5), (2, 0.25)]},
        str(second): before | {"status": "failed"},
    }
    # It resumes from the checkpoint of epoch 1, so epoch 2 comes again.
    resumed = [(first, "start"), *((first, "epoch", epoch) for epoch in (2, 3)), (first, "done")]
    # The second run fails again.
    resumed += [(second, "start"), (second, "failed")]
    assert events_of(tool, tmp_path, [first, second], *resumed) == []
    report = tmp_path / "report"
    report.mkdir()
    (report / "report.md").write_text("# Report")
    warnings: list[str] = []
    track_report([tool], tmp_path, report, warnings.append)
    assert warnings == []
    now = read(folder)
    assert now.pop("report")["report"]
    assert now[str(second)]["status"] == "failed"
    losses = [(1, 0.5), (2, 0.25), (3, 0.125)]
    assert now[str(first)] == before | {"status": "finished", "loss": losses, "score": 0.25}


def errors_in(tool: str, folder: Path) -> list[str]:
    """Return the reasons of failures that a tool shows."""
    if tool == "mlflow":
        database = sqlite3.connect(folder / "mlflow.db")
        rows = database.execute("SELECT value FROM tags WHERE key = 'error'").fetchall()
        database.close()
        return [value for (value,) in rows]
    if tool == "tensorboard":
        return ["ValueError: no memory"] * len([*folder.rglob("*.error")])
    updates = [
        json.loads(each.value_json)
        for path in sorted(folder.rglob("*.wandb"), key=lambda path: path.stat().st_mtime_ns)
        for record in _records(path)
        for each in record.summary.update
        if each.key == "error"
    ]
    return [updates[-1]] if updates and updates[-1] else []


@pytest.mark.parametrize(
    "tool", ["tensorboard", "wandb", pytest.param("mlflow", marks=pytest.mark.slow)]
)
def test_a_run_that_finishes_later_has_no_error(tool, tmp_path, suite):
    pytest.importorskip(tool)
    small = suite(tasks=["CoLA"], seeds=[1], epochs=3)
    run, _ = small.runs()
    (tmp_path / "suite.toml").write_text(small.to_toml())
    assert events_of(tool, tmp_path, [run], (run, "start"), (run, "failed")) == []
    folder = tmp_path / "tracking" / tool
    assert errors_in(tool, folder) == ["ValueError: no memory"]
    assert events_of(tool, tmp_path, [run], (run, "start"), (run, "epoch", 1), (run, "done")) == []
    assert errors_in(tool, folder) == []


def test_another_version_is_another_tracked_run(tmp_path, suite, monkeypatch):
    pytest.importorskip("tensorboard")
    small = suite(tasks=["CoLA"], seeds=[1], epochs=3)
    run, _ = small.runs()
    (tmp_path / "suite.toml").write_text(small.to_toml())
    for version in ("1", "2"):
        monkeypatch.setattr(process, "software", lambda version=version: {"versions": version})
        assert events_of("tensorboard", tmp_path, [run], (run, "start"), (run, "epoch", 1)) == []
    (path,) = (tmp_path / "tracking" / "tensorboard").rglob("events*")
    assert path.exists()  # the folder of the other version was replaced


def test_an_error_at_the_end_of_a_run_leaves_no_other_open(tmp_path):
    ended = []

    class Failing(Tool):
        def open_run(self, name, config, known):
            return name, name

        def log(self, run, values, epoch):
            pass

        def log_report(self, run, report):
            pass

        def end_run(self, run, status, values, reason):
            ended.append(run)
            raise ConnectionError(run)

    tool = Failing(tmp_path, "small")
    for name in "abc":
        tool.start(name, {})
    with pytest.raises(ConnectionError, match="c"):
        tool.close()
    assert ended == ["c", "b", "a"]


def test_another_configuration_is_another_tracked_run(tmp_path, suite):
    pytest.importorskip("wandb")
    for epochs in (3, 4):
        small = suite(tasks=["CoLA"], seeds=[1], epochs=epochs)
        run, _ = small.runs()
        (tmp_path / "suite.toml").write_text(small.to_toml())
        assert events_of("wandb", tmp_path, [run], (run, "start"), (run, "epoch", 1)) == []
    record = tmp_path / "tracking" / "wandb" / ".runs" / f"{run}.json"
    ids = {path.stem.removeprefix("run-") for path in tmp_path.rglob("*.wandb")}
    assert len(ids) == 2
    assert read_json(record)["id"] in ids


@pytest.mark.tensorflow
@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_results_are_those_without_tracking(tmp_path, small_glue, suite, capsys, jobs):
    """Also of a tracker that cannot work: MLflow without its server."""
    for tool in TOOLS:
        pytest.importorskip(tool)
    asked = suite(tasks=["CoLA"], seeds=[1, 2], epochs=2)
    run_suite(asked, tmp_path / "without", data=small_glue, quiet=True)
    results = run_suite(asked, tmp_path / "with", data=small_glue, track=TOOLS, jobs=jobs)
    assert (len(results.runs), results.failures) == (4, [])
    assert "tracker" not in capsys.readouterr().out
    for run in asked.runs():
        without, tracked = (tmp_path / name / "runs" / str(run) for name in ("without", "with"))
        for path in sorted(without.rglob("*.tsv")):
            assert path.read_bytes() == (tracked / path.relative_to(without)).read_bytes()
        assert history(without) == history(tracked)
        assert result(without) == result(tracked)


def history(folder: Path) -> str:
    table = pd.read_csv(folder / "history.csv", dtype=str)
    return table[[name for name in table if not name.endswith("seconds")]].to_csv()


def result(folder: Path) -> dict:
    found = read_json(folder / "result.json")
    changing = ("seconds", "files", "sha256")  # with the times
    return {key: value for key, value in found.items()
            if "memory" not in key and key not in changing}  # fmt: skip


def test_without_a_server(tmp_path, suite, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    small = suite(tasks=["CoLA"], seeds=[1])
    run, _ = small.runs()
    (tmp_path / "suite.toml").write_text(small.to_toml())
    (warning,) = events_of("mlflow", tmp_path, [run], (run, "start"), (run, "epoch", 1))
    assert warning.startswith("tracker mlflow: MlflowException: API request to http://127.0.0.1:9")
    assert "\n" not in warning


def test_a_process_that_does_not_end_is_stopped(tmp_path, suite, monkeypatch):
    """So is one that waits for a server that does not answer."""
    pytest.importorskip("mlflow")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setattr(process, "_END", 0.1)
        small = suite(tasks=["CoLA"], seeds=[1])
        run, _ = small.runs()
        (tmp_path / "suite.toml").write_text(small.to_toml())
        # More events than a pipe takes.
        many = [(run, "start"), *((run, "epoch", epoch) for epoch in range(1, 2000))]
        (warning,) = events_of("mlflow", tmp_path, [run], *many)
    assert "stopped, because it had not ended 0.1 s after the runs" in warning


def test_a_tool_that_cannot_start(tmp_path, suite):
    small = suite(tasks=["CoLA"], seeds=[1])
    run, _ = small.runs()
    (tmp_path / "suite.toml").write_text(small.to_toml())
    (tmp_path / "tracking" / "jsonl").mkdir(parents=True)
    tracker = process.ToolProcess("jsonl", tmp_path)  # no tool of another package
    tracker.on_run_start(run)
    tracker.close()
    assert [*tracker.take_errors()] == [
        "AttributeError: module 'relation_tf.bench.trackers.jsonl' has no attribute 'make'"
    ]


def test_a_process_that_crashes(tmp_path, suite):
    pytest.importorskip("tensorboard")
    (tmp_path / "suite.toml").write_text(suite().to_toml())
    tracker = process.ToolProcess("tensorboard", tmp_path)
    tracker._send("__class__", 1)  # an event of no tool
    tracker._lines.put(b"no JSON\n")
    with pytest.raises(RuntimeError, match=r"its process ended with exit code 1. Its messages: "):
        tracker.close()


@pytest.mark.parametrize("tool", TOOLS)
def test_the_process_of_a_tool_does_not_load_tensorflow(tool):
    pytest.importorskip(tool)
    program = (
        f"import sys, {tool}\nimport relation_tf.bench.trackers.{tool}\n"
        "print({'tensorflow', 'keras'} & {*sys.modules})"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert answer.stdout.splitlines()[-1] == b"set()"


def test_a_missing_package_is_an_error_before_the_first_run(tmp_path, suite, monkeypatch):
    # A folder of W&B's runs is not the package.
    (tmp_path / "wandb").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    monkeypatch.setattr(sys, "meta_path", [importlib.machinery.PathFinder])
    with pytest.raises(SuiteError) as error:
        run_suite(suite(), tmp_path / "out", track="wandb")
    assert str(error.value) == (
        "--track wandb needs the package wandb, which is not installed: "
        "pip install 'relation-tf[wandb]'"
    )
    assert not (tmp_path / "out").exists()
