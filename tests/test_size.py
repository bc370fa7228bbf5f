"""Tests of the count of code lines and of tests that assert prose."""

from __future__ import annotations

from tests.size import code_lines, prose_tests

MODULE = '''"""A module."""

def test_prose():
    """A docstring."""
    assert f"{first} is better than {second}" in (  # a comment
        page
    )

def test_values():
    assert better == ["a", "b"], "a message of a failed test"

def test_error():
    assert str(error.value) == "a message of five words"
'''


def test_size_of_a_module():
    assert code_lines(MODULE) == 8
    assert prose_tests(MODULE) == ["test_prose"]
