from __future__ import annotations

import importlib
import sys
import textwrap

import pytest

from relation_tf.config.user_code import layer_digest

MODULE = """
import math

SCALE = 2.0
OTHER = 3.0


def squash(x):
    return bound(x) / SCALE


def bound(x):
    return math.tanh(x)


def registered(layer):
    return layer


@registered
class Own:
    def call(self, x):
        return squash(x)


class Another:
    value = OTHER


Made = registered(Another)

CONFIG = {"scale": 1, "kept": [1]}
UNRELATED = {}
CONFIG["scale"] = 3
UNRELATED["other"] = 7
CONFIG["kept"].append(5)
UNRELATED.update(more=9)
math.floor(1.5)

try:
    import missing
except ImportError:
    def fallback(x):
        return 11 * x


class Configured:
    scale = CONFIG["scale"]

    def call(self, x):
        return fallback(x) + math.tanh(x)


if math.pi > 3:
    Configured.rate = 13
"""


@pytest.fixture
def digest(tmp_path, monkeypatch):
    """Digest a layer of a module, with one piece of it replaced by another."""
    monkeypatch.syspath_prepend(tmp_path)

    def of(name="Own", old="", new="", module=MODULE):
        assert old in module
        changed = module.replace(old, new) if old else module
        file = f"own_{len([*tmp_path.glob('*.py')])}"
        (tmp_path / f"{file}.py").write_text(textwrap.dedent(changed), encoding="utf-8")
        importlib.invalidate_caches()
        found = layer_digest(f"{file}:{name}")
        del sys.modules[file]
        return found

    return of


@pytest.mark.parametrize(
    ("name", "old", "new", "counts"),
    [
        ("Own", "return squash(x)", "return -squash(x)", True),
        ("Own", "bound(x) / SCALE", "bound(x) * SCALE", True),
        ("Own", "SCALE = 2.0", "SCALE = 2.5", True),
        ("Own", "math.tanh(x)", "math.sinh(x)", True),
        ("Own", "    return layer\n", "    layer.traced = True\n    return layer\n", True),
        ("Own", "OTHER = 3.0", "OTHER = 4.0", False),
        ("Own", "class Another:", "# A comment.\nclass Another:", False),
        # Statements that change a name.
        ("Configured", "11 * x", "12 * x", True),
        ("Configured", "rate = 13", "rate = 14", True),
        ("Configured", "append(5)", "append(6)", True),
        ("Configured", "update(more=9)", "update(more=8)", False),
        ("Configured", "floor(1.5)", "floor(2.5)", False),
        ("Configured", '["other"] = 7', '["other"] = 8', False),
        ("Configured", "value = OTHER", "value = SCALE", False),
    ],
)
def test_digest_includes_names_used_by_a_layer(digest, name, old, new, counts):
    assert (digest(name, old, new) != digest(name)) == counts


def test_a_class_under_another_name_is_that_class(digest):
    assert digest("Made") == digest("Another")
    assert digest("Made", "OTHER = 3.0", "OTHER = 4.0") != digest("Made")


def test_the_digest_of_an_object_covers_its_statement(digest):
    module = "from functools import partial\nSIZE = 2\nMade = partial(dict, size=SIZE)\n"
    found = digest("Made", module=module)
    assert found is not None
    assert digest("Made", "SIZE = 2", "SIZE = 3", module=module) != found


def test_a_class_without_a_file_has_no_digest(monkeypatch):
    namespace = {"__name__": "typed"}
    exec("class Own:\n    pass\n", namespace)
    module = type(sys)("typed")
    module.Own = namespace["Own"]
    monkeypatch.setitem(sys.modules, "typed", module)
    assert layer_digest("typed:Own") is None
