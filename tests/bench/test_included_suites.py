"""The networks of the included suites."""

from __future__ import annotations

from pathlib import Path

import pytest

from relation_tf.bench.groups import check_methods
from relation_tf.config import list_suites, load_suite


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("name", list_suites())
def test_each_network_can_be_built(name: str, tmp_path: Path) -> None:
    check_methods(load_suite(name).runs(), tmp_path)
