from __future__ import annotations

from importlib import resources

import pytest

from relation_tf.config import list_suites, load_suite
from relation_tf.config.published import load_published

FILES = sorted(
    file.name.removesuffix(".toml")
    for file in (resources.files("relation_tf.suites") / "published").iterdir()
)


@pytest.mark.parametrize("name", FILES)
def test_every_file_names_its_paper_and_what_is_missing(name):
    published = load_published(name)
    assert published.source
    assert published.missing or published.figure


def test_every_suite_of_a_paper_has_its_figures():
    named = {name: load_suite(name).published for name in list_suites()}
    assert {name for name, file in named.items() if file is None} == {
        "decode",
        "deep-glue",
        "demo",
        "sequences",
    }
    assert {*named.values()} - {None} == {*FILES}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source = ", "not TOML"),
        ('split = "test"', "key 'source'"),
        ('source = "x"\n[[figure]]\nmethod = "a"\ntask = "MR"\nvalue = "high"',
         "key 'figure.1.value'.*Received: 'high'"),
    ],
)  # fmt: skip
def test_a_broken_file_is_named(tmp_path, text, message):
    path = tmp_path / "figures.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_published(str(path))
