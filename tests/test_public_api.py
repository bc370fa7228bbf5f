"""Test that CHANGELOG names each change of the public API since the last release."""

from __future__ import annotations

import re

import pytest

from tests import public_api
from tests.public_api import CHANGELOG, ROOT, SNAPSHOT, entries, read_snapshot, unexplained

pytestmark = pytest.mark.slow  # until version 1.0 there is no stable API


def test_changes_since_the_last_release_are_in_the_changelog():
    before = read_snapshot(SNAPSHOT.read_text(encoding="utf-8"))
    lines = unexplained(before, public_api.snapshot(), CHANGELOG.read_text(encoding="utf-8"))
    assert not lines, "\n".join(["see docs/api-stability.md:", *lines])


def test_the_snapshot_is_read_as_it_is_written():
    text = SNAPSHOT.read_text(encoding="utf-8")
    assert re.match(r"# Public API of version \d+\.\d+\.\d+, ", text)
    kept = read_snapshot(text)
    for name in (
        "relation_tf.layers.Relation",
        "relation_tf.bench.run_suite",
        "relation_tf.bench.Results.scores",
        "relation_tf.registry.register_metric",
        "relation_tf.training.stopping.StoppingRule.update",
        "relation-tf run",
        "glue-submit pack",
        "run folder result.json",
    ):
        assert name in kept
    assert "jobs=None" in kept["relation_tf.bench.run_suite"]
    assert "patience=5" in kept["relation_tf.config.Suite"]
    assert not re.search(r"<|0x|/home|/tmp", text)


BEFORE = {
    "a.f": "x, y=1, *, z)",
    "a.C": "x)",
    "a.C.m": "x)",
    "a.C.p": "",
    "relation-tf run": "suite, *, out=None)",
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"a.f": "x, y=2, *, z)"}, "f y"),
        ({"a.f": "x, *, z)"}, "f y"),
        ({"a.f": "x, y=1, *, z, new_one=None)"}, "f new_one"),
        ({"a.f": "x, y=1, z=None)"}, "f z"),
        ({"a.f": "y, x, *, z)"}, "f y"),
        ({"a.f": None}, "f"),
        ({"a.g": "x)"}, "g"),
        ({"a.C.m": "x, n=1)"}, "C m n"),
        ({"a.C.q": "x)"}, "C q"),
        ({"a.C.p": None}, "C p"),
        ({"a.C": None, "a.C.m": None, "a.C.p": None}, "C"),
        ({"a.D": ")", "a.D.m": "x)"}, "D"),
        ({"relation-tf run": "suite, *, out=None, dry_run=False)"}, "run dry_run"),
        ({"relation-tf try-it": "suite)"}, "try_it"),
    ],
)
def test_each_change_needs_an_entry(changes, words):
    now = {name: text for name, text in (BEFORE | changes).items() if text is not None}
    names = words.split()

    def unreleased(*lines):
        return "\n".join(["# Changelog", "## Unreleased", "### Changed", *lines, "## 0.1.0", *now])

    (line,) = unexplained(BEFORE, now, unreleased("- Something else."))
    assert line.endswith(f"no entry names {', '.join(sorted(names))}")
    quoted = [f"`{name}`" for name in names]
    assert not unexplained(BEFORE, now, unreleased(f"- Change {' and '.join(quoted)}."))
    option = f"--{names[-1].replace('_', '-')}"
    said = " ".join([*names[:-1], option])
    assert not unexplained(BEFORE, now, unreleased("- Other.", f"- {said}", "  more text."))
    if len(names) > 1:  # in one entry
        assert unexplained(BEFORE, now, unreleased(*(f"- {name}" for name in names)))
    assert unexplained(BEFORE, now, unreleased(f"- {words}".replace(names[0], "another")))
    assert not unexplained(BEFORE, now, unreleased(f"- {words}".replace("_", "-")))


def test_no_change_needs_no_entry():
    assert unexplained(BEFORE, BEFORE, "## Unreleased\n") == []


def test_entries_are_those_of_the_unreleased_section():
    text = "## Unreleased\n\n### Added\n\n- A\n  b\n- C\n\n### Changed\n\n- D\n\n## 0.1.0\n\n- E\n"
    assert [entry.split() for entry in entries(text)] == [["-", "A", "b"], ["-", "C"], ["-", "D"]]


def test_the_page_says_how_to_update_the_file():
    page = (ROOT / "docs" / "api-stability.md").read_text(encoding="utf-8")
    assert "python tests/public_api.py" in page
    assert SNAPSHOT.relative_to(ROOT).as_posix() in page
