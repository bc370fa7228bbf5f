from __future__ import annotations

from pathlib import Path

import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import Table, find_task
from relation_tf.tasks.labelled_tables import labelled_rows, named_column

IMDB, STS = find_task("IMDb"), find_task("STS-B")


def table(*words):
    lines = list(range(2, 2 + len(words)))
    return Table(Path("reviews.tsv"), {"label": list(words)}, lines, ("an earlier one",))


def test_rows_have_classes_and_the_numbers_of_their_lines():
    split, skipped = labelled_rows(IMDB, table("pos", "neg"), [["good", "bad"]])
    assert split.texts == (["good", "bad"],)
    assert split.labels.tolist() == [1, 0]
    assert split.labels.dtype == "int32"
    assert split.index.tolist() == [1, 2]
    assert skipped == ("an earlier one",)


@pytest.mark.parametrize("word", ["", "Pos", " pos", "1", "neg\n"])
def test_another_label_is_named(word):
    with pytest.raises(DataError) as error:
        labelled_rows(IMDB, table("pos", word), [["good", "bad"]])
    assert str(error.value) == f"reviews.tsv:3: expected label neg or pos, found {word!r}"


def test_a_long_label_is_shown_in_part():
    with pytest.raises(DataError, match=r"found 'x{36}\.\.\.'$"):
        labelled_rows(IMDB, table("x" * 99), [["good"]])


def test_rows_of_other_labels_are_left_out_where_asked():
    split, skipped = labelled_rows(
        IMDB, table("pos", "so-so", "neg"), [["good", "fair", "bad"]], skip_bad_lines=True
    )
    assert split.texts == (["good", "bad"],)
    assert split.labels.tolist() == [1, 0]
    assert split.index.tolist() == [1, 3]
    assert [message.partition(":")[0] for message in skipped] == ["an earlier one", "reviews.tsv"]
    with pytest.raises(DataError, match="expected labelled rows, found none"):
        labelled_rows(IMDB, table("x"), [["fair"]], skip_bad_lines=True)


def test_a_missing_column_is_named():
    with pytest.raises(DataError, match=r"^reviews\.tsv:1: expected a column 'text', found 'lab"):
        named_column(table("pos"), "text")


def test_scores_of_named_columns():
    columns = {"sentence1": ["a", "b"], "sentence2": ["c", "d"], "score": ["5", "1.25"]}
    split, _ = labelled_rows(STS, Table(Path("dev.tsv"), columns, [2, 3], ()))
    assert split.texts == (["a", "b"], ["c", "d"])
    assert (split.labels.tolist(), split.labels.dtype) == ([1.0, 0.25], "float32")
    columns["score"][1] = "5.1"
    with pytest.raises(DataError, match=r"tsv:3: expected score a number in \[0, 5\], found '5"):
        labelled_rows(STS, Table(Path("dev.tsv"), columns, [2, 3], ()))
