import pytest

from benchmarks import spent


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


def test_a_network_that_seeds_share_is_compiled_once():
    kinds = spent.spent(Results, jobs=2)
    assert list(kinds.values()) == pytest.approx([27, 3, 6, 9, 5.5, 64 - 50.5])
    assert sum(kinds.values()) == pytest.approx(32 * 2)
