"""The networks of the included suites."""

from __future__ import annotations

import pytest

from relation_tf.bench.options import RunOptions
from relation_tf.bench.runner import build_methods
from relation_tf.config import list_suites, load_suite


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("name", list_suites())
def test_each_network_can_be_built(name: str) -> None:
    build_methods(load_suite(name).runs(), RunOptions())
