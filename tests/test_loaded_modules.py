"""Modules that are edited after their import."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from relation_tf.config.plugins import load_plugins, plugins_digest
from relation_tf.errors import SuiteError
from relation_tf.loaded_modules import check_unedited
from relation_tf.networks.mechanisms import load

EDITED = "has changed since it was imported. Restart Python"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a module that Python can import."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "edited_after_import.py"
    path.write_text("value = 1\n")
    monkeypatch.delitem(sys.modules, path.stem, raising=False)
    return path


def test_a_layer_of_an_edited_module_is_refused(module: Path) -> None:
    assert load(f"{module.stem}:value") == 1
    assert load(f"{module.stem}:value") == 1
    module.write_text("value = 2\n")
    with pytest.raises(SuiteError, match=EDITED):
        load(f"{module.stem}:value")
    importlib.reload(sys.modules[module.stem])
    assert load(f"{module.stem}:value") == 2


def test_a_layer_that_another_module_exports_is_refused(module: Path) -> None:
    module.write_text("class Layer:\n    value = 1\n")
    exporting = module.with_name("exports_a_layer.py")
    exporting.write_text(f"from {module.stem} import Layer\n")
    load(f"{exporting.stem}:Layer")
    module.write_text("class Layer:\n    value = 2\n")
    with pytest.raises(SuiteError, match=EDITED):
        load(f"{exporting.stem}:Layer")
    del sys.modules[exporting.stem]


def test_an_edited_plugin_is_refused(module: Path) -> None:
    load_plugins([module.stem])
    module.write_text("value = 2\n")
    load_plugins([module.stem])  # it may contain only trackers, which change no run
    with pytest.raises(SuiteError, match=EDITED):
        plugins_digest([module.stem])


def test_an_edited_module_that_a_plugin_imports_is_refused(module: Path) -> None:
    plugin = module.with_name("imports_an_edited_module.py")
    plugin.write_text(f"import {module.stem}\n")
    load_plugins([plugin.stem])
    plugins_digest([plugin.stem])
    module.write_text("value = 2\n")
    with pytest.raises(SuiteError, match=EDITED):
        plugins_digest([plugin.stem])
    del sys.modules[plugin.stem]


@pytest.mark.parametrize("name", ["sys", "no_such_module", "__main__"])
def test_modules_without_a_file_are_not_checked(name: str) -> None:
    check_unedited(name)
    check_unedited(name)
