"""Word vectors, compared with those of gensim itself."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from relation_tf.errors import DataError, OptionError, RelationError, SuiteError
from relation_tf.tasks import VectorSettings, load_task, miniglue, read_glove, train_vectors
from relation_tf.tasks import word_vectors as module
from relation_tf.tasks.word_vectors import _rows_of_files, _rows_of_task, _write_words

SMALL = {"width": 6, "min_count": 2, "epochs": 2}
TEXT = "It works, it DOES.\n\nDoes it work? It   does!\n"
WORDS = [
    ["it", "works", ",", "it", "does", "."], ["does", "it", "work", "?", "it", "does", "!"],
]  # fmt: skip


@pytest.fixture
def gensim():
    return pytest.importorskip("gensim.models")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(TEXT * 20)
    return path


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("RELATION_TF_CACHE", str(tmp_path / "cache"))
    miniglue.write(tmp_path / "glue_data", train_rows=40, dev_rows=16, test_rows=6)
    return tmp_path


def vectors_in(path, width=6):
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        lines = [line.split(" ") for line in file]
    assert all(len(line) == width + 1 for line in lines)
    return {word: np.array(numbers, np.float32) for word, *numbers in lines}


@pytest.mark.parametrize("model", ["skip-gram", "cbow", "fasttext"])
def test_vectors_are_those_of_gensim(gensim, text, tmp_path, model):
    made = train_vectors(
        tmp_path / "v.txt", [text], settings=VectorSettings(model, **SMALL), quiet=True
    )
    make = gensim.FastText if model == "fasttext" else gensim.Word2Vec
    expected = make(
        WORDS * 20, vector_size=6, window=5, min_count=2, negative=5, epochs=2, seed=1, workers=1,
        sg=int(model != "cbow"),
    ).wv  # fmt: skip
    found = vectors_in(made.path)
    assert [*found] == expected.index_to_key
    for word, vector in found.items():
        np.testing.assert_array_equal(vector, expected[word])
    assert (made.words, made.width, made.tokens) == (len(found), 6, 260)
    ids = {"[PAD]": 0, "[UNK]": 1, "works": 2, "absent": 3}
    read = read_glove(made.path, ids, 6)
    np.testing.assert_array_equal(read.values, [expected["works"]])


def test_words_are_those_of_suites(text, data, tmp_path):
    _write_words(tmp_path / "words", [_rows_of_files([text])])
    lines = (tmp_path / "words").read_text().splitlines()
    assert [line.split() for line in lines] == WORDS * 20
    _write_words(tmp_path / "words", [_rows_of_task("RTE", {"data": data})])
    task = load_task("RTE", data=data)
    names = {i: word for word, i in task.vocabulary.words.items()}
    expected = [
        " ".join(names[i] for i in ids[ids > 0])
        for column in task.splits["train"].inputs
        for ids in column.pad(np.arange(len(column)))
    ]
    assert (tmp_path / "words").read_text().splitlines() == expected


def test_long_texts_are_split(tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("so good " * 12_000)
    assert _write_words(tmp_path / "words", [_rows_of_files([path])]) == 24_000
    lines = (tmp_path / "words").read_text().splitlines()
    assert [len(line.split()) for line in lines] == [10_000, 10_000, 4_000]


def test_only_training_rows_of_tasks(gensim, data, tmp_path):
    for name in ("dev", "test"):
        path = tmp_path / "glue_data" / "CoLA" / f"{name}.tsv"
        path.write_text(path.read_text().replace(" the ", " unseen "))
    settings = VectorSettings(width=6, min_count=1, epochs=1)
    made = train_vectors(
        tmp_path / "v.txt.GZ", tasks=["CoLA", "RTE"], settings=settings, data=data, quiet=True
    )
    words = {
        word
        for name in ("CoLA", "RTE")
        for word, i in load_task(name, data=data).vocabulary.words.items()
        if i > 1
    }
    assert {*vectors_in(made.path)} == words
    assert "unseen" not in words
    assert str(read_glove(made.path, {"[PAD]": 0, "the": 1}, 6)).startswith("1 of 1 words found")


PROGRAM = """
import sys
from relation_tf.tasks import VectorSettings, train_vectors
train_vectors(sys.argv[1], sys.argv[2:], settings=VectorSettings("fasttext", 6, seed=3), quiet=True)
"""


def test_a_seed_gives_the_same_file_in_every_process(gensim, text, tmp_path):
    environment = {"PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "v.txt"), str(text)], check=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    for seed in (3, 4):
        settings = VectorSettings("fasttext", 6, seed=seed)
        here = train_vectors(tmp_path / "here.txt", [text], settings=settings, quiet=True)
        is_same = here.path.read_bytes() == (tmp_path / "v.txt").read_bytes()
        assert is_same == (seed == 3)


def test_a_log_file_has_a_line_for_each_tenth(gensim, text, tmp_path, capsys):
    train_vectors(tmp_path / "v.txt", [text], settings=VectorSettings(**SMALL))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"trained on {tenth} % of 520 tokens" for tenth in range(10, 101, 10)]


def test_a_closed_output_does_not_end_the_training(gensim, text, tmp_path, monkeypatch):
    """gensim reads the texts in a thread; after an error in it the training would not end."""

    def closed(self, count):
        raise BrokenPipeError

    monkeypatch.setattr(module._Lines, "__call__", closed)
    train_vectors(tmp_path / "v.txt", [text], settings=VectorSettings(**SMALL), quiet=True)
    assert "works" in vectors_in(tmp_path / "v.txt")


@pytest.mark.parametrize("failing", ["training", "writing"])
def test_interrupted_training_leaves_no_partial_file(gensim, text, tmp_path, monkeypatch, failing):
    out = tmp_path / "v.txt"
    out.write_text("old")
    if failing == "training":
        monkeypatch.setattr(module, "_train", interrupt)
    else:

        class Vectors(dict):
            index_to_key = ("a", "b")

            def __getitem__(self, word):
                return np.ones(6, np.float32) if word == "a" else interrupt()

        monkeypatch.setattr(module, "_train", lambda *_: type("", (), {"wv": Vectors()}))
    with pytest.raises(KeyboardInterrupt):
        train_vectors(out, [text], quiet=True)
    assert out.read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", "v.txt"}


def interrupt(*_):
    raise KeyboardInterrupt


def test_refusals(gensim, text, tmp_path):
    def refused(out="v.txt", files=(text,), error=RelationError, **options):
        with pytest.raises(error) as raised:
            train_vectors(tmp_path / out, files, quiet=True, **options)
        assert not (tmp_path / out).exists()
        return str(raised.value)

    assert "no word of the 260 tokens occurs 1000 times or more. Use more text" in refused(
        settings=VectorSettings(min_count=1000), error=DataError
    )
    assert "tasks: must name one or more tasks" in refused(files=(), error=OptionError)
    assert "tfds_folder: applies to tasks, but only files are given" in refused(tfds_folder=".")
    assert "data: applies to tasks" in refused(data=tmp_path, skip_bad_lines=True)
    assert "out: must be a text file or end in .gz" in refused("v.zip")
    assert "cannot be written: " in refused("none/v.txt", error=SuiteError)
    (tmp_path / "folder").mkdir()
    with pytest.raises(SuiteError, match="must be a file in a writable folder"):
        train_vectors(tmp_path / "folder", [text], quiet=True)
    with pytest.raises(OptionError, match="must not be a file of the training text"):
        train_vectors(text, [text], quiet=True)
    assert "files: must be a list. Received: 'a.txt'" in refused(files="a.txt")
    assert "tasks: must be a list. Received: 'RTE'" in refused(tasks="RTE")
    assert "out: must be a text file or end in .gz" in refused("v.ZIP")
    assert "task dates: is generated and has no words" in refused(tasks=["dates"])
    assert "unknown task 'RTEE'" in refused(tasks=["RTEE"])
    for name, least in (("width", 2), ("window", 1), ("epochs", 1), ("seed", 0)):
        with pytest.raises(OptionError, match=f"{name}: must be {least} or more"):
            VectorSettings(**{name: -1})


@pytest.mark.parametrize(("name", "value"), [("seed", 2**32), ("window", 99_999_999_999)])
def test_numbers_that_the_library_cannot_hold(name, value):
    with pytest.raises(OptionError, match=f"must be below 2,147,483,648. Received: {value}"):
        VectorSettings(**{name: value})


def test_without_gensim(text, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(SuiteError, match=r"not installed: pip install 'relation-tf\[vectors\]'"):
        train_vectors(tmp_path / "v.txt", [text], quiet=True)
