from __future__ import annotations

import shutil
import socket

import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import GLUE, CustomTask, find_source, load_task
from relation_tf.tasks.datasets import OFFICIAL_ROWS
from relation_tf.tasks.hub import HUB
from relation_tf.tasks.sources import shortfalls, unscored
from tests.tasks.equality import read_task, same_encoded, same_rows

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


def write_parquet(splits, folder):
    folder.mkdir(parents=True)
    for name, rows in splits.items():
        rows.to_parquet(str(folder / f"{name}.parquet"))


WRITE = {
    "saved": save,
    "parquet": write_parquet,
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


@pytest.mark.parametrize("form", WRITE)
@pytest.mark.parametrize("name", OFFICIAL_ROWS)
def test_a_task_is_the_same_as_from_files(name, form, small_glue, stored):
    files = find_source(name, "files", small_glue)
    source = find_source(name, "datasets", stored / form)
    assert source.kind == "datasets"
    expected, found = files.read(), source.read()
    assert [*found.splits] == [*expected.splits]
    for split, rows in expected.splits.items():
        same_rows(found.splits[split], rows)
    assert (found.task, found.notes) == (expected.task, expected.notes)
    assert source.digests() == source.row_digests() == files.row_digests()
    assert len({*source.digests().values()}) == len(expected.splits)


# Where a dataset is found.


def test_shards_of_a_clone_of_the_repository(rte, small_glue, tmp_path):
    folder = tmp_path / "glue" / "rte"
    folder.mkdir(parents=True)
    for name, rows in rte.items():
        for i in range(2):
            shard = rows.shard(2, i, contiguous=True)
            shard.to_parquet(str(folder / f"{name}-0000{i}-of-00002.parquet"))
    source = find_source("RTE", "datasets", tmp_path)
    assert source.digests() == find_source("RTE", "files", small_glue).row_digests()


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


@pytest.mark.parametrize(
    ("form", "place"),
    [
        ("saved", "someone/Tones"),
        ("saved", "Tones"),
        ("parquet", "Tones"),
        ("parquet", "Tones/data"),
    ],
)
def test_a_custom_task_names_a_dataset(tone_rows, form, place, tmp_path):
    WRITE[form](tone_rows, tmp_path / place)
    found = find_source(tones(), "datasets", tmp_path).read().splits
    assert [*found] == ["train", "test"]
    assert found["train"].texts == (ROWS["text"],)
    assert found["train"].labels.tolist() == ROWS["tone"]
    same_rows(found["test"], find_source(tones(), "auto", tmp_path).read().splits["test"])
    numbers = tones(labels=["0", "1"])
    same_rows(find_source(numbers, "datasets", tmp_path).read().splits["train"], found["train"])


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
    same_encoded(found, tsv)
    assert find_source(task, "datasets", tmp_path).kind == "datasets"
    assert find_source(task, "files", tmp_path).kind == "files"


# Incomplete and wrong data.


def test_test_rows_are_counted(rte, stored, tmp_path):
    save(rte, tmp_path / "rte")
    (short,) = shortfalls(find_source("RTE", "datasets", tmp_path))
    assert short.endswith("has 8 rows, not 3,000")
    shutil.rmtree(tmp_path / "rte" / "test")
    (missing,) = shortfalls(find_source("RTE", "datasets", tmp_path))
    assert missing == "RTE: split 'test' is missing (3,000 rows)"
    assert len(unscored(find_source("MNLI", "datasets", stored / "saved"))) == 1


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


def test_a_split_is_stored_once(rte, tmp_path):
    WRITE["parquet"](rte, tmp_path / "rte")
    save(datasets.DatasetDict({"train": rte["train"]}), tmp_path / "rte")
    with pytest.raises(DataError, match="rte: split 'train' must be stored once, found train and"):
        find_source("RTE", "datasets", tmp_path)
