"""Tests of output on stderr when Keras is imported and used."""

from __future__ import annotations

import pytest

from relation_tf.errors import SuiteError
from relation_tf.quiet import check_backend_name
from tests.programs import python

pytestmark = pytest.mark.tensorflow

USE = "from relation_tf.layers import Relation; import keras; keras.ops.ones(1)"
KERAS = """
import os
os.write(2, b"a log message")
print(os.environ["TF_CPP_MIN_LOG_LEVEL"])
raise ModuleNotFoundError(name="tensorflow")
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Return a function that runs a program whose folder is empty; it sets no level of logs."""
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    return lambda program: python(program, tmp_path)


@pytest.mark.slow
def test_the_package_starts_tensorflow_without_log_messages(start):
    answer = start(USE)
    assert (answer.returncode, answer.stderr) == (0, "")


def test_keras_is_imported_without_log_messages(start, tmp_path):
    (tmp_path / "keras.py").write_text(KERAS, encoding="utf-8")
    answer = start("try:\n from relation_tf.layers import Relation\nexcept ImportError:\n pass")
    assert (answer.stdout, answer.stderr) == ("3\n", "")


def test_a_wrong_name_of_the_backend_is_one_line(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "pytorch")
    with pytest.raises(SuiteError, match="KERAS_BACKEND: must be one of tensorflow, jax"):
        check_backend_name()
