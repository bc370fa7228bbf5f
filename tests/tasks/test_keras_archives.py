from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import find_task
from relation_tf.tasks.keras_archives import keras_orders, read_archive

TRAIN = {"train": ("x", "y")}


def rows(*lists):
    """Return an object array; `np.array` converts lists of equal length to a matrix."""
    array = np.empty(len(lists), object)
    array[:] = lists
    return array


def write(folder, index=None, **arrays):
    path = folder / "imdb.npz"
    np.savez(path, **({"x": rows([2, 1], [3]), "y": [1, 0]} | arrays))
    if index is not None:
        (folder / "imdb_word_index.json").write_text(json.dumps(index))
    return path


def files_of(path):
    index = path.with_name("imdb_word_index.json")
    return {"train": path} | ({"word index": index} if index.exists() else {})


def read(path):
    """Return the rows in the order of the archive, and the notes."""
    text = read_archive(find_task("IMDb"), files_of(path), TRAIN)
    split = text.splits["train"]
    return split.take(np.argsort(split.index)), text.notes


def test_ranks_become_their_words(tmp_path):
    path = write(tmp_path, {"good": 1, "so": 2, "it's": 3, "more": 9})
    split, notes = read(path)
    assert split.texts == (["so good", "it's"],)
    assert split.labels.tolist() == [1, 0]
    assert split.index.tolist() == [0, 1]
    assert not notes


def test_each_rank_stays_one_word(tmp_path):
    path = write(tmp_path, {"not\x85it": 1, "\xa0": 2, "it": 3})
    assert read(path)[0].texts == (["_ not_it", "it"],)


def test_without_an_index_ranks_are_words_with_a_note(tmp_path):
    path = write(tmp_path, x=rows([12, 1], []))
    split, (note,) = read(path)
    assert split.texts == (["12 1", ""],)
    assert note.startswith("no imdb_word_index.json next to imdb.npz")


def test_orders_are_those_of_keras():
    generator = np.random.RandomState(113)
    expected = [np.arange(9), np.arange(5)]
    for order in expected:
        generator.shuffle(order)
    assert [order.tolist() for order in keras_orders(9, 5)] == [x.tolist() for x in expected]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": rows([1], (2,))}, "row 1 of 'x': expected a list of word ranks from 1, found (2,)"),
        ({"x": rows([1], [2.0])}, "row 1 of 'x': expected a list of word ranks from 1"),
        ({"x": rows([True], [2])}, "row 0 of 'x': expected a list of word ranks from 1"),
        ({"x": rows([1], [0])}, "row 1 of 'x': expected a list of word ranks from 1, found [0]"),
        ({"x": rows([1], [-1])}, "row 1 of 'x': expected a list of word ranks from 1, found [-1]"),
        ({"x": rows("so", "good")}, "row 0 of 'x': expected a list of word ranks from 1"),
        ({"x": np.array([{}, {}])}, "row 0 of 'x': expected a list of word ranks from 1, found {}"),
        ({"x": rows([1], [2], [3])}, "as many labels 'y' as rows 'x', found 2 and 3"),
        ({"x": rows(), "y": np.empty(0, int)}, "npz: expected rows 'x', found none"),
        ({"x": [[1, 2], [3, 4]]}, "an array of int64 of shape (2, 2)"),
        ({"x": np.array([[1, 2], [3, 4]], object)}, "an array of object of shape (2, 2)"),
        ({"y": [0, 2]}, "expected labels 'y' from 0 to 1, found 2"),
        ({"y": [-1, 0]}, "expected labels 'y' from 0 to 1, found -1"),
        ({"y": [0.0, 1.0]}, "found an array of float64 of shape (2,)"),
        ({"y": [[0, 1]]}, "found an array of int64 of shape (1, 2)"),
        ({"y": rows([0], [1])}, "expected labels 'y', found: Object arrays cannot be loaded"),
    ],
)
def test_errors_of_other_content(tmp_path, arrays, message):
    path = write(tmp_path, **arrays)
    with pytest.raises(DataError) as error:
        read(path)
    assert str(path) in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_array_is_named(tmp_path):
    np.savez(tmp_path / "imdb.npz", x=rows([1]))
    with pytest.raises(DataError, match=r"expected an array 'y', found 'x\.npy'"):
        read(tmp_path / "imdb.npz")


def test_a_file_that_is_no_archive_is_named(tmp_path):
    path = write(tmp_path)
    whole = path.read_bytes()
    for content in (b"", b"no archive", whole[: len(whole) // 2], whole[:-1]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"imdb\.npz: cannot be read: "):
            read(path)
    path.write_bytes(whole.replace(b"NUMPY", b"OTHER"))  # the checksum is not that of the content
    with pytest.raises(DataError, match=r"Bad CRC-32"):
        read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "expected a JSON object, found: Expecting property name"),
        ("[" * 200_000, "expected a JSON object, found: "),
        ("[1]", "expected a JSON object, found [1]"),
        ("{}", "expected words, found none"),
        ('{"so": "good"}', "expected words with different ranks from 1, found 'so': 'good'"),
        ('{"so": 0}', "expected words with different ranks from 1, found 'so': 0"),
        ('{"so": true}', "expected words with different ranks from 1, found 'so': True"),
        (
            '{"so": 2, "good": 2}',
            "expected words with different ranks from 1, found 'good': 2",
        ),
        ('{"": 1}', "expected words with different ranks from 1, found '': 1"),
    ],
)
def test_errors_of_an_invalid_index(tmp_path, content, message):
    path = write(tmp_path)
    (tmp_path / "imdb_word_index.json").write_text(content)
    with pytest.raises(DataError) as error:
        read(path)
    assert str(error.value).startswith(f"{tmp_path / 'imdb_word_index.json'}: {message}")
    assert "\n" not in str(error.value)


def test_error_names_a_rank_without_a_word(tmp_path):
    path = write(tmp_path, {"good": 1, "so": 2})
    with pytest.raises(DataError) as error:
        read(path)
    assert str(error.value) == (
        f"{path}: row 1 of 'x': the word index next to the archive has no word of rank 3"
    )


def test_archives_of_numpy_1_are_read(tmp_path):
    path = tmp_path / "imdb.npz"
    written = io.BytesIO()
    np.save(written, rows([], []), allow_pickle=True)
    header = written.getvalue().partition(b"\n")[0] + b"\n"
    pickled = (  # protocol 3, and arrays from `numpy.core`
        b"\x80\x03cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R"
        b"(K\x01K\x02\x85cnumpy\ndtype\nX\x02\x00\x00\x00O8K\x00K\x01\x87R"
        b"(K\x03X\x01\x00\x00\x00|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK?tb"
        b"\x89](](K\x02K\x01e](K\x03eetb."
    )
    np.savez(path, y=[1, 0])
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x.npy", header + pickled)
    assert read(path)[0].texts == (["2 1", "3"],)
