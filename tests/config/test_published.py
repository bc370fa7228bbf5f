from __future__ import annotations

import csv

import pytest

from relation_tf.config.suite import SUITES, load_published

FILES = sorted(file.name.removesuffix(".toml") for file in (SUITES / "published").iterdir())


COLUMNS = (("mean", "sd"), ("accuracy", ""), ("ms_per_batch", ""))  # value and SD


@pytest.mark.parametrize("name", [name for name in FILES if "table" in name])
def test_figures_equal_the_papers_tables(name, shared):
    """The same numbers in the same order."""
    with shared(f"published/{name}.csv").open(encoding="utf-8") as file:
        cells = [
            (row[value], row.get(sd))
            for row in csv.DictReader(file)
            for value, sd in COLUMNS
            if row.get(value)
        ]
    expected = [(float(value), float(sd) if sd else None) for value, sd in cells]
    assert [(each.value, each.sd) for each in load_published(name).figure] == expected
    assert len(expected) > 5


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
        ('split = "test"', "key 'source'"),
        ('source = "x"\n[[figure]]\nmethod = "a"\ntask = "MR"\nvalue = "high"',
         "key 'figure.1.value'.*Received: 'high'"),
        ('source = "x"\n[[figure]]\nmethod = "a"\ntask = "MR"\nvalue = 1\nunit = 8',
         "unknown key 'figure.1.unit'. Did you mean 'units'"),
    ],
)  # fmt: skip
def test_a_broken_file_is_named(tmp_path, text, message):
    path = tmp_path / "figures.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_published(str(path))
