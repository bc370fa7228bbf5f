from __future__ import annotations

import shutil
import socket
import subprocess
import sys

import numpy as np
import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import GLUE, CustomTask, TaskGroup, find_source, load_task, read_task
from relation_tf.tasks.cache import cache_folder
from relation_tf.tasks.hub import HUB
from relation_tf.tasks.official import OFFICIAL_ROWS, shortfalls, unscored

datasets = pytest.importorskip("datasets", reason="pip install 'relation-tf[datasets]'")


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    """Refuse connections."""

    def refuse(*arguments, **options):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture(scope="module", autouse=True)
def _without_progress():
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def glue(name, files):
    """Return the splits of a task as on the Hub, by configuration."""
    hub, text = HUB[name], read_task(name, files)
    classes = [text.task.labels.index(word) for word in hub.labels.values()]
    label = datasets.ClassLabel(names=[*hub.labels]) if hub.labels else datasets.Value("float32")
    texts = {column: datasets.Value("string") for column in hub.inputs}
    features = datasets.Features({**texts, "label": label, "idx": datasets.Value("int32")})
    configs = {}
    for split, rows in text.splits.items():
        if rows.labels is None:
            labels = [-1] * len(rows)
        elif hub.labels:
            labels = [classes.index(number) for number in rows.labels]
        else:
            labels = (rows.labels * 5).tolist()
        columns = dict(zip(hub.inputs, rows.texts, strict=True))
        values = {**columns, "label": labels, "idx": [*range(len(rows))]}
        made = datasets.Dataset.from_dict(values, features=features)
        config = hub.apart.get(split, hub.config)
        configs.setdefault(config, datasets.DatasetDict())[hub.splits[split]] = made
    return configs


def save(splits, folder):
    splits.save_to_disk(folder)


def write_with(method, suffix):
    def write(splits, folder):
        folder.mkdir(parents=True)
        for name, rows in splits.items():
            getattr(rows, method)(str(folder / f"{name}.{suffix}"))

    return write


WRITE = {
    "saved": save,
    "parquet": write_with("to_parquet", "parquet"),
    "csv": write_with("to_csv", "csv"),
    "jsonl": write_with("to_json", "jsonl"),
}


@pytest.fixture(scope="module")
def stored(small_glue, tmp_path_factory):
    """Return a folder for each format with all tasks of GLUE."""
    root = tmp_path_factory.mktemp("stored")
    for name in GLUE:
        for config, splits in glue(name, small_glue).items():
            for form, write in WRITE.items():
                write(splits, root / form / "glue" / config)
    return root


@pytest.fixture
def rte(small_glue):
    return glue("RTE", small_glue)["rte"]


def same_split(one, other):
    assert one.texts == other.texts
    assert np.array_equal(one.index, other.index)
    if one.labels is None or other.labels is None:
        assert one.labels is other.labels
    else:
        assert one.labels.dtype == other.labels.dtype
        assert np.array_equal(one.labels, other.labels)


@pytest.mark.parametrize("form", WRITE)
@pytest.mark.parametrize("name", OFFICIAL_ROWS)
def test_a_task_is_the_same_as_from_files(name, form, small_glue, stored):
    files = find_source(name, "files", small_glue)
    source = find_source(name, "datasets", stored / form)
    assert source.kind == "datasets"
    expected, found = files.read(), source.read()
    assert [*found.splits] == [*expected.splits]
    for split, rows in expected.splits.items():
        same_split(found.splits[split], rows)
    assert (found.task, found.notes) == (expected.task, expected.notes)
    assert source.digests() == source.row_digests() == files.row_digests()
    assert len({*source.digests().values()}) == len(expected.splits)


@pytest.mark.parametrize("name", ["CoLA", "STS-B", "MNLI"])
def test_encoded_splits_are_the_same_as_from_files(name, small_glue, stored):
    expected = load_task(name, "files", small_glue, validation_split=0.2)
    found = load_task(name, "datasets", stored / "saved", validation_split=0.2)
    assert found.vocabulary.words == expected.vocabulary.words
    assert [*found.splits] == [*expected.splits]
    for split, rows in expected.splits.items():
        other = found.splits[split]
        assert np.array_equal(other.index, rows.index)
        for one, two in zip(other.inputs, rows.inputs, strict=True):
            assert np.array_equal(one.ids, two.ids)
            assert np.array_equal(one.offsets, two.offsets)
        assert (other.labels is None) == (rows.labels is None)
        assert rows.labels is None or np.array_equal(other.labels, rows.labels)


def test_a_digest_depends_on_texts_labels_and_order(rte, tmp_path):
    def digests(name, train):
        folder = tmp_path / name
        save(datasets.DatasetDict({**rte, "train": train}), folder / "rte")
        return find_source("RTE", "datasets", folder).digests()

    first, other = digests("same", rte["train"]), {}
    other["text"] = rte["train"].map(lambda row: {"sentence1": row["sentence1"] + " "})
    other["label"] = rte["train"].map(lambda row: {"label": 1 - row["label"]})
    other["fewer"] = rte["train"].select(range(10))
    for name, train in other.items():
        changed = digests(name, train)
        assert changed["train"] != first["train"]
        assert changed["dev"] == first["dev"]
    shuffled = rte["train"].shuffle(seed=1)
    assert shuffled["idx"][:5] != rte["train"]["idx"][:5]
    assert digests("shuffled", shuffled) == first


# Where a dataset is found.


@pytest.mark.parametrize("place", ["nyu-mll/glue/rte", "glue/rte", "rte"])
def test_places_below_data(place, rte, tmp_path):
    WRITE["parquet"](rte, tmp_path / place)
    for source in ("datasets", "auto"):
        found = find_source("RTE", source, tmp_path)
        assert (found.kind, found.files["dev"]) == (
            "datasets",
            tmp_path / place / "validation.parquet",
        )


def test_files_come_first(rte, small_glue, tmp_path):
    shutil.copytree(small_glue / "RTE", tmp_path / "RTE")
    save(rte, tmp_path / "rte")
    assert find_source("RTE", "auto", tmp_path).kind == "files"
    assert find_source("RTE", "datasets", tmp_path).kind == "datasets"


def test_shards_of_a_clone_of_the_repository(rte, small_glue, tmp_path):
    folder = tmp_path / "glue" / "rte"
    folder.mkdir(parents=True)
    for name, rows in rte.items():
        for i in range(2):
            shard = rows.shard(2, i, contiguous=True)
            shard.to_parquet(str(folder / f"{name}-0000{i}-of-00002.parquet"))
    source = find_source("RTE", "datasets", tmp_path)
    assert source.digests() == find_source("RTE", "files", small_glue).row_digests()


def test_finding_and_reading_import_neither_datasets_nor_tensorflow(stored):
    code = (
        "import sys; from relation_tf.tasks import find_source;"
        f"find_source('MNLI', 'datasets', {str(stored / 'saved')!r}).digests();"
        "sys.exit(bool({'datasets', 'huggingface_hub', 'tensorflow', 'pandas'} & {*sys.modules}))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# Custom tasks.

ROWS = {
    "text": [f"word {i % 7} of {i}" for i in range(40)],
    "tone": [i % 3 % 2 for i in range(40)],
}


def tones(**changes):
    values = {
        "name": "tones",
        "inputs": ["text"],
        "label": "tone",
        "labels": ["calm", "loud"],
        "files": {"train": "train", "test": "validation"},
        "hub": "someone/Tones",
    }
    return CustomTask(**(values | changes))


@pytest.fixture
def tone_rows():
    features = datasets.Features(
        {"text": datasets.Value("string"), "tone": datasets.ClassLabel(names=["calm", "loud"])}
    )
    rows = datasets.Dataset.from_dict(ROWS, features=features)
    return datasets.DatasetDict({"train": rows, "validation": rows.select(range(9))})


@pytest.mark.parametrize("form", ["saved", "parquet"])
@pytest.mark.parametrize("place", ["someone/Tones", "Tones", "Tones/data"])
def test_a_custom_task_names_a_dataset(tone_rows, form, place, tmp_path):
    WRITE[form](tone_rows, tmp_path / place)
    expected = find_source(tones(), "auto", tmp_path).read().splits
    found = find_source(tones(), "datasets", tmp_path).read().splits
    assert [*found] == ["train", "test"]
    assert (found["train"].texts, found["train"].labels.tolist()) == (
        (ROWS["text"],),
        ROWS["tone"],
    )
    same_split(found["test"], expected["test"])
    numbers = tones(labels=["0", "1"])
    same_split(find_source(numbers, "datasets", tmp_path).read().splits["train"], found["train"])


def own_files(folder, form):
    """Write the rows of a custom task with all columns as text; return the task."""
    rows = datasets.Dataset.from_dict(ROWS | {"tone": [("calm", "loud")[i] for i in ROWS["tone"]]})
    files = {split: f"{form}/{split}{'' if form == 'saved' else f'.{form}'}" for split in
             ("train", "test")}  # fmt: skip
    for file in files.values():
        path = folder / file
        path.parent.mkdir(exist_ok=True)
        if form == "tsv":
            rows.to_csv(str(path), sep="\t")
        else:
            save(rows, path) if form == "saved" else rows.to_parquet(str(path))
    return tones(files=files, hub=None)


@pytest.mark.parametrize("form", ["parquet", "saved"])
def test_files_of_a_custom_task_give_the_same_splits_as_tsv(form, tmp_path):
    tsv = load_task(own_files(tmp_path, "tsv"), data=tmp_path)
    task = own_files(tmp_path, form)
    found = load_task(task, data=tmp_path)
    assert found.validation == "validation"  # a share of the training rows
    assert found.source.digests() == found.source.row_digests() == tsv.source.row_digests()
    assert found.vocabulary.words == tsv.vocabulary.words
    for split, rows in tsv.splits.items():
        other = found.splits[split]
        assert np.array_equal(other.inputs[0].ids, rows.inputs[0].ids)
        assert np.array_equal(other.labels, rows.labels)
        assert np.array_equal(other.index, rows.index)
    assert find_source(task, "datasets", tmp_path).kind == "datasets"
    assert find_source(task, "files", tmp_path).kind == "files"


@pytest.mark.parametrize("form", WRITE)
def test_a_validation_share_is_the_same_in_every_format(form, tmp_path):
    rows = {**ROWS, "text": [f"{text}\nand more" for text in ROWS["text"]]}
    made = datasets.Dataset.from_dict(rows)
    splits = datasets.DatasetDict({"train": made, "validation": made})
    task = tones(labels=["0", "1"])
    found = []
    for each in ("saved", form):
        WRITE[each](splits, tmp_path / each / "Tones")
        found.append(load_task(task, "datasets", tmp_path / each))
        shutil.rmtree(cache_folder())
    assert found[0].digest == found[1].digest
    for split, own in found[0].splits.items():
        assert np.array_equal(own.index, found[1].splits[split].index)
        assert np.array_equal(own.inputs[0].ids, found[1].splits[split].inputs[0].ids)


def test_files_keep_their_digest_and_their_recorded_task(tmp_path):
    task = own_files(tmp_path, "tsv")
    source = find_source(task, "files", tmp_path)
    assert source.digests() != source.row_digests()
    assert "hub" not in task.model_dump(mode="json")
    assert "hub" not in task.model_dump(exclude_none=True)
    assert tones().model_dump(mode="json")["hub"] == "someone/Tones"


def test_a_group_has_the_digests_of_its_members(tone_rows, small_glue, stored, tmp_path):
    shutil.copytree(stored / "saved" / "glue", tmp_path / "glue")
    save(tone_rows, tmp_path / "Tones")
    group = TaskGroup(name="both", tasks=["RTE", tones()])
    digests = find_source(group, "datasets", tmp_path).digests()
    assert digests["RTE:dev"] == find_source("RTE", "files", small_glue).row_digests()["dev"]
    assert digests["tones:test"] == find_source(tones(), "auto", tmp_path).digests()["test"]
    assert digests == find_source(group, "datasets", tmp_path).row_digests()


def test_a_class_without_training_rows_is_noted(tone_rows, tmp_path):
    save(tone_rows, tmp_path / "Tones")
    task = tones(labels=["calm", "loud", "silent"])
    assert load_task(task, "datasets", tmp_path).notes == ("class 'silent' has no training rows",)


# Incomplete and wrong data.


def test_test_rows_are_counted(rte, stored, tmp_path):
    save(rte, tmp_path / "rte")
    (short,) = shortfalls(find_source("RTE", "datasets", tmp_path))
    assert str(short) == f"RTE: {tmp_path}/rte/test has 8 rows, not 3,000"
    shutil.rmtree(tmp_path / "rte" / "test")
    (missing,) = shortfalls(find_source("RTE", "datasets", tmp_path))
    assert "is missing (3,000 rows)" in str(missing)
    mnli = find_source("MNLI", "datasets", stored / "saved")
    assert unscored(mnli) == ["AX is predicted but not scored: Hugging Face has no labels"]


def test_the_diagnostic_set_may_be_missing(stored, tmp_path):
    shutil.copytree(stored / "parquet" / "glue" / "mnli", tmp_path / "mnli")
    splits = find_source("MNLI", "datasets", tmp_path).read().splits
    assert "diagnostic" not in splits
    assert "test_mismatched" in splits


@pytest.mark.parametrize("number", ["9" * 5000, "-1", "1.5"])
def test_row_numbers_are_whole_numbers(rte, tmp_path, number):
    WRITE["jsonl"](rte, tmp_path / "rte")
    path = tmp_path / "rte" / "train.jsonl"
    path.write_text(path.read_text().replace('"idx":3}', f'"idx":"{number}"}}'))
    with pytest.raises(DataError, match=r"train.jsonl:4: column 'idx': expected a row number, "):
        find_source("RTE", "datasets", tmp_path).read()


def test_missing_datasets(tmp_path):
    with pytest.raises(DataError) as error:
        find_source("RTE", "datasets", tmp_path)
    places = [tmp_path / place for place in ("nyu-mll/glue/rte", "glue/rte", "rte")]
    assert str(error.value).startswith(
        f"task RTE: not found. Searched: {', '.join(map(str, places))}. To get the data: run `hf "
    )
    with pytest.raises(DataError, match=r"^task RTE: needs --data DIR\. To get the data"):
        find_source("RTE", "datasets")
    with pytest.raises(DataError, match=r"^task MR: no Hugging Face dataset is known\. Declare it"):
        find_source("MR", "datasets", tmp_path)
    with pytest.raises(DataError, match="someone/Tones is no file: use source = 'datasets'"):
        find_source(tones(), "files", tmp_path)


def rename_split(splits):
    dev = splits.pop("validation")
    return datasets.DatasetDict({**splits, "dev": dev})


def change_train(change):
    def changed(splits):
        return datasets.DatasetDict({**splits, "train": change(splits["train"])})

    return changed


def with_row(**values):
    def changed(row, number):
        return {**row, **values} if number == 3 else row

    return change_train(lambda rows: rows.map(changed, with_indices=True))


def other_names(rows):
    return rows.cast_column("label", datasets.ClassLabel(names=["no", "yes"]))


def without_numbers(splits):
    return datasets.DatasetDict({**splits, "test": splits["test"].select([0, 1, 2, 4])})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (rename_split, "rte: expected a split 'validation', found 'dev', 'test', 'train'"),
        (
            change_train(lambda rows: rows.rename_column("sentence1", "premise")),
            "expected a column 'sentence1', found 'premise', 'sentence2', 'label', 'idx'",
        ),
        (
            change_train(lambda rows: rows.remove_columns("idx")),
            "expected a column 'idx', found 'sentence1', 'sentence2', 'label'",
        ),
        (
            with_row(label=-1),
            "row 4: column 'label': expected 'entailment' or 'not_entailment', found '-1'",
        ),
        (
            with_row(sentence2=None),
            "row 4: expected 'sentence2' with a string or a number, found None",
        ),
        (with_row(idx=-7), "row 4: column 'idx': expected a row number, found '-7'"),
        (without_numbers, "row 4: expected idx 3, found '4'"),
    ],
)
@pytest.mark.parametrize("form", ["saved", "parquet"])
def test_errors_of_wrong_data(form, change, message, rte, tmp_path):
    WRITE[form](change(rte), tmp_path / "rte")
    with pytest.raises(DataError) as error:
        find_source("RTE", "datasets", tmp_path).read()
    assert str(error.value).startswith(f"{tmp_path}/rte")
    assert str(error.value).partition(". Correct the file, or skip")[0].endswith(message)


def test_other_class_names_are_refused(rte, tmp_path):
    rte["train"] = rte["train"].cast_column("label", datasets.ClassLabel(names=["entailment", "x"]))
    save(rte, tmp_path / "rte")
    with pytest.raises(DataError, match="expected 'entailment' or 'not_entailment', found 'x'"):
        find_source("RTE", "datasets", tmp_path).read()


def test_if_all_training_labels_are_wrong_the_first_is_named(tone_rows, tmp_path):
    save(tone_rows, tmp_path / "Tones")
    source = find_source(tones(labels=["soft", "hard"]), "datasets", tmp_path)
    with pytest.raises(DataError) as error:
        source.digests()  # leaves bad training rows out
    assert str(error.value) == (
        f"{tmp_path}/Tones/train: expected labelled rows, found none. The first row that was left "
        f"out: {tmp_path}/Tones/train: row 1: column 'tone': expected 'soft' or 'hard', found '0'"
    )


def test_bad_training_rows_can_be_skipped(rte, tmp_path):
    save(with_row(label=-1)(rte), tmp_path / "rte")
    source = find_source("RTE", "datasets", tmp_path)
    text = source.read(skip_bad_lines=True)
    assert len(text.splits["train"]) == len(rte["train"]) - 1
    assert text.skipped[0].endswith("found '-1'")
    assert len(source.digests()) == 3


def test_a_split_is_stored_once(rte, tmp_path):
    WRITE["parquet"](rte, tmp_path / "rte")
    rte["train"].to_json(str(tmp_path / "rte" / "train.jsonl"))
    with pytest.raises(DataError) as error:
        find_source("RTE", "datasets", tmp_path)
    assert str(error.value) == (
        f"{tmp_path}/rte: split 'train' must be stored once, found train.jsonl and train.parquet"
    )


def test_one_saved_split_has_no_name(rte, tmp_path):
    save(rte["train"], tmp_path / "rte")
    with pytest.raises(DataError, match="/rte: expected a folder for each split"):
        find_source("RTE", "datasets", tmp_path)


def test_shards_must_be_parquet(rte, tmp_path):
    WRITE["csv"](rte, tmp_path / "rte")
    (tmp_path / "rte" / "train.csv").rename(tmp_path / "rte" / "train-00000-of-00001.csv")
    with pytest.raises(DataError, match=r"of-00001\.csv: must be one file for each split, or Par"):
        find_source("RTE", "datasets", tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"files": {"train": "a.csv.gz", "test": "b"}, "hub": None},
         "files.train: must end in one of .csv, .tsv, .jsonl, .parquet, or be a folder of "
         "save_to_disk. Received: 'a.csv.gz'"),
        ({"files": {"train": "data/train", "test": "test"}},
         "files.train: must be the name of a split of someone/Tones, such as 'train'. Received: "
         "'data/train'"),
        ({"files": {"train": ".", "test": "b.csv"}, "hub": None}, "files.train: must end in one"),
        ({"hub": "a/b/c/d"}, "hub"),
        ({"hub": "../a"}, "hub"),
    ],
)  # fmt: skip
def test_errors_of_custom_tasks(changes, message):
    with pytest.raises(ValueError, match="validation error") as error:
        tones(**changes)
    assert message in str(error.value)


# The real files, written with `datasets`.


@pytest.mark.parametrize("form", WRITE)
@pytest.mark.parametrize("name", ["STS-B", "WNLI", "MRPC"])
def test_real_rows_are_the_same_as_from_files(name, form, shared, tmp_path):
    data = shared(f"data/glue_data/{name}").parent
    for config, splits in glue(name, data).items():
        WRITE[form](splits, tmp_path / config)
    expected = read_task(name, data).splits
    for split, found in find_source(name, "datasets", tmp_path).read().splits.items():
        same_split(found, expected[split])
