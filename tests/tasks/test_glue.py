from __future__ import annotations

import shutil

import numpy as np
import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import GLUE, find_source, find_task, read_task
from relation_tf.tasks.official import OFFICIAL_ROWS


@pytest.mark.parametrize("name", OFFICIAL_ROWS)
def test_reads_every_task(small_glue, name):
    task = find_task(name)
    text = read_task(name, small_glue)
    assert set(text.splits) == {"train", *task.scored.values(), *task.answered.values()}
    assert task.validation in task.scored.values()
    for split_name, split in text.splits.items():
        assert len(split.texts) == len(task.inputs)
        assert all(len(column) == len(split) > 0 for column in split.texts)
        assert (split.labels is None) == (split_name in task.answered.values())
        assert np.array_equal(split.index, np.arange(len(split)))


def test_two_networks_of_mnli_have_the_rows_of_one(small_glue):
    whole = read_task("MNLI", small_glue)
    renamed = {
        "MNLI-m": {"dev": "dev_matched", "test": "test_matched", "diagnostic": "diagnostic"},
        "MNLI-mm": {"dev": "dev_mismatched", "test": "test_mismatched"},
    }
    for name, others in renamed.items():
        own = read_task(name, small_glue)
        assert own.splits.keys() == {"train", *others}
        for split, rows in own.splits.items():
            expected = whole.splits[others.get(split, split)]
            assert rows.texts == expected.texts
            assert np.array_equal(rows.labels, expected.labels)
        assert (own.task.validation, own.task.scored) == ("dev", {name: "dev"})
        assert (own.task.labels, own.task.metrics) == (whole.task.labels, ("accuracy",))
    assert find_task("MNLI-m").answered == {"MNLI-m": "test", "AX": "diagnostic"}
    assert find_task("MNLI-m").diagnostics == {"AX": ("matthews",)}
    assert find_task("MNLI-mm").answered == {"MNLI-mm": "test"}
    assert find_task("MNLI-mm").diagnostics == {}


def test_absent_test_file_is_no_error(small_glue, tmp_path):
    folder = tmp_path / "MNLI"
    shutil.copytree(small_glue / "MNLI", folder)
    (folder / "test_matched.tsv").unlink()
    assert set(read_task("MNLI", tmp_path).splits) == {
        "train", "dev_matched", "dev_mismatched", "test_mismatched",
    }  # fmt: skip


def test_labels_of_the_diagnostic_set_are_read_where_they_are(
    small_glue, tmp_path, label_diagnostic
):
    data = shutil.copytree(small_glue, tmp_path / "glue_data")
    before = find_source("MNLI", data=data)
    unlabelled = before.read().splits["diagnostic"]
    label_diagnostic(data)
    after = find_source("MNLI", data=data)
    labelled = after.read().splits["diagnostic"]
    assert labelled.texts == unlabelled.texts
    assert labelled.index.tolist() == unlabelled.index.tolist()
    assert [GLUE["MNLI"].labels[label] for label in labelled.labels[:4]] == [
        "contradiction", "neutral", "entailment", "contradiction",
    ]  # fmt: skip
    # They do not change the training, so runs stay valid.
    assert after.training_digests() == before.training_digests()
    assert after.digests() != before.digests()
    # With the words of all splits, the test files are part of the training.
    assert {*after.training_digests("all")} == {*after.digests()}
    (data / "diagnostic" / "diagnostic.tsv").unlink()
    assert find_source("MNLI", data=data).read().splits["diagnostic"].texts == unlabelled.texts


def test_a_wrong_label_of_the_diagnostic_set_is_named(small_glue, tmp_path, label_diagnostic):
    data = shutil.copytree(small_glue, tmp_path / "glue_data")
    path = label_diagnostic(data)
    path.write_text(path.read_text("utf-8").replace("neutral\n", "perhaps\n", 1), "utf-8")
    with pytest.raises(DataError, match=r"diagnostic-full.tsv:3: column 'Label': expected "):
        read_task("MNLI", data)


def edit(small_glue, tmp_path, name, file, change):
    folder = tmp_path / name
    shutil.copytree(small_glue / name, folder)
    path = folder / file
    lines = path.read_text(encoding="utf-8").split("\n")
    path.write_text("\n".join(change(lines)), encoding="utf-8", newline="\n")
    return tmp_path


def replace(line, old, new):
    def change(lines):
        assert old in lines[line - 1]
        return [*lines[: line - 1], lines[line - 1].replace(old, new), *lines[line:]]

    return change


@pytest.mark.parametrize(
    ("name", "file", "change", "message"),
    [
        ("RTE", "train.tsv", replace(2, "entailment", "maybe"),
         "train.tsv:2: column 'label': expected 'entailment' or 'not_entailment', found '"),
        ("STS-B", "dev.tsv", replace(1, "score", "points"),
         "dev.tsv:1: expected a column 'score', found 'index', "),
        ("QQP", "test.tsv", replace(3, "1\t", "7\t"), "test.tsv:3: expected id 1, found '7'"),
        ("WNLI", "dev.tsv", lambda lines: lines[:1], "dev.tsv: expected labelled rows, found none"),
    ],
)  # fmt: skip
def test_a_malformed_file_is_named_with_its_line(small_glue, tmp_path, name, file, change, message):
    data = edit(small_glue, tmp_path, name, file, change)
    with pytest.raises(DataError) as error:
        read_task(name, data)
    assert message in str(error.value)
