"""What README shows is what works."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

from relation_tf import cli

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def named(start: str) -> str:
    """The one block that begins so."""
    (block,) = (text for language in ("python", "toml") for text in blocks(language)
                if text.startswith(start))  # fmt: skip
    return block


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RELATION_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_layer", raising=False)  # another test's


def test_the_first_layer(tmp_path):
    path = tmp_path / "first.py"
    path.write_text(named("import numpy"), encoding="utf-8")
    assert runpy.run_path(str(path))["y"].shape == (2, 7, 64)


def test_the_significance_example(tmp_path, capsys):
    path = tmp_path / "significance.py"
    path.write_text(named("from relation_tf.stats"), encoding="utf-8")
    runpy.run_path(str(path))
    printed = capsys.readouterr().out
    assert "5 methods x 5 seeds: Steel-Dwass can never reach p < .05" in printed
    assert "mine higher" in printed


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_notebook_example(tmp_path):
    path = tmp_path / "notebook.py"
    path.write_text(named("from relation_tf.bench"), encoding="utf-8")
    assert len(runpy.run_path(str(path))["results"].runs) == 10
    assert (tmp_path / "runs" / "demo" / "report" / "report.html").exists()


@pytest.mark.tensorflow
def test_the_layer_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "my_layer.py").write_text(named("# my_layer.py"), encoding="utf-8")
    (tmp_path / "mine.toml").write_text(named("# mine.toml"), encoding="utf-8")
    arguments = ["run", "mine.toml", "--seeds", "1", "--tasks", "CoLA", "--set", "epochs=1"]
    monkeypatch.setattr(sys, "argv", ["relation-tf", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert len(list(tmp_path.glob("runs/mine/runs/CoLA/*/seed-1/result.json"))) == 3


COMMANDS = re.findall(r"^    ((?:relation-tf|glue-submit|make) [^#\n]*)", README, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_and_options_exist(command):
    program, verb, *arguments = shlex.split(command)
    if program == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{verb}:", makefile, re.MULTILINE)
        return
    from typer.main import get_command

    from glue_submit.cli import app

    group = get_command(cli.app if program == "relation-tf" else app)
    options = {name for parameter in group.commands[verb].params for name in parameter.opts}
    assert {word for word in arguments if word.startswith("--")} <= options


def test_links_lead_somewhere():
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
