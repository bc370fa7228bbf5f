"""Reports need little memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from relation_tf import system
from tests.programs import COMMANDS, python

LIMIT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
limit = int(sys.argv.pop(1)) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
"""
NO_KERAS = "assert 'keras' not in sys.modules"

ENOUGH = 2900 + 16 * max(0, (os.cpu_count() or 1) - 2)  # MiB without TensorFlow; threads reserve


@pytest.mark.skipif(system.resource is None, reason="needs the module resource")
def test_reports_need_little_memory(scored_folder: Path) -> None:
    answer = python(
        LIMIT + COMMANDS + NO_KERAS, scored_folder, str(ENOUGH), "report runs", "compare scores.csv"
    )
    assert (answer.returncode, answer.stderr) == (0, "")
