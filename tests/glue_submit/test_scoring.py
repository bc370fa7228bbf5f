"""Scoring against GLUE's labelled files."""

from __future__ import annotations

import json
import re
import zipfile

import pytest

from glue_submit import TASKS, SubmissionError, pack, read_labels, score

GLUE_DATA = {
    "CoLA/dev.tsv": "gj04\t1\t\tA sentence.\ngj04\t0\t*\tNo sentence\x85 this.",
    "SST-2/dev.tsv": 'sentence\tlabel\n" so good \t1\nbad \t0\n',
    "MRPC/dev.tsv": '\ufeffQuality\t#1 ID\t#1 String\n1\t1\t" a\n0\t3\tb\n',
    "STS-B/dev.tsv": "index\tsentence1\tsentence2\tscore\n0\ta\tb\t5.000\n1\ta\tb\t0.25\n",
    "QQP/dev.tsv": "id\tqid1\tquestion1\tis_duplicate\n5\t\ta\t1\n9\t\ta\t0\n",
    "MNLI/dev_matched.tsv": "index\tlabel1\tgold_label\n0\t-\tentailment\n1\t-\tneutral\n",
    "MNLI/dev_mismatched.tsv": "index\tgold_label\n0\tcontradiction\n1\tneutral\n",
    "QNLI/dev.tsv": "index\tquestion\tlabel\n0\ta\tentailment\n1\ta\tnot_entailment\n",
    "RTE/dev.tsv": "index\tsentence1\tlabel\r\n0\ta\tentailment\r\n1\ta\tnot_entailment\r\n",
    "WNLI/dev.tsv": "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t1\n1\ta\tb\t0\n",
}


@pytest.fixture
def glue_data(tmp_path):
    for name, text in GLUE_DATA.items():
        file = tmp_path / "glue_data" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    return tmp_path / "glue_data"


@pytest.fixture
def dev_predictions(tmp_path, glue_data):
    """Give a folder of predictions that are the labels, last row first."""
    folder = tmp_path / "run" / "predictions"
    folder.mkdir(parents=True)
    for name, task in TASKS.items():
        labels = ["neutral", "neutral"] if name == "AX" else read_labels(glue_data, name)
        (folder / task.file).write_text(
            f"index\tprediction\n1\t{labels[1]}\n0\t{labels[0]}\n", encoding="utf-8", newline="\n"
        )
    return folder.parent


def test_the_labels_score_one(dev_predictions, glue_data):
    scores = score(dev_predictions, glue_data)
    assert list(scores.tasks) == [name for name in TASKS if name != "AX"]
    for name, metrics in scores.tasks.items():
        assert tuple(metrics) == TASKS[name].metrics
        assert all(value == pytest.approx(1.0) for value in metrics.values())
    assert scores.average == pytest.approx(1.0)
    assert scores.unlabelled == ("AX",)
    assert "100.00" in str(scores)


def test_ax_with_its_labels(dev_predictions, glue_data):
    file = glue_data / "diagnostic" / "diagnostic-full.tsv"
    file.parent.mkdir()
    file.write_bytes(b"Logic\tPremise\tHypothesis\tLabel\n\ta\tb\tneutral\n\ta\tb\tentailment\n")
    scores = score(dev_predictions, glue_data.parent)
    assert (scores.tasks["AX"], scores.unlabelled) == ({"matthews": 0.0}, ())


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("RTE/dev.tsv", "index\tsentence1\n0\ta\n", "line 1: expected a header with 'label'"),
        ("RTE/dev.tsv", "index\tlabel\n0\tentailment\n1\n", "line 3: expected 2 columns or more"),
        ("RTE/dev.tsv", "index\tlabel\n0\tyes\n", "line 2: expected entailment"),
        ("CoLA/dev.tsv", "a\t1\t\tb\na\tx\t\tb\n", "line 2: expected 0 or 1, found 'x'"),
        ("RTE/dev.tsv", "index\tlabel\n0\tentailment\n", "RTE.tsv, line 2: expected an index from"),
    ],
)
def test_label_files_that_are_refused(dev_predictions, glue_data, file, text, message):
    (glue_data / file).write_bytes(text.encode())
    with pytest.raises(SubmissionError) as caught:
        score(dev_predictions, glue_data)
    assert message in str(caught.value)


def test_predictions_without_labels(dev_predictions, glue_data):
    (glue_data / "WNLI" / "dev.tsv").unlink()
    with pytest.raises(SubmissionError, match="WNLI: labels for its predictions are missing"):
        score(dev_predictions, glue_data)
    with pytest.raises(SubmissionError, match=r"RTE: labels .* missing: found labels for CoLA"):
        score({"RTE": ["entailment"]}, {"CoLA": [1]})
    with pytest.raises(SubmissionError, match="labels must be a folder of labelled files"):
        score(dev_predictions, glue_data / "none")


def test_no_predictions(tmp_path, glue_data):
    message = rf"^{re.escape(str(tmp_path))}: no predictions\. Must have TASK\.tsv"
    for folders in (tmp_path, [tmp_path]):
        with pytest.raises(SubmissionError, match=message):
            score(folders, glue_data)
    with pytest.raises(SubmissionError, match=r"must have one or more of CoLA.* Received: none"):
        score({}, glue_data)


def test_predictions_for_test_sets_alone_are_no_dev_predictions(tmp_path, glue_data):
    for name, label in (("AX", "neutral"), ("RTE", "entailment")):
        (tmp_path / f"{name}.test.tsv").write_text(f"index\tprediction\n0\t{label}\n")
    with pytest.raises(SubmissionError, match=r"only for AX\. .* need --split test and labels"):
        score(tmp_path, glue_data)


def _write_run(folder, name, predictions, labels):
    """Write predictions as a suite's run does."""
    file = folder / "predictions" / f"{name}.dev.tsv"
    file.parent.mkdir(parents=True)
    rows = [
        f"{i}\t{x}\t{y}\t0.5\n" for i, (x, y) in enumerate(zip(predictions, labels, strict=True))
    ]
    file.write_text("".join(["index\tprediction\tlabel\tprobability_1\n", *rows]), "utf-8")
    return folder


def test_runs_of_a_suite_are_scored_by_their_own_labels(tmp_path, glue_data):
    runs = tmp_path / "runs" / "small" / "runs"
    seeds = [
        _write_run(runs / "CoLA" / "dan" / "seed-1", "CoLA", "11", "10"),
        _write_run(runs / "SST-2" / "dan" / "seed-1", "SST-2", "11", "10"),
    ]
    expected = {"CoLA": {"matthews": 0.0}, "SST-2": {"accuracy": 0.5}}
    assert score(seeds).tasks == expected
    assert score(seeds, glue_data).tasks == expected
    with pytest.raises(SubmissionError, match=r"CoLA: expected one file .* found .*CoLA"):
        score([seeds[0], _write_run(runs / "CoLA" / "dan" / "seed-2", "CoLA", "11", "10")])


def test_no_rows(tmp_path):
    (tmp_path / "RTE.dev.tsv").write_text("index\tprediction\tlabel\n")
    with pytest.raises(SubmissionError, match=r"RTE\.dev\.tsv: expected rows after the header, fo"):
        score(tmp_path)
    with pytest.raises(SubmissionError, match="RTE predictions: expected 0 rows, found 1"):
        score({"RTE": ["entailment"]}, {"RTE": []})


TEST_ROWS = {name: TASKS[name].test_rows for name in ("WNLI", "RTE", "AX", "STS-B", "QNLI")}


def words(name: str, rows: int) -> list[str]:
    labels = TASKS[name].labels
    return [labels[row % len(labels)] if labels else f"{row % 6}.5" for row in range(rows)]


def write(path, rows, header="index\tprediction"):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (f"{index}\t{cell}" for index, cell in enumerate(rows))
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def submission(tmp_path_factory):
    """Give the predictions of five test sets, as a folder, and a zip of all eleven."""
    folder = tmp_path_factory.mktemp("submission") / "predictions"
    for name, rows in TEST_ROWS.items():
        given = ["2.5"] * rows if name == "STS-B" else words(name, rows)
        write(folder / f"{name}.tsv", given)
    pack(folder, folder.parent / "submission.zip", fill_missing=True)
    return folder


@pytest.fixture
def gold(tmp_path):
    """Give the labels of two test sets, rows in reverse order, and those of AX in two classes."""
    folder = tmp_path / "gold"
    for name in ("RTE", "STS-B"):
        column = "score" if name == "STS-B" else "label"
        write(folder / name / "test_gold.tsv", words(name, TEST_ROWS[name]), f"index\t{column}")
        lines = (folder / name / "test_gold.tsv").read_text().splitlines()
        (folder / name / "test_gold.tsv").write_text("\n".join([lines[0], *reversed(lines[1:])]))
    file = folder / "diagnostic" / "AX-b.jsonl"
    file.parent.mkdir()
    two = ("entailment", "not_entailment", "not_entailment")
    lines = [{"idx": str(row), "label": two[row % 3]} for row in range(TEST_ROWS["AX"])]
    file.write_text("\n".join(map(json.dumps, lines)))
    return folder


@pytest.mark.parametrize(("source", "split"), [("predictions", "test"), ("submission.zip", None)])
def test_test_labels_score_a_folder_and_a_zip(submission, gold, source, split):
    scores = score(submission.parent / source, gold, split=split)
    assert scores.split == "test"
    assert scores.tasks == {
        "STS-B": {"pearson": 0.0, "spearman": 0.0},
        "RTE": {"accuracy": 1.0},
        "AX": {"matthews-two-classes": pytest.approx(1.0)},
    }
    assert {"WNLI", "QNLI"} <= {*scores.unlabelled}
    assert scores.average is None
    assert "(test sets)" in str(scores).splitlines()[0]
    assert scores.missing == ()


def test_files_that_a_zip_lacks_are_named(submission, gold, tmp_path):
    path = tmp_path / "short.zip"
    with zipfile.ZipFile(submission.parent / "submission.zip") as before:
        files = {name: before.read(name) for name in before.namelist() if name != "RTE.tsv"}
    with zipfile.ZipFile(path, "w") as after:
        for name, content in files.items():
            after.writestr(name, content)
    assert score(path, gold).missing == ("RTE",)


def test_files_of_a_run_are_scored_on_the_named_split(tmp_path, gold):
    write(tmp_path / "RTE.dev.tsv", ["entailment"])
    write(tmp_path / "RTE.test.tsv", words("RTE", 3000))
    write(gold / "RTE" / "dev.tsv", ["not_entailment"], "index\tlabel")
    for split, accuracy in ((None, 0.0), ("dev", 0.0), ("test", 1.0)):
        assert score(tmp_path, gold, split=split).tasks == {"RTE": {"accuracy": accuracy}}


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("RTE/test_gold.tsv", "index\tlabel\n0\tyes\n", "test_gold.tsv, line 2: expected entail"),
        ("diagnostic/AX-b.jsonl", '{"idx": "1", "label": "entailment"}', "line 1: expected idx 0"),
    ],
)
def test_labels_of_test_sets_that_are_refused(submission, gold, file, text, message):
    (gold / file).write_text(text)
    with pytest.raises(SubmissionError, match=re.escape(message)):
        score(submission, gold, split="test")


def test_submissions_that_cannot_be_scored(submission, gold, glue_data, tmp_path):
    with pytest.raises(SubmissionError, match="no labels of the test sets of CoLA"):
        score(submission.parent / "submission.zip", glue_data)
    with pytest.raises(SubmissionError, match="has no predictions for dev sets"):
        score(submission.parent / "submission.zip", gold, split="dev")
    with pytest.raises(SubmissionError, match="RTE: labels are missing"):
        score({"RTE": ["entailment"]}, split="test")
    (tmp_path / "broken.zip").write_bytes(b"PK")
    with pytest.raises(SubmissionError, match=r"broken\.zip: cannot be read as a zip archive"):
        score(tmp_path / "broken.zip", gold)
    with zipfile.ZipFile(tmp_path / "short.zip", "w") as archive:
        archive.writestr("RTE.tsv", "index\tprediction\n0\tentailment\n")
    with pytest.raises(SubmissionError, match=r"RTE\.tsv: expected 3000 rows, found 1"):
        score(tmp_path / "short.zip", gold)
