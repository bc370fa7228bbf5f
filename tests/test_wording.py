"""The check of wording finds what it lists, and nothing in code."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
_spec = importlib.util.spec_from_file_location("wording", ROOT / "docs" / "wording.py")
wording = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(wording)

BEFORE = """
The layer is trained beside attention.  A layer of one's own goes on where it was.
No two of them can be separated, and a report is made anew: it was not at hand.
Runs of a task are asked for by themselves, in place of others, for ever.
"""


def test_each_listed_word_is_found_with_its_line():
    assert [(found.line, found.words) for found in sorted(wording.check_text(BEFORE))] == [
        (1, "beside"), (1, "goes on"), (1, "of one's own"),
        (2, "anew"), (2, "at hand"), (2, "be separated"),
        (3, "asked for"), (3, "by themselves"), (3, "for ever"), (3, "in place of"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "Train the layer next to attention.",
        "`beside` is code, and so is\n```sh\nrelation-tf run anew\n```\n",
        "a [link](beside.md), a comma-separated list, a separate process",
        "Besides, goes online, the hand",
    ],
)
def test_other_words_and_code_pass(text):
    assert [*wording.check_text(text)] == []


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ('"""What a layer does."""', 1, "What"),
        ('def f():\n    """Whether it holds."""', 2, "Whether"),
        ('class A:\n    x = 1\n    """Of matrices."""', 3, "Of"),
        ("x = 1  # as told", 1, "told"),
        ('def f(x):\n    raise ValueError(f"{x} is not at hand")', 2, "at hand"),
        ("def test_it_goes_on():\n    pass", 1, "goes on"),
        ('x = """a\nphrase in place\nof another"""', 2, "in place of"),
    ],
)
def test_python_is_searched_where_people_read(source, line, words):
    (found,) = wording.check_python(source, is_test=True)
    assert (found.line, found.words) == (line, words)


def test_names_and_keys_are_not_text():
    assert [*wording.check_python('"""Return one."""\nbeside = {"told": 1}\n')] == []


def test_the_program_names_file_line_and_replacement(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("# A page\n\nThe scores are made anew.\n")
    assert wording.main([str(page)]) == 1
    assert capsys.readouterr().out.startswith(f"{page}:3: 'anew': write again")
    page.write_text("# A page\n\nThe scores are made again.\n")
    assert wording.main([str(page)]) == 0
