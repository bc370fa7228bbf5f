"""Tests of the code, commands and links in the documentation."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import keras
import numpy as np
import pytest
from pydantic import BaseModel
from typer.main import get_command

from glue_submit.cli import app as glue_submit
from relation_tf import cli
from relation_tf.cli.commands import app as relation_tf
from relation_tf.config import Method, Suite, list_suites, load_suite
from relation_tf.config.suite import load_published
from relation_tf.registry import MECHANISMS, TASKS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
SETTINGS = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
NAV = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", SETTINGS, re.MULTILINE)
# Decisions contain no instructions.
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if path.name != "decisions.md"]
_FENCE = re.compile(r'^( *)```(\w+)(?: title="([^"]+)")?\n(.*?)^\1```$', re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    return path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT).as_posix()


def blocks(page: Path, language: str) -> list[tuple[str, str]]:
    """Return title and text of each code block in a language."""
    found = _FENCE.findall(page.read_text(encoding="utf-8"))
    return [
        (title, re.sub(rf"^{indent}", "", text, flags=re.MULTILINE))
        for indent, kind, title, text in found
        if kind == language
    ]


def write_files(page: Path, folder: Path) -> list[str]:
    """Write the code blocks of a page that have file names."""
    files: dict[str, str] = {}
    for kind in ("python", "toml", "yaml"):
        for title, text in blocks(page, kind):
            if title:  # a file may be shown in several blocks
                files[title] = files.get(title, "") + text
    for title, text in files.items():
        (folder / title).write_text(text, encoding="utf-8")
    return [*files]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RELATION_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_layer", raising=False)  # another test's
    return tmp_path


def run(monkeypatch, command: str) -> None:
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code


def is_there(page: str) -> bool:
    folder, _, name = page.rpartition("/")
    if folder == "notebooks":
        return (ROOT / page).with_suffix(".ipynb").is_file()
    if folder == "reference":
        modules = (ROOT / name[:-3], ROOT / "relation_tf" / name[:-3])
        return name == "commands.md" or any(
            module.is_dir() or module.with_suffix(".py").is_file() for module in modules
        )
    return (DOCS / page).is_file() or (ROOT / page).is_file()


def test_every_page_is_in_the_navigation_and_there():
    assert NAV
    assert [page for page in NAV if not is_there(page)] == []
    notebooks = {f"notebooks/{path.stem}.md" for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert {*map(name_of, DOCS.rglob("*.md")), *notebooks} <= {*NAV}


def links(page: Path) -> list[str]:
    """Return the links of a page to files."""
    return re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [README, *PAGES], ids=name_of)
def test_links_lead_somewhere(page):
    for target in links(page):
        path = (page.parent / target).resolve()
        inside = path.relative_to(DOCS).as_posix() if path.is_relative_to(DOCS) else ""
        assert path.is_file() or inside in NAV, f"{name_of(page)}: {target}"


def commands(page: Path) -> list[str]:
    """Return the shell commands of a page."""
    return [line for _, text in blocks(page, "sh") for line in text.splitlines()]


COMMANDS = [
    pytest.param(page, line, id=f"{name_of(page)}: {line}")
    for page in (README, *PAGES)
    for line in commands(page)
]


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_commands_are_understood(page, line):
    environment = r"^(?:[A-Z_]+=\S+ )*"
    program, *arguments = shlex.split(re.sub(environment, "", line), comments=True)
    program = program.removeprefix(".venv/bin/")
    if program == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{arguments[0]}:", makefile, re.MULTILINE)
    elif program == "pip":
        extras = re.fullmatch(r"(?:\.|relation-tf)\[([\w,]+)\]", arguments[1])
        for extra in extras[1].split(","):
            assert re.search(rf"^{extra} *=", (ROOT / "setup.cfg").read_text(), re.MULTILINE)
    elif program == "python":
        assert arguments[0] == "my_program.py" or (ROOT / arguments[0]).is_file()
    else:
        app = {"relation-tf": relation_tf, "glue-submit": glue_submit}[program]
        command = get_command(app).commands[arguments[0]]
        values = command.make_context(arguments[0], arguments[1:]).params  # parsed, not run
        suite = values.get("suite")
        if suite is not None:
            titles = [title for title, _ in blocks(page, "toml")]
            assert suite in (*list_suites(), *titles)
        for setting in values.get("settings") or ():
            assert setting.partition("=")[0] in Suite.model_fields
        if program == "relation-tf" and arguments[0] in ("tasks", "download"):
            assert {*(values["names"] or ())} <= {*TASKS, "tones"}


# Its suite needs what its module registers: tests/test_extending.py runs them in other processes.
@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "extending.md"], ids=name_of)
def test_suites_can_be_read(page, elsewhere, monkeypatch):
    write_files(page, elsewhere)
    monkeypatch.syspath_prepend(str(elsewhere))
    for title, text in blocks(page, "toml"):
        if text.startswith("source = "):
            assert load_published(str(elsewhere / title)).figure
        elif not title:  # keys to add to a suite
            assert load_suite("glue-small", tomllib.loads(text)).runs()
        else:
            assert load_suite(elsewhere / title).runs()


TESTED_ALONE = ("networks.md", "pretraining.md")
PROGRAMS = [
    page
    for page in PAGES
    if any(not title for title, _ in blocks(page, "python")) and page.name not in TESTED_ALONE
]


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("page", PROGRAMS, ids=name_of)
def test_programs_run(page, elsewhere):
    program = elsewhere / "program.py"
    texts = [text for title, text in blocks(page, "python") if not title]
    program.write_text("\n".join(texts), encoding="utf-8")
    runpy.run_path(str(program))


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_networks(elsewhere):
    page = DOCS / "how-to" / "networks.md"
    program = elsewhere / "program.py"
    program.write_text("\n".join(text for _, text in blocks(page, "python")), encoding="utf-8")
    made = runpy.run_path(str(program))
    assert made["probabilities"].shape == (2, 2)
    assert made["tokens"].shape == (2, 7, 64)
    assert made["token"].shape == (2, 1, 64)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_pretraining(elsewhere, monkeypatch):
    page = DOCS / "how-to" / "pretraining.md"
    for name, rows in (("train", 60), ("valid", 20)):
        text = "".join(f"{word} so good it is not {word}\n" for word in ("loud", "calm") * rows)
        (elsewhere / f"{name}.txt").write_text(text, encoding="utf-8")
    small = "--steps 2 --length 16 --batch-size 4 --mechanisms relation --vocabulary 60"
    run(monkeypatch, f"relation-tf pretrain train.txt --held-out valid.txt --out encoders {small}")
    run(monkeypatch, f"relation-tf pretrain train.txt --objective causal --out causal {small}")
    program = elsewhere / "program.py"
    for _, text in blocks(page, "python"):
        program.write_text(text, encoding="utf-8")
        assert runpy.run_path(str(program))["model"].count_params() > 100_000
    write_files(page, elsewhere)
    run(monkeypatch, "relation-tf run start.toml --seeds 1 --set epochs=1")
    assert len(list(elsewhere.glob("runs/start/runs/CoLA/*/seed-1/result.json"))) == 2


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_page_of_mechanisms_is_that_of_the_docstrings():
    written = runpy.run_path(str(DOCS / "mechanisms.py"))["page"]()
    assert written == (DOCS / "mechanisms.md").read_text(encoding="utf-8")


def test_every_mechanism_is_named():
    text = (DOCS / "how-to" / "networks.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`.*?) \|", text.partition("\n## ")[0], re.MULTILINE)
    listed = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    built_in = {name for name in MECHANISMS if "networks" in MECHANISMS.origin(name)}
    layers = {name for name in built_in if ".layers:" in str(MECHANISMS[name].factory)}
    assert listed == built_in - layers


@pytest.fixture
def tones(elsewhere):
    """Write the files of the page on tasks, and data in which one word decides."""
    write_files(DOCS / "how-to" / "own-task.md", elsewhere)
    (elsewhere / "DIR" / "tones").mkdir(parents=True)
    ends = {"is still": "calm", "are near": "loud"}
    rows = "".join(
        f"the {thing} {end},{tone}\n"
        for thing in ("lake", "drums", "sea", "bells") * 20
        for end, tone in ends.items()
    )
    for split in ("train", "test"):
        path = elsewhere / "DIR" / "tones" / f"{split}.csv"
        path.write_text(f"text,tone\n{rows}", encoding="utf-8")
    return elsewhere


@pytest.mark.usefixtures("tones")
def test_custom_task_in_a_suite(monkeypatch, capsys):
    run(monkeypatch, "relation-tf tasks tones --suite tones.toml --data DIR")
    assert "lake is still" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.tensorflow
def test_prediction_of_new_texts(tones, monkeypatch):
    only = "--seeds 1 --methods relation-64"
    run(monkeypatch, f"relation-tf run tones.toml --data DIR {only}")
    trained = runpy.run_path(str(tones / "predict.py"))
    assert trained["trained"].predict(trained["texts"]).tolist() == ["calm", "loud"]


@pytest.fixture
def recurrence(monkeypatch):
    """Return the recurrent layer of the examples, built with random biases."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    from moving_average import MovingAverage

    layer = MovingAverage(4)
    layer.build((None, None, 3))
    random = np.random.default_rng(0)
    layer.set_weights([random.normal(size=weight.shape) for weight in layer.weights])
    return layer


def test_the_recurrence_equals_a_loop(recurrence):
    random = np.random.default_rng(1)
    x, mask = random.normal(size=(2, 5, 3)).astype("float32"), np.ones((2, 5), bool)
    mask[0, 1] = mask[1, 3:] = False
    gate, gate_bias, value, value_bias = recurrence.get_weights()
    state, expected = np.zeros((2, 4)), []
    for token, kept in zip(x.swapaxes(0, 1), mask.T, strict=True):
        f = 1 / (1 + np.exp(-(token @ gate + gate_bias)))
        after = f * state + (1 - f) * (token @ value + value_bias)
        state = np.where(kept[:, None], after, state)
        expected.append(state)
    found = keras.ops.convert_to_numpy(recurrence(x, mask=mask))
    np.testing.assert_allclose(found.swapaxes(0, 1), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_recurrence_passes_the_checks(monkeypatch):
    monkeypatch.chdir(ROOT / "examples")
    monkeypatch.setattr(sys, "path", [*sys.path])
    run(monkeypatch, "relation-tf check-layer moving_average:MovingAverage --units 64")


def test_the_suites_are_all_listed():
    text = (DOCS / "suites.md").read_text(encoding="utf-8").partition("\n## Write")[0]
    cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    listed = [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    assert sorted(listed) == sorted(list_suites())


def default_of(model: type[BaseModel], key: str) -> object:
    field = model.model_fields[key]
    return None if field.is_required() else field.get_default(call_default_factory=True)


def keys(heading: str) -> tuple[dict[str, object], list[str]]:
    """Return the keys of the first TOML block below a heading, and those in comments."""
    page = (DOCS / "suites.md").read_text(encoding="utf-8")
    (text,) = re.findall(rf"### {heading}\n.*?```toml\n(.*?)```", page, re.DOTALL)
    return tomllib.loads(text), re.findall(r"^# (\w+) = ", text, re.MULTILINE)


def test_all_keys_of_suites_have_their_defaults():
    shown, without = keys("Keys of the suite")
    assert shown == {key: default_of(Suite, key) for key in shown}
    assert {default_of(Suite, key) for key in without} == {None}
    tables = ["method", "task", "group", "sweep", "tuned"]
    assert sorted([*shown, *without, *tables]) == sorted(Suite.model_fields)


def test_keys_of_methods_have_their_defaults():
    shown, without = keys("Keys of a method")
    (method,) = shown["method"]
    assert method.pop("mechanism")
    assert method == {key: default_of(Method, key) for key in method}
    assert {default_of(Method, key) for key in without} == {None}


def test_architecture_page_names_existing_files():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:relation_tf|glue_submit|tests)/[^`]*)`", text)
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.slow
def test_the_site_builds(tmp_path):
    for module in ("mkdocs", "material", "mkdocstrings", "nbconvert"):
        pytest.importorskip(module, reason="pip install '.[docs]' brings what builds the site")
    # Another process, as mkdocs and its plugins are not written for warnings as errors.
    answer = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    for page in NAV:
        url = re.sub(r"(index|README)$", "", page.removesuffix(".md")).rstrip("/")
        assert (tmp_path / "site" / url / "index.html").is_file(), page
    layers = (tmp_path / "site" / "reference" / "layers" / "index.html").read_text()
    assert 'id="relation_tf.layers.Relation"' in layers
