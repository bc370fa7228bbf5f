"""Options of a run: what they allow, and how functions take them."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from relation_tf.bench import plan_suite, run_suite
from relation_tf.bench.options import RunOptions
from relation_tf.errors import SuiteError


def test_options_that_are_refused():
    with pytest.raises(SuiteError) as error:
        RunOptions(jobs=0)
    assert str(error.value) == "jobs: must be 1 or more. Received: 0"


def test_options_are_converted():
    options = RunOptions(data="~/a", plugins="one")
    assert options.data == Path.home() / "a"
    assert options.plugins == ("one",)


@pytest.mark.parametrize("function", [run_suite, plan_suite])
def test_functions_show_their_options(function):
    assert inspect.signature(function).parameters["jobs"].default is None
    with pytest.raises(TypeError, match=r"unknown option 'job'\. Did you mean 'jobs'"):
        function("demo", job=2)
    with pytest.raises(TypeError, match="unknown option 'only_methods'"):
        function("demo", only_methods=["relation-64"])
