"""Test that CHANGELOG names each change of the public API since the last release."""

from __future__ import annotations

import pytest

from tests import public_api
from tests.public_api import CHANGELOG, SNAPSHOT, read_snapshot, unexplained


def test_changes_since_the_last_release_are_in_the_changelog():
    before = read_snapshot(SNAPSHOT.read_text(encoding="utf-8"))
    lines = unexplained(before, public_api.snapshot(), CHANGELOG.read_text(encoding="utf-8"))
    assert not lines, "\n".join(["see docs/api-stability.md:", *lines])


BEFORE = {"a.f": "x, y=1)", "a.C": "x)", "a.C.m": "x)", "relation-tf run": "suite)"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"a.f": "x, y=2)"}, "f"),
        ({"a.f": None}, "f"),
        ({"a.g": "x)"}, "g"),
        ({"a.C.m": "x, n=1)"}, "C m"),
        ({"a.C": None, "a.C.m": None}, "C"),
        ({"relation-tf try-it": "suite)"}, "try_it"),
    ],
)
def test_each_change_needs_an_entry(changes, words):
    now = {name: text for name, text in (BEFORE | changes).items() if text is not None}

    def unreleased(*lines):
        return "\n".join(["# Changelog", "## Unreleased", "### Changed", *lines, "## 0.1.0", *now])

    assert len(unexplained(BEFORE, now, unreleased("- Something else."))) == 1
    assert unexplained(BEFORE, BEFORE, unreleased()) == []
    quoted = " and ".join(f"`{name}`" for name in words.replace("_", "-").split())
    assert not unexplained(BEFORE, now, unreleased("- Other.", f"- Change {quoted}", "  here."))
    if " " in words:  # in one entry
        assert unexplained(BEFORE, now, unreleased(*(f"- {name}" for name in words.split())))
