"""Tests of output on stderr when Keras is imported and used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from relation_tf.errors import SuiteError
from relation_tf.quiet import check_backend_name

pytestmark = pytest.mark.tensorflow

USE = "from relation_tf.layers import Relation; import keras; keras.ops.ones(1)"


def test_the_package_starts_tensorflow_without_log_messages():
    environment = {key: value for key, value in os.environ.items() if "LOG_LEVEL" not in key}
    answer = subprocess.run(
        [sys.executable, "-c", USE],
        env={**environment, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stderr == ""


def test_a_wrong_name_of_the_backend_is_one_line(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "pytorch")
    with pytest.raises(SuiteError, match="KERAS_BACKEND: must be one of tensorflow, jax"):
        check_backend_name()
