from __future__ import annotations

import re

import pytest

from relation_tf.tasks import GLUE, TASK_NAMES, DataError, find_task, read_task, task_files


def test_names():
    assert TASK_NAMES[:9] == tuple(GLUE)
    assert TASK_NAMES[9:13] == ("MR", "CR", "SUBJ", "MPQA")
    assert TASK_NAMES[29:] == ("IMDb", "AG-News", "Yelp-full", "tweets")
    assert len(TASK_NAMES) == len(set(TASK_NAMES)) == 33
    # Names become folders.
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", name) for name in TASK_NAMES)


@pytest.mark.parametrize("name", TASK_NAMES)
def test_every_task_is_whole(name):
    task = find_task(name)
    assert task.name == name
    assert task.scored
    assert task.metrics
    assert set(task.answered) <= {"MNLI-m", "MNLI-mm", "AX", name}


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("cola", "CoLA"),
        ("mr", "MR"),
        ("fdu-book", "fdu-books"),
        ("FDU-MR", "fdu-MR"),
        ("imdb", "IMDb"),
        ("ag_news", "AG-News"),
        ("yelp", "Yelp-full"),
        ("Tweet", "tweets"),
    ],
)
def test_an_unknown_name_is_answered_with_a_near_one(name, near):
    with pytest.raises(DataError) as error:
        find_task(name)
    assert f"unknown task {name!r}: expected one of CoLA, " in str(error.value)
    assert str(error.value).endswith(f"Did you mean {near!r}?")


def test_a_name_like_no_other_has_no_hint():
    with pytest.raises(DataError, match=r"tweets\.$"):
        find_task("@@@@")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("CoLA", "glue_data/CoLA or CoLA"),
        ("MR", "sentence_classification/rt-polarity.all or rt-polarity.all"),
        ("fdu-imdb", "fdu_mtl/imdb.task.train or imdb.task.train"),
        ("IMDb", "imdb/train.tsv or IMDb/train.tsv"),
        ("AG-News", "ag_news_csv/train.csv or ag_news_csv/train_sample.csv"),
        ("Yelp-full", "yelp_review_full_csv/train.csv or yelp_full_sample/dev.json"),
        (
            "tweets",
            "final_sentiment/finalSentimentdata2.csv or finalSentimentdata2.csv",
        ),
    ],
)
def test_what_data_has_to_hold_is_said(tmp_path, name, place):
    with pytest.raises(DataError) as error:
        task_files(name, None)
    assert str(error.value) == (
        f"task {name}: expected --data DIR, a folder with {place}; none was given"
    )
    with pytest.raises(DataError) as error:
        task_files(name, tmp_path)
    for path in place.split(" or "):
        assert str(tmp_path / path) in str(error.value)


def test_a_file_that_is_missing_beside_others_is_named(small_glue, tmp_path):
    folder = tmp_path / "RTE"
    folder.mkdir()
    (folder / "train.tsv").write_bytes((small_glue / "RTE" / "train.tsv").read_bytes())
    with pytest.raises(DataError, match=r"RTE/dev\.tsv: expected the file of task RTE"):
        task_files("RTE", tmp_path)
    (tmp_path / "baby.task.train").write_text("1\tgood\n")
    with pytest.raises(DataError, match=r"baby\.task\.test: expected the file of task fdu-baby"):
        read_task("fdu-baby", tmp_path)


def test_the_folder_of_the_collection_comes_first(tmp_path):
    (tmp_path / "custrev.all").write_text("1 good\n")
    assert set(task_files("CR", tmp_path).values()) == {tmp_path / "custrev.all"}
    (tmp_path / "sentence_classification").mkdir()
    inner = tmp_path / "sentence_classification" / "custrev.all"
    inner.write_text("1 good\n")
    assert task_files("CR", tmp_path) == {"train": inner, "test": inner}
