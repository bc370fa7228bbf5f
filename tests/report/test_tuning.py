"""Section with the sweep before the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from relation_tf.config.loading import make_suite
from relation_tf.config.sweep import Tuned
from relation_tf.report import make_report
from relation_tf.report.blocks import Block, Figure, Paragraph, Table
from relation_tf.report.pictures.drawing import styles
from relation_tf.report.runs import differing_settings
from relation_tf.report.sections.tuning import Tuning

SWEEP = {"dropout": [0.0, 0.5], "learning_rate": [0.001, 0.01, 0.1], "seeds": [11]}


def shown(
    folder: Path,
    sweep: Mapping[str, Any] = SWEEP,
    aliases: Mapping[str, str] = MappingProxyType({}),
    scores: Sequence[float] = (0.0, 0.1, 0.2, 0.3, 0.4),
    chosen: int = -2,
) -> list[Block]:
    """Return the section of a sweep of two keys, with 0.5 and 0.01 chosen and one failed run."""
    suite = make_suite("small", {
        "name": "small", "source": "miniglue", "tasks": ["CoLA"], "seeds": [1], "sweep": {**sweep},
        "method": [{"name": name, "mechanism": "relation"}
                   for name in ("mine", "without-runs")],
    })  # fmt: skip
    assert suite.sweep is not None
    settings = [*suite.sweep.combinations()]
    own = {"task": "CoLA", "method": "mine", "seed": 11}
    scored = zip(settings, scores, strict=False)
    rows = [own | each | {"score": score} for each, score in scored][: len(settings) - 1]
    rows += [{**row, "method": "without-runs"} for row in rows]
    (folder / "sweep").mkdir()
    pd.DataFrame(rows).to_csv(folder / "sweep" / "sweep.csv", index=False)
    tuned = [Tuned(task="CoLA", method=aliases.get("mine", "mine"), settings=settings[chosen])]
    suite = suite.model_copy(update={"tuned": tuned})
    results: Any = SimpleNamespace(suite=suite, folder=folder, parts=(), aliases=aliases)
    context: Any = SimpleNamespace(results=results, styles=styles([aliases.get("mine", "mine")]))
    return [*Tuning().blocks(context)]


def test_the_key_with_the_most_values_has_columns_and_other_settings_have_rows(tmp_path):
    _, _, table, _ = shown(tmp_path)
    assert isinstance(table, Table)
    columns, rows = table.flat()
    assert [column.heading for column in columns] == [
        "Task", "Method", "dropout", "learning_rate 0.001", "learning_rate 0.01",
        "learning_rate 0.1",
    ]  # fmt: skip
    assert [[cell.text for cell in row] for row in rows] == [
        ["CoLA", "mine", "0.0", "0.0", "10.0", "20.0"],
        ["CoLA", "mine", "0.5", "30.0", "40.0", ""],
    ]
    assert [cell.text for row in rows for cell in row if cell.bold] == ["40.0"]


def test_the_figure_has_the_best_of_the_other_settings_at_each_value(tmp_path):
    """A learning rate of 0.1 has only the run without dropout: the other one failed."""
    _, figure, _, note = shown(tmp_path)
    assert isinstance(figure, Figure)
    (panel,) = figure.picture.panels
    assert panel.alt == (
        "CoLA, validation score by learning_rate: mine 30 at 0.001, 40 at 0.01, 20 at 0.1."
    )
    assert isinstance(note, Paragraph)
    assert "Figure: the best of the other settings at each value." in "".join(note.text)


def test_options_of_layers_have_a_figure_and_columns(tmp_path):
    sweep = {"units": [4, 8], "options": {"num_heads": [1, 2, 4]}, "seeds": [11]}
    _, figure, table, _ = shown(tmp_path, sweep)
    assert isinstance(figure, Figure)
    (panel,) = figure.picture.panels
    assert "validation score by options.num_heads: mine 30 at 1, 40 at 2" in panel.alt
    assert isinstance(table, Table)
    columns, ((*_, chosen, _), *_) = table.flat()[0], table.flat()[1][1:]
    assert [column.heading for column in columns[2:4]] == ["units", "options.num_heads 1"]
    assert (chosen.text, chosen.bold) == ("40.0", True)


def test_two_values_have_no_figure(tmp_path):
    _, table, note = shown(tmp_path, {**SWEEP, "learning_rate": [0.001, 0.01]})
    assert isinstance(table, Table)
    assert isinstance(note, Paragraph)
    assert "Figure" not in "".join(note.text)


@pytest.mark.parametrize(
    ("scores", "chosen", "noted"),
    [
        ((0.5, 0.1, 0.1, 0.1, 0.1), 0, True),
        ((0.5, 0.1, 0.5, 0.1, 0.1), 0, True),
        ((0.5, 0.5, 0.1, 0.1, 0.1), 0, False),
        ((0.5, 0.5, 0.1, 0.1, 0.1), 1, False),
    ],
)
def test_the_note_on_ends_needs_a_better_score_than_inside(tmp_path, scores, chosen, noted):
    *_, note = shown(tmp_path, scores=scores, chosen=chosen)
    assert isinstance(note, Paragraph)
    assert ("values outside the range can be better" in "".join(note.text)) == noted


def test_renamed_methods_keep_their_sweep(tmp_path):
    _, figure, table, _ = shown(tmp_path, aliases={"mine": "mine (before)"})
    assert isinstance(figure, Figure)
    assert "mine (before) 30 at 0.001" in figure.picture.panels[0].alt
    assert isinstance(table, Table)
    assert {row[1].text for row in table.flat()[1]} == {"mine (before)"}


@pytest.mark.parametrize(
    ("key", "chosen", "shown"),
    [
        ("dropout", (0.0, 0.5), ("0.0", "0.5")),
        ("initializer", ("zeros", {"class_name": "GlorotNormal", "config": {}}),
         ("zeros", "{'class_name': 'GlorotNormal', 'config': {}}")),
    ],
)  # fmt: skip
def test_all_tuned_settings_of_the_methods_are_listed(key, chosen, shown):
    names = ("relation", "baseline")
    suite = make_suite("small", {
        "name": "small", "source": "miniglue", "tasks": ["CoLA"], "seeds": [1],
        "method": [{"name": name, "mechanism": name, "units": 8} for name in names],
        "tuned": [
            {"task": "CoLA", "method": name, "settings": {key: value}}
            for name, value in zip(names, chosen, strict=True)
        ],
    })  # fmt: skip
    results: Any = SimpleNamespace(suite=suite, requested=suite.runs())
    assert differing_settings(results) == {
        name: {key: text} for name, text in zip(names, shown, strict=True)
    }


def test_doubtful_sweeps_are_on_the_first_screen(suite_of, fabricate):
    """A sentence on the reference, and one on the other methods."""
    rates = [0.001, 0.01, 0.1]
    curves = {"attention": [70, 60, 50], "linear": [60, 60, 60], "relation": [50, 60, 70],
              "baseline": [50, 60, 50]}  # fmt: skip
    tuned = [
        {"task": task, "method": name, "settings": {"learning_rate": rates[own.index(max(own))]}}
        for task in ("CoLA", "MRPC")
        for name, own in curves.items()
    ]
    suite = suite_of(sweep={"learning_rate": rates, "seeds": [11]}, tuned=tuned,
                     reference="attention", margin=1.0)  # fmt: skip
    folder = fabricate(suite, lambda config, *_: 0.5 + config.seed / 100)
    rows = [
        (task, name, rate, 11, score / 100)
        for task in suite.tasks
        for name, own in curves.items()
        for rate, score in zip(rates, own, strict=True)
    ]
    (folder / "sweep").mkdir()
    columns = ["task", "method", "learning_rate", "seed", "score"]
    pd.DataFrame(rows, columns=columns).to_csv(folder / "sweep" / "sweep.csv", index=False)
    report = make_report(folder)
    assert [each for each in report.context.caveats if "sweep" in each] == [
        "The sweep with one seed may not have found the best setting of the reference attention: "
        "learning_rate 0.001 is the smallest value, and smaller ones can be better (on CoLA and "
        "MRPC). Add values to the sweep: a better setting can change the verdicts.",
        "The sweep may not have found the best settings of linear on CoLA and MRPC; relation on "
        "CoLA and MRPC: all values have the same score or the chosen value is the smallest or "
        "largest one.",
    ]
    frame = pd.DataFrame(rows, columns=columns)
    frame.loc[(frame["method"] == "linear") & (frame["learning_rate"] == 0.1), "score"] = 0.9
    frame.to_csv(folder / "sweep" / "sweep.csv", index=False)
    assert (
        "Finished runs of linear on CoLA and linear on MRPC have the settings that a smaller sweep "
        "chose; others are now better. To use them, choose another --out."
    ) in make_report(folder).context.caveats
    opened = report.html().partition("<nav")[0]
    assert "best setting of the reference attention" in opened
