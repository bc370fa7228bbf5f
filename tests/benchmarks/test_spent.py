import pytest
import typer

from benchmarks import spent
from relation_tf.bench import RunFolder, run_suite
from relation_tf.config import load_suite


def run(task, seed, started, finished, compilation):
    seconds = {"training": 10.0, "input": 1.0, "evaluation": 2.0, "total": 15.0}
    return {
        "task": task,
        "method": "relation-8",
        "seed": seed,
        "seconds": {**seconds, "compilation": compilation},
        "manifest": {
            "started": f"2026-01-01T00:00:{started:02}+0000",
            "finished": f"2026-01-01T00:00:{finished:02}+0000",
        },
    }


class Results:
    runs = (run("A", 1, 0, 17, 2.5), run("A", 2, 17, 32, 2.5), run("B", 1, 1, 20, 3.0))


class Timed:
    runs = (run("decode-128", 1, 0, 17, 2.5),)
    del runs[0]["seconds"]["input"]


def test_timed_suites_have_no_batches():
    assert list(spent.spent(Timed).values())[:2] == [10, 0]


def test_a_network_that_seeds_share_is_compiled_once():
    kinds = spent.spent(Results, jobs=2)
    assert list(kinds.values()) == pytest.approx([27, 3, 6, 9, 5.5, 64 - 50.5])
    assert sum(kinds.values()) == pytest.approx(32 * 2)


def test_shares_are_of_the_whole():
    lines = spent.table({"one": 3.0, "two": 1.0}, runs=2, minutes=0.5).splitlines()
    assert lines == [
        "| 2 runs in 0.5 min | s | share |",
        "| --- | --- | --- |",
        "| one | 3.0 | 75 % |",
        "| two | 1.0 | 25 % |",
    ]


@pytest.mark.parametrize("suite", [None, "demo"])
def test_error_names_a_folder_without_runs(tmp_path, suite):
    if suite:
        RunFolder(tmp_path).open(load_suite(suite))
    with pytest.raises(typer.BadParameter, match=f"{tmp_path}: "):
        spent.main(tmp_path)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_folder_of_runs(tmp_path, capsys):
    asked = {"tasks": "WNLI", "methods": "baseline-64", "seeds": [1, 2]}
    run_suite("demo", tmp_path, **asked, settings={"epochs": 1}, quiet=True)
    spent.main(tmp_path)
    printed = capsys.readouterr().out
    assert printed.startswith("| 2 runs in ")
    assert "| building and tracing, once per cell |" in printed
