from __future__ import annotations

import json

import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import read_task

OFFICIAL = '"5","Good"\n'


def write(data, train, test=OFFICIAL):
    folder = data / "yelp_review_full_csv"
    folder.mkdir(parents=True)
    (folder / "train.csv").write_bytes(train.encode())
    (folder / "test.csv").write_bytes(test.encode())
    return data


def write_sample(data, train, test='{"0": {"ori": "Good", "label": "4"}}'):
    folder = data / "yelp_full_sample"
    folder.mkdir(parents=True)
    (folder / "dev.json").write_bytes(train if isinstance(train, bytes) else train.encode())
    (folder / "test.json").write_bytes(test.encode())
    return data


# In the file, and what is read.
TEXTS = {
    r"a\n\nb\r\nc": "a\n\nb\r\nc",
    r'the \""best\"".': 'the "best".',
    r'\""\"" so': '"" so',
    r"caf\u00e9 \u00E9": "café é",
    r"\ud83d\ude00!": "😀!",
    r"half \ud83d": "half \ufffd",
    r"zero \u0000": "zero \ufffd",
    r'C:\\new \\\""x': r"C:\new \"x",
    "so\u0085so, é": "so\u0085so, é",
    r"\x \u12": r"\x \u12",
    "end \\": "end \\",
}


@pytest.mark.parametrize("text", TEXTS)
def test_escapes_are_undone(tmp_path, text):
    # The quotes are doubled once, and again by a CSV writer.
    twice = text.replace('"', '""')
    entry = json.dumps({"0": {"ori": text, "label": "0"}})
    for data in (
        write(tmp_path / "once", f'"1","{text}"\n'),
        write(tmp_path / "twice", f'"1","{twice}"\n'),
        write_sample(tmp_path / "sample", entry),
    ):
        assert read_task("Yelp-full", data).splits["train"].texts == ([TEXTS[text]],)


def test_stars_are_classes_in_both_layouts(tmp_path):
    rows = "".join(f'"{stars}","text {stars},\n{stars}"\n' for stars in (3, 1, 5, 2, 4))
    split = read_task("Yelp-full", write(tmp_path / "a", rows)).splits["train"]
    assert split.labels.tolist() == [2, 0, 4, 1, 3]
    assert split.texts[0][0] == "text 3,\n3"
    entries = {str(i): {"ori": f"text {i}", "label": str(i)} for i in (2, 0, 4, 1, 3)}
    data = write_sample(tmp_path / "b", json.dumps(entries, indent=4))
    split = read_task("Yelp-full", data).splits["train"]
    assert split.labels.tolist() == [2, 0, 4, 1, 3]
    assert split.index.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"0": {\n"ori": "a"\n"label": "1"}}', "found: Expecting ',' delimiter: line 3 column 1"),
        (b'[{"ori": "a", "label": "1"}]', "expected a JSON object, found [{'ori': 'a'"),
        (b"[" * 200_000, "expected a JSON object, found: "),
        (b"{}", "expected labelled rows, found none"),
    ],
)
def test_a_bad_sample_is_named(tmp_path, content, message):
    with pytest.raises(DataError) as error:
        read_task("Yelp-full", write_sample(tmp_path, content))
    assert str(tmp_path / "yelp_full_sample" / "dev.json") in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "entry",
    [{"ori": "a", "label": "5"}, {"ori": "a", "label": 1}, {"ori": 1, "label": "1"}, {"ori": "a"},
     {}, None, "a"],
)  # fmt: skip
def test_malformed_entry_is_an_error_or_skipped_in_train_only(tmp_path, entry):
    good = {"ori": "Good", "label": "4"}
    entries = json.dumps({"7": good, "8": entry, "9": good})
    data = write_sample(tmp_path / "a", entries)
    with pytest.raises(DataError) as error:
        read_task("Yelp-full", data)
    expected = """dev.json: entry '8': expected {"ori": text, "label": "0" to "4"}, found %r"""
    message = str(error.value).partition(". Correct the file, or skip")[0]
    assert message.endswith(expected % (entry,))
    text = read_task("Yelp-full", data, skip_bad_lines=True)
    assert text.splits["train"].index.tolist() == [0, 2]
    assert text.skipped == (message,)
    data = write_sample(tmp_path / "b", json.dumps({"7": good}), entries)
    with pytest.raises(DataError, match=r"test\.json: entry '8'"):
        read_task("Yelp-full", data, skip_bad_lines=True)
