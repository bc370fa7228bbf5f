"""Tests of the built-in data: official layout, correct labels, correct sentences."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from glue_submit import TASKS
from relation_tf.tasks import miniglue

TRAIN, DEV, TEST = 4000, 300, 100

# Task: header of train and dev (None: no header), header of test, label column, text columns.
LAYOUTS = {
    "CoLA": (None, "index sentence", 1, (3,)),
    "SST-2": ("sentence label", "index sentence", 1, (0,)),
    "MRPC": (
        "Quality|#1 ID|#2 ID|#1 String|#2 String",
        "index|#1 ID|#2 ID|#1 String|#2 String",
        0,
        (3, 4),
    ),
    "STS-B": (
        "index genre filename year old_index source1 source2 sentence1 sentence2 score",
        "index genre filename year old_index source1 source2 sentence1 sentence2",
        9,
        (7, 8),
    ),
    "QQP": ("id qid1 qid2 question1 question2 is_duplicate", "id question1 question2", 5, (3, 4)),
    "MNLI": ("index sentence1 sentence2 gold_label", "index sentence1 sentence2", 3, (1, 2)),
    "QNLI": ("index question sentence label", "index question sentence", 3, (1, 2)),
    "RTE": ("index sentence1 sentence2 label", "index sentence1 sentence2", 3, (1, 2)),
    "WNLI": ("index sentence1 sentence2 label", "index sentence1 sentence2", 3, (1, 2)),
}
LABELS = {
    "CoLA": {"0", "1"},
    "SST-2": {"0", "1"},
    "MRPC": {"0", "1"},
    "STS-B": {f"{score}.000" for score in range(6)},
    "QQP": {"0", "1"},
    "MNLI": {"contradiction", "entailment", "neutral"},
    "QNLI": {"entailment", "not_entailment"},
    "RTE": {"entailment", "not_entailment"},
    "WNLI": {"0", "1"},
}
TESTS = {
    **{task: f"{task}/test.tsv" for task in LAYOUTS if task != "MNLI"},
    "MNLI-m": "MNLI/test_matched.tsv",
    "MNLI-mm": "MNLI/test_mismatched.tsv",
    "AX": "diagnostic/diagnostic.tsv",
}
FILES = {
    *(f"{task}/{split}.tsv" for task in LAYOUTS for split in ("train", "dev") if task != "MNLI"),
    *("MNLI/train.tsv", "MNLI/dev_matched.tsv", "MNLI/dev_mismatched.tsv"),
    *TESTS.values(),
}


def columns(header: str) -> list[str]:
    return header.split("|" if "|" in header else " ")


def task_of(file: str) -> str:
    return file.split("/")[0].replace("diagnostic", "MNLI")


def is_test(file: str) -> bool:
    return file in TESTS.values()


def read(folder: Path, file: str) -> list[list[str]]:
    """Return all lines, including the header."""
    text = (folder / file).read_bytes().decode("utf-8")
    assert text.endswith("\n")
    return [line.split("\t") for line in text[:-1].split("\n")]


def rows(folder: Path, file: str) -> list[list[str]]:
    """Return the lines below the header."""
    has_header = is_test(file) or LAYOUTS[task_of(file)][0] is not None
    return read(folder, file)[has_header:]


def texts(folder: Path, file: str) -> list[tuple[str, ...]]:
    _, test_header, _, text_columns = LAYOUTS[task_of(file)]
    if is_test(file):
        text_columns = tuple(range(len(columns(test_header))))[-len(text_columns) :]
    return [tuple(row[c] for c in text_columns) for row in rows(folder, file)]


def examples(folder: Path, file: str) -> list[tuple[tuple[str, ...], str]]:
    """Return texts and label of each row of a labelled file."""
    label = LAYOUTS[task_of(file)][2]
    return list(zip(texts(folder, file), (row[label] for row in rows(folder, file)), strict=True))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("miniglue")
    miniglue.write(folder, seed=1, train_rows=TRAIN, dev_rows=DEV, test_rows=TEST)
    return folder


def digest(folder: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*.tsv")):
        total.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


class TestLayout:
    def test_writes_these_files_and_no_others(self, data: Path) -> None:
        written = {path.relative_to(data).as_posix() for path in data.rglob("*") if path.is_file()}
        assert written == FILES

    @pytest.mark.parametrize("file", sorted(FILES))
    def test_headers_rows_and_labels(self, data: Path, file: str) -> None:
        header, test_header, _, _ = LAYOUTS[task_of(file)]
        expected = test_header if is_test(file) else header
        lines = read(data, file)
        if expected is None:
            assert {len(line) for line in lines} == {4}
        else:
            assert lines[0] == columns(expected)
            assert {len(line) for line in lines} == {len(columns(expected))}
        count = TEST if is_test(file) else DEV if "dev" in file else TRAIN
        assert len(rows(data, file)) == count
        if lines[0][0] in ("index", "id"):
            assert [row[0] for row in rows(data, file)] == [str(i) for i in range(count)]
        if not is_test(file):
            counts = Counter(label for _, label in examples(data, file))
            assert set(counts) == LABELS[task_of(file)]
            assert max(counts.values()) - min(counts.values()) <= 1

    def test_cola_stars_the_wrong_sentences(self, data: Path) -> None:
        assert {(row[1], row[2]) for row in rows(data, "CoLA/train.tsv")} == {("1", ""), ("0", "*")}

    def test_official_sizes_are_the_default(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sizes: list[Any] = []
        monkeypatch.setattr(
            miniglue, "_write_set", lambda folder, kind, seed, rows: sizes.append(rows)
        )
        miniglue.write(tmp_path, train_rows=10, dev_rows=10)
        assert sizes
        assert all(own[task] == TASKS[task].test_rows for own in sizes for task in TESTS)


class TestDeterminism:
    def test_bytes_are_those_of_this_version(self, tmp_path: Path) -> None:
        """After an intended change, increase VERSION and update the digest."""
        miniglue.write(tmp_path, seed=0, train_rows=30, dev_rows=20, test_rows=10)
        assert (miniglue.VERSION, digest(tmp_path)) == (
            1,
            "428e044fe47e515e9892969a10ce23b9fc968f31ab8e959b0bf6e00cd5cd51ac",
        )

    def test_another_seed_gives_other_rows(self, tmp_path: Path) -> None:
        for seed in (0, 1):
            miniglue.write(tmp_path / str(seed), seed, train_rows=30, dev_rows=20, test_rows=10)
        for file in FILES:
            assert texts(tmp_path / "0", file) != texts(tmp_path / "1", file)

    def test_train_does_not_depend_on_the_other_sizes(self, data: Path, tmp_path: Path) -> None:
        miniglue.write(tmp_path, seed=1, train_rows=TRAIN, dev_rows=1, test_rows=1)
        for task in LAYOUTS:
            file = f"{task}/train.tsv"
            assert (tmp_path / file).read_bytes() == (data / file).read_bytes()


class TestLabels:
    @pytest.mark.parametrize("task", LAYOUTS)
    def test_first_words_do_not_predict_the_label(self, data: Path, task: str) -> None:
        seen = [
            (tuple(text.split()[0] for text in texts), label)
            for texts, label in examples(data, f"{task}/train.tsv")
        ]
        half = len(seen) // 2
        table: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for first_words, label in seen[:half]:
            table[first_words][label] += 1
        right = sum(
            table[first_words].most_common(1)[0][0] == label
            for first_words, label in seen[half:]
            if first_words in table
        )
        assert len(table) > 3
        assert right / half < 1 / len(LABELS[task]) + 0.03

    @pytest.mark.parametrize("task", LAYOUTS)
    def test_the_same_texts_have_the_same_label(self, data: Path, task: str) -> None:
        labels = defaultdict(set)
        for file in sorted(FILES - set(TESTS.values())):
            if task_of(file) == task:
                for example, label in examples(data, file):
                    labels[example].add(label)
        assert all(len(given) == 1 for given in labels.values())

    @pytest.mark.parametrize("task", LAYOUTS)
    def test_files_of_a_task_share_no_row(self, data: Path, task: str) -> None:
        files = [set(texts(data, file)) for file in sorted(FILES) if task_of(file) == task]
        assert len(set().union(*files)) == sum(map(len, files))

    def test_correct_cola_sentences_agree_and_wrong_ones_have_one_fault(self, data: Path) -> None:
        for (sentence,), label in examples(data, "CoLA/train.tsv"):
            words = sentence.lower().rstrip(".").split()
            noun = next(i for i, w in enumerate(words) if re.match("(doct|teach|law|sail)", w))
            plural = words[noun].endswith("s")
            determiner, verb = words[noun - 1], words[noun + 1]
            faults = [
                (plural and determiner in ("this", "that", "every"))
                or (not plural and determiner in ("these", "many")),
                verb in (("is", "was", "has") if plural else ("are", "were", "have")),
                verb not in ("is", "was", "has", "are", "were", "have"),
                re.search(r"\bthe (in|near|at|beside)\b", sentence) is not None,
            ]
            assert sum(faults) == (label == "0"), sentence

    def test_sts_b_score_counts_the_parts_that_agree(self, data: Path) -> None:
        # The first synonym of each meaning stands for all; the rest of the sentence is dropped.
        synonyms = (
            "old aged, young youthful, sailor seaman, doctor physician, buying purchasing, "
            "cleaning washing, boat ship, car automobile, garden yard, shop store"
        )
        meaning = {word: pair.split()[0] for pair in synonyms.split(", ") for word in pair.split()}
        for pair, score in examples(data, "STS-B/train.tsv"):
            first, second = (
                {meaning[w] for w in re.findall(r"\w+", text) if w in meaning} for text in pair
            )
            assert len(first) == len(second) == 5
            assert float(score) == len(first & second)

    def test_rte_entailed_things_are_of_their_kind(self, data: Path) -> None:
        kinds = {
            "animal": {"horse", "dog", "goat", "cat"},
            "vehicle": {"bus", "truck", "van", "tram"},
            "fruit": {"apple", "pear", "plum", "orange"},
        }
        for (premise, hypothesis), label in examples(data, "RTE/train.tsv"):
            kind = hypothesis.rstrip(".").split()[-1]
            if label == "entailment":
                assert kinds[kind] & set(premise.split())

    def test_wnli_pronoun_refers_to_the_too_big_or_too_small_noun(self, data: Path) -> None:
        pattern = re.compile(r"the (\w+) (does|cannot|rattles|slips) .* the (\w+) .* too (\w+)\.")
        for (sentence, answer), label in examples(data, "WNLI/train.tsv"):
            match = pattern.search(sentence.lower())
            assert match, sentence
            contents, verb, container, size = match.groups()
            too_tight = verb in ("does", "cannot")
            true = contents if too_tight == (size in ("big", "large")) else container
            assert (f" {true} " in answer) == (label == "1")
            assert answer.endswith(f"is too {size}.")


class TestSentences:
    @pytest.mark.parametrize("file", sorted(FILES))
    def test_read_as_sentences(self, data: Path, file: str) -> None:
        questions = {"QQP": (0, 1), "QNLI": (0,)}.get(task_of(file), ())
        for row in texts(data, file):
            for number, text in enumerate(row):
                assert re.fullmatch(r"[A-Z]\w*( \w+){3,15}[.?]", text), text
                assert text.endswith("?" if number in questions else "."), text
                assert not re.search(r"\b(a [aeiou]|an [^aeiou])", text), text
                assert not re.search(r"\b(\w+) \1\b", text.lower()), text

    @pytest.mark.parametrize("task", LAYOUTS)
    def test_first_words_and_lengths_vary(self, data: Path, task: str) -> None:
        for column in zip(*texts(data, f"{task}/train.tsv"), strict=True):
            first = Counter(text.split()[0] for text in column)
            assert len(first) >= 4
            assert first.most_common(1)[0][1] < 0.5 * TRAIN
            assert len({len(text.split()) for text in column}) >= 2

    def test_vocabulary_is_small(self, data: Path) -> None:
        words = {
            word.lower()
            for file in FILES
            for row in texts(data, file)
            for text in row
            for word in re.findall(r"\w+", text)
        }
        assert 150 <= len(words) <= 400


def test_too_many_rows_for_the_grammar(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"CoLA/dev\.tsv: must not repeat rows .* Received: \d+"):
        miniglue.write(tmp_path, train_rows=300_000, dev_rows=50, test_rows=1)
