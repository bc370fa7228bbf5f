from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relation_tf.errors import DataError
from relation_tf.tasks import load_task
from tests.tasks.equality import read_task

ARTICLE = (
    " \n = Robert Boulter = \n \n An actor . \n Once \n \n = = Career = = \n \n"
    " = = = 2000 – 2005 = = = \n \n In 2006 . \n"
)
OTHER, SECONDARY = 0, 1


def write(folder, train=ARTICLE, dev=ARTICLE, test=ARTICLE, suffix="tokens"):
    below = folder / ("wikitext-2" if suffix == "tokens" else "wikitext-2-raw")
    below.mkdir(exist_ok=True)
    for split, content in {"train": train, "valid": dev, "test": test}.items():
        data = content if isinstance(content, bytes) else content.encode()
        (below / f"wiki.{split}.{suffix}").write_bytes(data)
    return folder


def read(folder, train):
    return read_task("WikiText-2", write(folder, train)).splits["train"]


def test_an_instance_is_the_text_below_a_header(tmp_path):
    text = read_task("WikiText-2", write(tmp_path))
    train = text.splits["train"]
    assert list(train.texts[0]) == ["An actor .\nOnce", "", "In 2006 ."]
    assert train.labels.tolist() == [OTHER, SECONDARY, OTHER]
    assert train.index.tolist() == [1, 6, 8]
    assert text.spaced
    assert set(text.splits) == {"train", "dev", "test"}


@pytest.mark.parametrize("line", [" = = = = = X = = = = = ", " = = E = m c = = ", " = = =x= = = "])
def test_headers(tmp_path, line):
    train = read(tmp_path, f"{ARTICLE} \n{line}\n \n Text . \n")
    assert train.index.tolist() == [1, 6, 8, 12]
    assert train.labels[3] == line.startswith((" = = E", " = = =x"))
    assert train.texts[0][3] == "Text ."


@pytest.mark.parametrize(
    "line",
    [" = X", " = X = = ", " = = X = ", " = = X = = = ", " =X= ", " == X == ", " = X = y "],
)
def test_lines_that_look_like_headers(tmp_path, line):
    train = read(tmp_path, f"{ARTICLE} \n{line}\n \n Text . \n")
    assert train.index.tolist() == [1, 6, 8]
    assert train.texts[0][2].split("\n") == ["In 2006 .", line.strip(), "Text ."]


# White space of ASCII but blanks is left to the tests above.
LINE = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0\t\v\f="), max_size=20
).map(str.strip)
LINE_OR_FORMULA = st.one_of(LINE, st.sampled_from(["x = y", "= x", "x =", "= x = ="]))
WORDS = LINE.filter(str.strip) | st.sampled_from(["E = m c", "a =b"])
INSTANCES = st.lists(
    st.tuples(st.integers(1, 5), WORDS, st.lists(LINE_OR_FORMULA, max_size=4)),
    min_size=1,
    max_size=6,
)


@given(INSTANCES, st.sampled_from(["\n", "\r\n"]), st.booleans())
@example([(2, "A", []), (2, "B", ["", "b"])], "\r\n", True)
@settings(max_examples=80, deadline=None)
def test_instances_round_trip(tmp_path_factory, instances, end, blank_lines):
    lines = []
    for level, words, body in instances:
        marks = " ".join(["="] * level)
        around = [" "] if blank_lines else []
        lines += [*around, f" {marks} {words} {marks} ", *around]
        lines += [f" {line} " for line in body if blank_lines or line]
    folder = write(tmp_path_factory.mktemp("wikitext"), suffix="raw")
    name = "wiki.train.raw" if blank_lines else "train_head_noblank.txt"
    (folder / "wikitext-2-raw" / "wiki.train.raw").unlink()
    (folder / "wikitext-2-raw" / name).write_bytes("".join(line + end for line in lines).encode())
    train = read_task("WikiText-2", folder).splits["train"]
    assert list(train.texts[0]) == ["\n".join(filter(None, body)) for _, _, body in instances]
    assert train.labels.tolist() == [int(level == 2) for level, _, _ in instances]


@pytest.mark.parametrize(("start_token", "lengths"), [(True, [5, 1, 4]), (False, [4, 0, 3])])
def test_an_instance_without_text_has_only_the_start_token(tmp_path, start_token, lengths):
    encoded = load_task("WikiText-2", data=write(tmp_path), start_token=start_token)
    train = encoded.splits["train"]
    assert train.lengths.tolist() == [lengths]
    assert train.inputs[0].pad(np.array([1])).shape == (1, 1)
    assert "career" not in encoded.vocabulary.words


def test_a_sample_without_blank_lines(tmp_path):
    folder = write(tmp_path, suffix="raw") / "wikitext-2-raw"
    sample = " = X = \n Text . \n = = Y = = \n = = = Z = = = \n"
    (folder / "train_head_noblank.txt").write_text(sample)
    assert read_task("WikiText-2", tmp_path).notes == ()
    (folder / "wiki.train.raw").unlink()
    text = read_task("WikiText-2", tmp_path)
    assert list(text.splits["train"].texts[0]) == ["Text .", "", ""]
    assert text.splits["train"].labels.tolist() == [OTHER, SECONDARY, OTHER]
    assert len(text.splits["test"]) == 3
    (note,) = text.notes
    assert "3 instances" in note
    not_found = (
        r"not found\. Searched: \S*wikitext-103/wiki\.train\.tokens, \S*raw\. To get the data: "
    )
    with pytest.raises(DataError, match=not_found):
        read_task("WikiText-103", tmp_path)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b" caf\xe9 \n", ":15: expected UTF-8, byte 5 of the line is 0xE9"),
        (b" nul \0 \n", ":15: expected text, found a NUL byte"),
    ],
)
def test_a_malformed_passage_is_named(tmp_path, bad, message):
    content = ARTICLE.encode() + b" \n = X = \n \n" + bad + b" \n = Y = \n \n Text . \n"
    with pytest.raises(DataError) as error:
        read(tmp_path, content)
    assert f"wiki.train.tokens{message}" in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"wiki\.train\.tokens: cannot be read: cannot mmap an empty file"),
        (" Text . \n", r"expected headers such as ' = = Title = = ' between blank lines, found no"),
        (" = X = \n Text . \n", "between blank lines, found none"),
    ],
)
def test_a_file_without_instances_is_named(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path, content)
