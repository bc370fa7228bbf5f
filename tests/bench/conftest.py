from __future__ import annotations

import pytest

from relation_tf.tasks import miniglue


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """Keep the encoded text of tests out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELATION_TF_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def small_glue(tmp_path_factory):
    """A folder in the official layout with few rows."""
    folder = tmp_path_factory.mktemp("glue_data")
    miniglue.write(folder, seed=3, train_rows=60, dev_rows=20, test_rows=8)
    return folder


@pytest.fixture
def network(small_glue, suite):
    """Make the compiled network of the first run of a task."""
    from relation_tf.bench.training import CompiledNetwork
    from relation_tf.tasks import load_task

    def make(name="CoLA", **changes):
        config = suite(tasks=[name], **changes).runs()[0]
        return CompiledNetwork(config, load_task(name, data=small_glue)), config

    return make
