"""A Ray cluster on this machine: nodes that are killed, workers that die, and what comes back."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter

import pytest

from relation_tf.bench import ray_cluster, run_suite
from relation_tf.bench.progress import Progress
from relation_tf.bench.train import software
from relation_tf.errors import SuiteError
from tests.bench.kept_files import run_files

BASELINE = {"mechanism": "baseline", "units": 8}
RELATION = {"mechanism": "relation", "units": 8}


@pytest.fixture(scope="module")
def cluster():
    """A head that runs nothing, and a node with one CPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        pytest.importorskip("ray", reason="Ray is an extra: pip install 'relation-tf[ray]'")
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        cluster.add_node(num_cpus=1)
        yield cluster
        cluster.shutdown()


@pytest.fixture
def on_ray(cluster, tmp_path, small_glue):
    """Run a suite on the cluster."""

    def run(asked, out="ray", **options):
        options = {"address": cluster.address, "data": small_glue} | options
        return run_suite(asked, tmp_path / out, executor="ray", quiet=True, **options)

    return run


@pytest.fixture
def printed(monkeypatch):
    """Events as they come; an entry of `printed.then` is asked whenever one has come."""

    class Told(list):
        then = staticmethod(lambda: None)

    events = Told()

    def notify(self, event):
        events.append(event)
        events.then()

    monkeypatch.setattr(Progress, "notify", notify)
    return events


@pytest.fixture
def broken_rte(tmp_path, small_glue):
    """A data folder in which one task cannot be read."""
    folder = tmp_path / "data"
    shutil.copytree(small_glue, folder)
    (train,) = folder.rglob("RTE/train.tsv")
    train.write_text(train.read_text() + "a line of one field\n")
    return folder


def manifests(out):
    """Return manifests without times."""
    read = {path.parent: json.loads(path.read_text()) for path in out.rglob("manifest.json")}
    times = ("started", "finished", "resumed_after")
    return {
        str(path.relative_to(out)): {k: v for k, v in manifest.items() if k not in times}
        for path, manifest in read.items()
    }


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.usefixtures("worker_processes")
def test_interrupted_and_bereft_of_a_node_it_ends_as_on_this_machine(
    cluster, on_ray, printed, tmp_path, broken_rte, suite, monkeypatch
):
    # A cell of runs that take long enough to be under way at once, and others of short runs.
    asked = suite(
        tasks=["CoLA", "RTE", "WNLI"],
        epochs=900,
        patience=900,
        batch_size=8,
        overrides={"WNLI": {"epochs": 2}},
        method=[RELATION, BASELINE],
    )
    local, out = tmp_path / "local", tmp_path / "ray"
    run_suite(asked, local, data=broken_rte, quiet=True)
    monkeypatch.setattr(ray_cluster, "_PIECES", 1)  # runs that wait for another of their cell

    def interrupt():
        if list(out.glob("runs/*/*/*/state.npz")):
            raise KeyboardInterrupt

    printed.then = interrupt
    with pytest.raises(KeyboardInterrupt):
        on_ray(asked, data=broken_rte)
    printed.clear()
    node, removed = cluster.add_node(num_cpus=1), []

    # Not by their states alone: the interrupted run's lies there before it is begun again.
    def kill():
        states = list(out.glob("runs/*/*/*/state.npz"))
        ended = {event["run"] for event in printed if event["event"] in ("done", "failed")}
        epochs = {event["run"]: event["epoch"] for event in printed if event["event"] == "epoch"}
        under_way = epochs.keys() - ended
        if len(states) == len(under_way) == 2 and max(epochs[run] for run in under_way) < 750:
            cluster.remove_node(node, allow_graceful=False)
            removed.append(node)
            printed.then = lambda: None

    printed.then = kill
    results = on_ray(asked, data=broken_rte)
    # A worker of the lost node can live on, and finish its run: another one does not resume it.
    assert removed == [node]
    assert len(results.runs) == 8
    assert len(results.failures) == 4
    assert run_files(out) == run_files(local)
    assert manifests(out) == manifests(local)
    assert (out / "tensorflow.log").exists()


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_worker_that_dies_costs_only_its_run(on_ray, printed, suite, mortal):
    results = on_ray(suite(tasks=["CoLA"], seeds=[1], epochs=1, method=[mortal, BASELINE]))
    assert [run["method"] for run in results.runs] == ["baseline-8"]
    starts = Counter(event["run"][1] for event in printed if event["event"] == "start")
    assert starts == {"Mortal-8": 2, "baseline-8": 1}
    ((_, error),) = results.failures
    assert error == "its worker on the cluster was lost (ActorDiedError), 2 times"


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_folder_that_a_node_cannot_read(on_ray, suite, monkeypatch):
    monkeypatch.setattr(ray_cluster.Path, "cwd", lambda: ray_cluster.Path("/no/such/folder"))
    with pytest.raises(SuiteError, match="must have the folders of the command, on a shared disk"):
        on_ray(suite())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"run_cpus": 2}, r"{'CPU': 2\.0}\. The nodes have: .*{'CPU': 1\.0}"),
        ({"run_gpus": 0.5}, r"{'CPU': 1\.0, 'GPU': 0\.5}\."),
    ],
)
def test_no_node_has_the_resources(on_ray, suite, resources, expected):
    with pytest.raises(SuiteError, match=f"no node has the resources of a run, {expected}"):
        on_ray(suite(), **resources)


@pytest.mark.slow
def test_other_versions_on_a_node_are_refused(on_ray, suite, monkeypatch):
    versions = {**software()["versions"], "numpy": "0.0"}
    monkeypatch.setattr(ray_cluster, "software", lambda: {"versions": versions})
    with pytest.raises(SuiteError, match=r"node [\d.]+: .* Received: numpy [\d.]+ \(0\.0 here\)$"):
        on_ray(suite())


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:1", "--address 127.0.0.1:1: no Ray cluster answers there: Connection refused"),
        ("127.0.0.1", "must be HOST:PORT of a Ray cluster's head, or auto"),
    ],
)
def test_a_cluster_that_cannot_be_reached(tmp_path, small_glue, suite, address, expected):
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'relation-tf[ray]'")
    with pytest.raises(SuiteError, match=expected):
        run_suite(suite(), tmp_path, data=small_glue, quiet=True, executor="ray", address=address)


def test_ray_is_not_installed(tmp_path, small_glue, suite, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    options = {"data": small_glue, "executor": "ray", "address": "127.0.0.1:1"}
    with pytest.raises(SuiteError, match=r"is not installed: pip install 'relation-tf\[ray\]'"):
        run_suite(suite(), tmp_path, quiet=True, **options)
