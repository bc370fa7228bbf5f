"""Plugins: where they are looked for, what is refused, and what their digest is of."""

from __future__ import annotations

import sys

import pytest

from relation_tf.config import load_suite
from relation_tf.config.suite import make_suite
from relation_tf.config.user_code import load_plugins, plugins_digest, shaping_plugins
from relation_tf.errors import SuiteError
from relation_tf.registry import EXECUTORS, METRICS, Registry

SUITE = 'name = "x"\ntasks = ["RTE"]\nplugins = ["{}"]\n[[method]]\nmechanism = "relation"\n'


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch, tmp_path):
    """Forget the modules and the path that a test adds."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        if name.startswith("plug_"):
            del sys.modules[name]


def test_a_suite_imports_its_plugins_before_it_is_checked(tmp_path):
    folder = tmp_path / "suites"
    folder.mkdir()
    (folder / "plug_metric.py").write_text(
        "from relation_tf.registry import register_metric\n"
        "@register_metric('plug_hits')\n"
        "def hits(predictions, labels):\n    return 0.0\n"
    )
    path = folder / "x.toml"
    path.write_text(SUITE.format("plug_metric"))
    with pytest.raises(SuiteError, match=r"If you trust it, add --plugin plug_metric$"):
        load_suite(path, import_plugins=False)
    assert "plug_hits" not in METRICS
    suite = load_suite(path)
    assert METRICS.remove("plug_hits").label == "plug_hits"
    assert [run.plugins for run in suite.runs()][:1] == [["plug_metric"]]
    assert load_suite(suite, {"epochs": 2}).plugins == ["plug_metric"]


@pytest.mark.parametrize(
    ("source", "module", "message"),
    [
        (None, "plug_none", "no such module. "),
        ("", "plug_broken.inner", "no such module. "),
        ("import plug_absent", "plug_broken", "ModuleNotFoundError: No module named 'plug_abs"),
        ("raise RuntimeError('a\\nb')", "plug_broken", "RuntimeError: a b"),
        (None, "", "ValueError: Empty module name"),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_named(tmp_path, source, module, message):
    if source is not None:
        (tmp_path / "plug_broken.py").write_text(source)
    with pytest.raises(SuiteError) as caught:
        make_suite("here", {"plugins": [module]})
    error = str(caught.value)
    assert error.startswith(f"here: plugin {module!r} cannot be imported: {message}")
    assert "\n" not in error


def test_the_module_that_registers_a_part_owns_its_name(tmp_path):
    """Not the module in which the part is defined."""
    source = (
        "import functools\nfrom relation_tf.registry import register_metric\n"
        "register_metric('plug_zero')(functools.partial(lambda p, l: 0.0))\n"
    )
    (tmp_path / "plug_c.py").write_text(source)
    (tmp_path / "plug_d.py").write_text(source)
    load_plugins(["plug_c"])
    assert METRICS.origin("plug_zero") == "plug_c"
    with pytest.raises(SuiteError, match="'plug_zero' is registered already, by plug_c"):
        load_plugins(["plug_d"])
    METRICS.remove("plug_zero")


def test_a_package_whose_inner_module_registers_a_metric_can_change_runs(tmp_path):
    package = tmp_path / "plug_lab"
    package.mkdir()
    executor = "from relation_tf.registry import register_executor as r\nr({0!r})(print)\n"
    metric = "from relation_tf.registry import register_metric\nregister_metric('plug_inner')(max)"
    (package / "__init__.py").write_text(executor.format("plug_outer") + "import plug_lab.inner\n")
    (package / "inner.py").write_text(metric)
    (tmp_path / "plug_execute.py").write_text(executor.format("plug_execute"))
    (tmp_path / "plug_nothing.py").write_text("")
    names = ["plug_lab", "plug_execute", "plug_nothing"]
    load_plugins(names)
    assert shaping_plugins(names) == ["plug_lab", "plug_nothing"]
    METRICS.remove("plug_inner")
    for name in ("plug_outer", "plug_execute"):
        EXECUTORS.remove(name)


@pytest.mark.parametrize("name", ["a,b", "a/b", "a\\b", "", "a\n"])
def test_names_that_cannot_name_files_are_refused(name):
    with pytest.raises(SuiteError, match=r"color: a name must be printable text without , / "):
        Registry("color").add(name, 1)


@pytest.mark.parametrize("name", ["random", "pandas"])
def test_a_file_with_the_name_of_another_module_is_not_ignored(tmp_path, name):
    (tmp_path / f"{name}.py").write_text("")
    with pytest.raises(SuiteError, match=f"plugin '{name}': .* is not used, because .* same name"):
        load_plugins([name])


def test_the_digest_is_of_all_source_of_a_module_or_package(tmp_path):
    (tmp_path / "plug_one.py").write_text("import json\nimport plug_shared")
    (tmp_path / "plug_shared.py").write_text("import relation_tf")
    package = tmp_path / "plug_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    names = ["plug_one", "plug_package"]
    load_plugins(names)
    first = plugins_digest(names)
    assert first == plugins_digest(names[::-1]) != plugins_digest(names[:1])
    (package / "inner.py").write_text("b = 2")
    assert plugins_digest(names) not in (first, plugins_digest(["sys", *names[:1]]))
    (tmp_path / "plug_other.py").write_text("d = 4")
    (package / "inner.py").unlink()
    assert plugins_digest(names) == first
    (tmp_path / "plug_shared.py").write_text("c = 3")  # what a plugin imports
    assert plugins_digest(names) != first
    assert plugins_digest([]) is None
