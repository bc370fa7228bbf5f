"""The leaderboard's table."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from glue_submit import TASKS, SubmissionError, get_task

OFFICIAL_ROWS = {
    "CoLA": 1063,
    "SST-2": 1821,
    "MRPC": 1725,
    "STS-B": 1379,
    "QQP": 390965,
    "MNLI-m": 9796,
    "MNLI-mm": 9847,
    "QNLI": 5463,
    "RTE": 3000,
    "WNLI": 146,
    "AX": 1104,
}


def test_names_and_official_row_counts():
    assert {name: task.test_rows for name, task in TASKS.items()} == OFFICIAL_ROWS
    assert all(name == task.name and task.file == f"{name}.tsv" for name, task in TASKS.items())


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("CoLA", "CoLA/test.tsv"),
        ("SST-2", "SST-2/test.tsv"),
        ("MRPC", "MRPC/test.tsv"),
        ("STS-B", "STS-B/test.tsv"),
        ("MNLI-m", "MNLI/test_matched.tsv"),
        ("MNLI-mm", "MNLI/test_mismatched.tsv"),
        ("QNLI", "QNLI/test.tsv"),
        ("RTE", "RTE/test.tsv"),
        ("WNLI", "WNLI/test.tsv"),
        ("AX", "diagnostic/diagnostic.tsv"),
    ],
)
def test_row_counts_are_those_of_the_test_files(shared, name, files):
    content = shared(f"data/glue_data/{files}").read_bytes().removesuffix(b"\n")
    assert content.count(b"\n") == TASKS[name].test_rows


def test_the_table_is_read_only():
    with pytest.raises(TypeError):
        TASKS["CoLA"] = TASKS["RTE"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        TASKS["CoLA"].test_rows = 1


@pytest.mark.parametrize(
    ("name", "prediction", "spelt"),
    [
        ("CoLA", "1", "1"),
        ("CoLA", 0, "0"),
        ("CoLA", True, "1"),
        ("QQP", np.int64(1), "1"),
        ("QQP", np.True_, "1"),
        ("RTE", np.str_("entailment"), "entailment"),
        ("AX", "neutral", "neutral"),
        ("STS-B", 3, "3.000"),
        ("STS-B", "3.5", "3.500"),
        ("STS-B", "4.99999", "5.000"),
        ("STS-B", np.float32(3.3), "3.300"),
        ("STS-B", 1e-7, "0.000"),
        ("STS-B", -0.0, "0.000"),
    ],
)
def test_spell(name, prediction, spelt):
    assert TASKS[name].spell(prediction) == spelt


@pytest.mark.parametrize(
    ("name", "prediction"),
    [
        ("CoLA", "entailment"),
        ("CoLA", 2),
        ("CoLA", 1.0),
        ("CoLA", "1.0"),
        ("CoLA", " 1"),
        ("CoLA", "\u0661"),
        ("CoLA", None),
        ("CoLA", [1]),
        ("CoLA", np.array([0, 1])),
        ("RTE", "1"),
        ("RTE", 1),
        ("RTE", "Entailment"),
        ("RTE", "contradiction"),
        ("MNLI-m", "not_entailment"),
        ("STS-B", "nan"),
        ("STS-B", float("inf")),
        ("STS-B", "1e999"),
        ("STS-B", 5.0004),
        ("STS-B", -0.0001),
        ("STS-B", "\u0663"),
        ("STS-B", "1_0"),
        ("STS-B", ""),
        ("STS-B", True),
    ],
)
def test_spell_refuses_with_the_found_value(name, prediction):
    with pytest.raises(SubmissionError, match=r"^expected .*, found .+$") as caught:
        TASKS[name].spell(prediction)
    assert "\n" not in str(caught.value)


def test_score_out_of_range_is_not_clipped():
    with pytest.raises(SubmissionError, match=r", found 5.2"):
        TASKS["STS-B"].spell(5.2)
    assert TASKS["STS-B"].parse(5.2) == 5.2


def test_unknown_task():
    with pytest.raises(
        SubmissionError, match=r"task must be one of CoLA, .*, AX. Received: 'cola'"
    ):
        get_task("cola")


def test_import_is_light():
    code = (
        "import sys, glue_submit.cli\n"
        "heavy = {'tensorflow', 'keras', 'relation_tf', 'numpy', 'pandas', 'scipy', 'sklearn'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
