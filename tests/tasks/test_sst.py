from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.errors import DataError
from relation_tf.tasks import read_task

TRAIN = "(3 (2 So) (4 good))\n(2 (2 A) (2 (2 -LRB-) (2 film)))\n(0 Bad)\n(1 (2 1\\/2) (1 bad))\n"


def write(folder, train=TRAIN, dev="(2 (2 Fair) (2 .))\n(4 Fine)\n", test="(0 Bad)\n"):
    (folder / "trees").mkdir(exist_ok=True)
    for split, content in {"train": train, "dev": dev, "test": test}.items():
        (folder / "trees" / f"{split}.txt").write_text(content)
    return folder


def test_class_of_the_root_and_words_of_the_leaves(tmp_path):
    text = read_task("SST-2-sentences", write(tmp_path))
    train = text.splits["train"]
    assert train.texts == (["so good", "bad", "1\\/2 bad"],)
    assert train.labels.tolist() == [1, 0, 0]
    assert train.labels.dtype == np.int32
    assert train.index.tolist() == [0, 2, 3]
    assert text.splits["dev"].texts == (["fine"],)
    assert text.splits["test"].labels.tolist() == [0]
    assert text.spaced


def test_only_neutral_sentences_are_an_error(tmp_path):
    write(tmp_path, dev="(2 Fair)\n")
    with pytest.raises(DataError, match=r"dev\.txt: expected trees that are not neutral"):
        read_task("SST-2-sentences", tmp_path)


WORD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" ()\n\r\0"), min_size=1)
LABEL = st.integers(0, 4)
# A tree as it is written, with its words.
TREE = st.recursive(
    st.builds(lambda label, word: (f"({label} {word})", [word]), LABEL, WORD),
    lambda tree: st.builds(
        lambda label, left, right: (f"({label} {left[0]} {right[0]})", left[1] + right[1]),
        LABEL,
        tree,
        tree,
    ),
    max_leaves=12,
)


@given(st.lists(TREE, min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_reads_back_any_trees(tmp_path_factory, trees):
    folder = write(tmp_path_factory.mktemp("sst"))
    content = "".join(f"{tree}\n" for tree, _ in trees)
    (folder / "trees" / "train.txt").write_bytes(f"{content}(4 good)\n".encode())
    train = read_task("SST-2-sentences", folder).splits["train"]
    kept = [(tree, words) for tree, words in [*trees, ("(4 good)", ["good"])] if tree[1] != "2"]
    assert train.texts == ([" ".join(words).lower() for _, words in kept],)
    assert train.labels.tolist() == [int(tree[1] > "2") for tree, _ in kept]


@given(TREE, st.data())
@settings(max_examples=100, deadline=None)
def test_a_tree_without_one_of_its_brackets_is_refused(tmp_path_factory, tree, data):
    brackets = [i for i, character in enumerate(tree[0]) if character in "()"]
    i = data.draw(st.sampled_from(brackets))
    folder = write(tmp_path_factory.mktemp("sst"))
    (folder / "trees" / "train.txt").write_bytes((tree[0][:i] + tree[0][i + 1 :] + "\n").encode())
    with pytest.raises(DataError, match=r"train\.txt:1: expected a tree such as"):
        read_task("SST-2-sentences", folder)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "()",
        "2 good",
        "(2)",
        "(5 good)",
        "(3 so good)",
        "(3 (2 so))",
        "(3 (2 so) good)",
        "(3 (2 so) (2 very) (4 good))",
        "(3 (2 so)  (4 good))",
        "(2 so) (4 good)",
        "(3 (2 so) (4 good)) ",
        "(3 \0)",
    ],
)
def test_malformed_tree_is_an_error_or_skipped_in_train_only(tmp_path, line):
    write(tmp_path, train=f"{TRAIN}{line}\n(4 good)\n")
    with pytest.raises(DataError, match=r"train\.txt:5: expected (a tree|text)") as error:
        read_task("SST-2-sentences", tmp_path)
    assert "\n" not in str(error.value)
    text = read_task("SST-2-sentences", tmp_path, skip_bad_lines=True)
    assert text.splits["train"].index.tolist() == [0, 2, 3, 5]
    assert len(text.skipped) == 1
    for split in ("dev", "test"):
        with pytest.raises(DataError, match=rf"{split}\.txt:1"):
            read_task("SST-2-sentences", write(tmp_path, **{split: f"{line}\n(4 good)"}), True)
