"""Tests of the sdist and the wheel: they are complete and work without the checkout."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import relation_tf

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("relation_tf", "glue_submit")
SMOKE = """
import glue_submit
import relation_tf
from importlib.util import find_spec
from relation_tf.config import list_suites, load_suite
from relation_tf.report import compare

assert not any(map(find_spec, ("tensorflow", "tensorflow_datasets", "pyarrow", "jax", "torch")))
assert "relation_tf" in relation_tf.__file__ and "site" in relation_tf.__file__, relation_tf
for name in list_suites():
    load_suite(name)
assert len(list_suites()) >= 14
compare("scores.csv").write("report")
"""
LAYER = """
import numpy as np
from relation_tf.layers import Relation

assert Relation(4)(np.ones((2, 3, 5), "float32")).shape == (2, 3, 4)
"""
SCORES = "task,method,seed,score\n" + "".join(
    f"MR,{method},{seed},{level + seed / 1000}\n"
    for method, level in (("CNN", 0.7), ("GRU", 0.8))
    for seed in range(5)
)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """Build the sdist and the wheel from a copy of the checkout."""
    folder = tmp_path_factory.mktemp("release")
    checkout = folder / "checkout"
    # What git does not keep is not released: environments, runs, what a build has left.
    left = ".git", ".venv*", ".hypothesis", ".*_cache", "runs", "build", "dist", "site"
    ignored = shutil.ignore_patterns(*left, "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, checkout, ignore=ignored)
    pytest.importorskip("build", reason="pip install '.[test]' brings what builds a release")
    made = folder / "made"
    command = [sys.executable, "-m", "build", "--quiet", "--outdir", str(made), str(checkout)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (sdist,), (wheel,) = made.glob("*.tar.gz"), made.glob("*.whl")
    return sdist, wheel


def setup_cfg(section, key):
    """Return the lines of a list in setup.cfg."""
    parsed = configparser.ConfigParser()
    parsed.read(ROOT / "setup.cfg", encoding="utf-8")
    return [line for line in parsed[section][key].splitlines() if line and line[0] != "#"]


def load(name):
    yaml = pytest.importorskip("yaml", reason="a dependency of other packages brings PyYAML")
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_citation_is_that_of_this_version():
    """Required keys and types of the Citation File Format 1.2.0."""
    cited = load("CITATION.cff")
    assert cited["cff-version"] == "1.2.0"
    assert str(cited["version"]) == relation_tf.__version__
    assert {"title", "message", "authors"} <= cited.keys()
    assert cited["type"] == "software"
    assert [cited["license"]] == setup_cfg("metadata", "license")
    assert [each["name"] for each in cited["authors"]] == setup_cfg("metadata", "author")
    for work in cited["references"]:
        assert {"type", "title", "authors"} <= work.keys()


# Packages that conda-forge names differently.
OF_CONDA = {"matplotlib": "matplotlib-base"}


def in_conda(lines):
    """Return requirements of setup.cfg in the form of a recipe."""
    found = [re.fullmatch(r"([\w-]+)(>=[\d.]+)", line) for line in lines]
    return [f"{OF_CONDA.get(each[1], each[1])} {each[2]}" for each in found]


def test_the_conda_recipe_has_the_requirements_of_setup_cfg():
    recipe = load("conda/recipe.yaml")
    assert str(recipe["context"]["version"]) == relation_tf.__version__
    python, *run = recipe["requirements"]["run"]
    assert run == in_conda(setup_cfg("options", "install_requires"))
    optional = in_conda(setup_cfg("options.extras_require", "tensorflow"))
    assert recipe["requirements"]["run_constraints"] == optional
    least = recipe["context"]["python_min"]
    assert python.replace("${{ python_min }}", least) == f"python >={least}"
    assert setup_cfg("options", "python_requires") == [f">={least}"]
    scripts = setup_cfg("options.entry_points", "console_scripts")
    assert recipe["build"]["python"]["entry_points"] == scripts
    assert [recipe["about"]["summary"]] == setup_cfg("metadata", "description")
    assert [recipe["about"]["license"]] == setup_cfg("metadata", "license")


def of_the_packages(names):
    return {name for name in names if name.startswith(tuple(f"{p}/" for p in PACKAGES))}


@pytest.mark.slow
def test_all_files_are_released(released):
    sdist, wheel = released
    files = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "relation_tf/py.typed" in files
    with zipfile.ZipFile(wheel) as archive:
        assert of_the_packages(archive.namelist()) == files
    with tarfile.open(sdist) as archive:
        members = [member.name.partition("/")[2] for member in archive if member.isfile()]
        assert of_the_packages(members) == files
    assert wheel.name == f"relation_tf-{relation_tf.__version__}-py3-none-any.whl"


@pytest.mark.slow
def test_the_metadata_can_be_uploaded(released):
    pytest.importorskip("twine", reason="pip install '.[release]' brings twine")
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, released)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.slow
@pytest.mark.tensorflow
def test_it_works_where_nothing_else_is(released, tmp_path):
    """Install the wheel in a separate environment, first without extras."""
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    without = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "COVERAGE_PROCESS_START")
    environment = {name: value for name, value in os.environ.items() if name not in without}
    environment |= {"RELATION_TF_CACHE": str(tmp_path / "cache")}

    def call(program, *arguments, code=0):
        answer = subprocess.run(
            [str(folder / "bin" / program), *map(str, arguments)],
            cwd=tmp_path, env=environment, check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert answer.returncode == code, answer.stdout + answer.stderr
        return answer.stdout

    install = "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt"
    call("python", *install, released[1])
    (tmp_path / "scores.csv").write_text(SCORES, encoding="utf-8")
    call("python", "-c", SMOKE)
    assert (tmp_path / "report" / "report.html").is_file()
    assert call("relation-tf", "--version").strip() == relation_tf.__version__
    run = "run", "demo", "--tasks", "RTE", "--methods", "relation-64", "--seeds", "1"
    call("relation-tf", *run, code=2)
    call("python", *install, f"{released[1]}[tensorflow]")
    call("python", "-c", LAYER)
    call("relation-tf", *run, "--set", "epochs=1")
    assert (tmp_path / "runs" / "demo" / "report" / "report.html").is_file()
    assert "check" in call("glue-submit", "--help")
