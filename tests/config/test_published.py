from __future__ import annotations

import csv
from importlib import resources
from pathlib import Path

import pytest

from relation_tf.config import list_suites, load_suite
from relation_tf.config.published import load_published

FILES = sorted(
    file.name.removesuffix(".toml")
    for file in (resources.files("relation_tf.suites") / "published").iterdir()
)


@pytest.mark.parametrize("name", FILES)
def test_each_file_names_its_paper_and_missing_figures(name):
    published = load_published(name)
    assert published.source
    assert published.missing or published.figure


def test_scores_of_mad_have_their_published_mean():
    figures = load_published("mad").figure
    for method in ("attention", "gated-linear-attention", "delta-net"):
        *scores, mean = [figure.value for figure in figures if figure.method == method]
        assert len(scores) == 6
        assert sum(scores) / 6 == pytest.approx(mean, abs=0.05)


def test_every_suite_of_a_paper_has_its_figures():
    named = {name: load_suite(name).published for name in list_suites()}
    assert {name for name, file in named.items() if file is None} == {
        "decode",
        "deep-glue",
        "demo",
        "diagnostics",
        "diagnostics-small",
        "mechanism-speed",
        "bytes-imdb",
        "modern",
        "sequences",
        "wikitext-2",
    }
    assert {*named.values()} - {None} == {*FILES}


SHARED = Path(__file__).resolve().parents[3] / "shared" / "published"
FDU = {
    "Apparel": "apparel", "Baby": "baby", "Books": "books", "Camera": "camera_photo", "DVD": "dvd",
    "Electronic": "electronics", "Health": "health_personal_care", "IMDB": "imdb",
    "Kitchen": "kitchen_housewares", "Magazine": "magazines", "MR": "MR", "Music": "music",
    "Software": "software", "Sports": "sports_outdoors", "Toys": "toys_games", "Video": "video",
}  # fmt: skip
REVIEWS = {"Average": "mean of these tasks"} | {key: f"fdu-{name}" for key, name in FDU.items()}
TASKS = {
    "relation-table1": {"Avg": "GLUE average"},
    "fcsr-table3": {"AG News": "AG-News", "Yelp Full": "Yelp-full", "Polarity": "MR",
                    "SST-2": "SST-2-sentences", "Final Sentiment": "tweets"},
    "fcsr-table4": REVIEWS,
    "fcsr-table5": REVIEWS,
}  # fmt: skip
NETWORKS = ("CNN", "LSTM", "stacked LSTM", "BiLSTM", "stacked BiLSTM", "Transformer", "S-LSTM",
            "FCSR")  # fmt: skip
LOWER = {name: name.lower().replace(" ", "-") for name in NETWORKS}
METHODS = {
    "contextualizer-table3": {"constant 1": "ones", "uniform(-1, 1)": "uniform"},
    "contextualizer-table4": {"Contextualizer": "contextualizer",
                              "USE (Transformer)": "use-transformer",
                              "USE (deep averaging)": "use-dan"},
    "fcsr-table3": LOWER,
    "fcsr-table4": LOWER,
    "fcsr-table5": {"CNN": "cnn-shared", "SP-MTL": "lstm-shared-private",
                    "ASP-MTL": "lstm-adversarial", "ASP-MTL-SC": "lstm-single-channel",
                    "ASP-MTL-BC": "lstm-bi-channel", "Transformer": "transformer-shared",
                    "S-LSTM": "s-lstm-shared", "FCSR": "fcsr-shared"},
}  # fmt: skip
METRICS = {
    "glue_score": "score",
    "seconds_per_epoch": "seconds per epoch",
    "accuracy_matched": "accuracy",
    "accuracy_mismatched": "accuracy",
}


def figures_of(name, row):
    """Return (method, task, metric, value, sd) of each figure in a row of the papers' tables."""
    task = row.get("task", "MR")
    task = TASKS.get(name, {}).get(task, task)
    own = METHODS.get(name, {})
    if name.startswith("relation"):
        half = {"accuracy_matched": "-m", "accuracy_mismatched": "-mm"}.get(row["metric"], "")
        metric = METRICS.get(row["metric"], row["metric"])
        method = f"{row['method']}-{row['units']}"
        return [(method, task + half, metric, row["mean"], row["sd"])]
    if name == "contextualizer-table2":
        method = f"{row['model'].lower()}-{float(row['parameters'].removesuffix(' M')):g}M"
        times = (method, task, "milliseconds per batch", row["ms_per_batch"], "")
        return [(method, task, "accuracy", row["accuracy"], ""), times]
    if name == "contextualizer-table3":
        context = own.get(row["initial_context"], row["initial_context"])
        method = f"contextualizer-k{row['steps']}-{context}"
    else:
        method = own.get(row["model"], row["model"])
    metric = "score" if row.get("task") == "Average" else "accuracy"
    return [(method, task, metric, row["accuracy"], "")]


@pytest.mark.parametrize("name", [name for name in FILES if "table" in name])
def test_figures_equal_the_papers_tables(name):
    path = SHARED / f"{name}.csv"
    if not path.is_file():
        pytest.skip(f"the papers' tables are not in {SHARED}")
    with path.open(encoding="utf-8") as file:
        rows = [figure for row in csv.DictReader(file) for figure in figures_of(name, row)]
    expected = [
        (*names, float(value), float(sd) if sd else None) for *names, value, sd in rows if value
    ]
    found = [(f.name, f.task, f.metric, f.value, f.sd) for f in load_published(name).figure]
    assert found == expected
    assert len(found) > 5


@pytest.mark.parametrize("name", FILES)
def test_claims_are_of_figures_and_in_their_direction(name):
    published = load_published(name)
    values = {(f.method, f.units, f.task, f.metric): f.value for f in published.figure}
    for claim in published.claim:
        own = [
            (f.method, f.units, f.task, f.metric)
            for f in published.figure
            if f.method in claim.better
            and f.units in claim.units
            and f.task in claim.tasks
            and (not claim.metrics or f.metric in claim.metrics)
        ]
        tasks = len(claim.tasks) * max(1, len(claim.metrics))
        assert len(own) == len(claim.better) * len(claim.units) * tasks
        for method, *key in own:
            for other in claim.than:
                gain = values[method, *key] - values[other, *key]
                assert gain < 0 if "seconds" in key[-1] else gain > 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source = ", "invalid TOML"),
        ('split = "test"', "key 'source'"),
        ('source = "x"\n[[figure]]\nmethod = "a"\ntask = "MR"\nvalue = "high"',
         "key 'figure.1.value'.*Received: 'high'"),
        ('source = "x"\nfigure = [{ method = "a", task = "MR", value = 1, sd = -1 }]',
         "key 'figure.1.sd'.*Received: -1"),
        ('source = "x"\n[[claim]]\nbetter = ["a"]\nthan = []\ntasks = ["MR"]',
         "key 'claim.1.than'"),
        ('source = "x"\n[[figure]]\nmethod = "a"\ntask = "MR"\nvalue = 1\nunit = 8',
         "unknown key 'figure.1.unit'. Did you mean 'units'"),
    ],
)  # fmt: skip
def test_a_broken_file_is_named(tmp_path, text, message):
    path = tmp_path / "figures.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_published(str(path))
