from __future__ import annotations

import pytest

from relation_tf.tasks import miniglue


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    """Use a temporary cache instead of the user's cache."""
    monkeypatch.setenv("RELATION_TF_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def _built_in_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("built-in")


@pytest.fixture
def built_in(monkeypatch, _built_in_cache):
    """Write the built-in data, which have about 430,000 rows, once for all tests."""
    monkeypatch.setenv("RELATION_TF_CACHE", str(_built_in_cache))


@pytest.fixture(scope="session")
def small_glue(tmp_path_factory):
    """Return a GLUE folder in the official layout with few rows."""
    folder = tmp_path_factory.mktemp("glue_data")
    miniglue.write(folder, seed=3, train_rows=40, dev_rows=12, test_rows=8)
    return folder
