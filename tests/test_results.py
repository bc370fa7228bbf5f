"""Tests that the committed comparison of results with the papers is up to date."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from relation_tf.config import load_suite

RESULTS = Path(__file__).resolve().parents[1] / "results"
_spec = importlib.util.spec_from_file_location("reproduced", RESULTS / "reproduced.py")
reproduced = importlib.util.module_from_spec(_spec)
sys.modules["reproduced"] = reproduced  # dataclasses look their module up
_spec.loader.exec_module(reproduced)


def test_committed_table_equals_the_command_output():
    page = (RESULTS / "README.md").read_text(encoding="utf-8")
    assert reproduced.insert(page, reproduced.summarize()) == page


def test_committed_figures_equal_the_command_output():
    assert (RESULTS / "published.csv").read_text(encoding="utf-8") == reproduced.details()
    assert all((RESULTS / study.readme).is_file() for study in reproduced.STUDIES)


def test_every_result_of_a_paper_names_its_table_and_is_compared():
    suites = {
        path.parent.relative_to(RESULTS).as_posix(): path for path in RESULTS.rglob("suite.toml")
    }
    papers = {name for name, path in suites.items() if "paper" in path.read_text("utf-8")}
    named = {name for name, path in suites.items() if load_suite(path).published}
    # They ask a question of a paper, with networks or training that it does not have.
    others = {
        "relation/depth", "contextualizer/table2-training", "contextualizer/table3-starts",
        "relation/table2-wikitext-2",
    }  # fmt: skip
    assert papers - named == others
    parts = {f"relation/table2-running-{name}" for name in ("rest", "linear")}  # of few seeds
    assert named - parts == {study.folder for study in reproduced.STUDIES}


def test_a_known_figure():
    study = next(each for each in reproduced.STUDIES if each.folder == "relation/table2-running")
    found = reproduced.compared(study).set_index(["task", "metric", "method"])
    row = found.loc[("IMDb", "seconds", "attention-64")]
    assert row["published"] == 316.0
    assert row["difference"] == pytest.approx(166.769 - 316, abs=1e-3)
    assert not row["within_2_sd"]


@pytest.mark.parametrize("page", ["", "<!-- end -->", reproduced.BEGIN + "\n"])
def test_a_page_without_markers_is_refused(page):
    with pytest.raises(ValueError, match="one table between"):
        reproduced.insert(page, "table")


def test_no_page_names_a_folder_of_a_machine():
    pages = [path for path in RESULTS.rglob("*") if path.suffix in (".md", ".csv", ".toml")]
    assert pages
    found = re.compile(r"(?<![\w.])/(tmp|home|root|Users)/")
    assert not [str(path) for path in pages if found.search(path.read_text("utf-8"))]
