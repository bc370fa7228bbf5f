from __future__ import annotations

import pytest

from relation_tf.tasks import miniglue


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    """Use a temporary cache instead of the user's cache."""
    monkeypatch.setenv("RELATION_TF_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def small_glue(tmp_path_factory):
    """Return a GLUE folder in the official layout with few rows."""
    folder = tmp_path_factory.mktemp("glue_data")
    miniglue.write(folder, seed=3, train_rows=40, dev_rows=12, test_rows=8)
    return folder
