"""What README shows is what works."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

from relation_tf import cli
from relation_tf.bench import list_suites
from relation_tf.networks.registry import MECHANISMS
from relation_tf.tasks import TASK_NAMES

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def named(start: str) -> str:
    """The one block that begins so."""
    (block,) = (text for language in ("python", "toml", "csv") for text in blocks(language)
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
    path.write_text(named("import numpy as np\nfrom relation_tf.layers"), encoding="utf-8")
    assert runpy.run_path(str(path))["y"].shape == (2, 7, 64)


def test_the_networks(tmp_path, capsys):
    path = tmp_path / "networks.py"
    path.write_text(named("import numpy as np\nfrom relation_tf.networks"), encoding="utf-8")
    made = runpy.run_path(str(path))
    assert made["probabilities"].shape == (2, 2)
    assert made["tokens"].shape == (2, 7, 64)
    assert "rank = 259: " in capsys.readouterr().out


def test_every_mechanism_is_named():
    (listed,) = re.findall(r"Every mechanism runs by name[^:]*: (.*?)\.\n\n", README, re.DOTALL)
    assert set(re.findall(r"`([^`]+)`", listed)) == {*MECHANISMS, "saved-model:PATH"}


def test_the_significance_example(tmp_path, capsys):
    path = tmp_path / "significance.py"
    path.write_text(named("from relation_tf.stats import steel"), encoding="utf-8")
    runpy.run_path(str(path))
    printed = capsys.readouterr().out
    assert "5 methods x 5 seeds: Steel-Dwass can never reach p < .05" in printed
    assert "mine higher" in printed


def test_the_published_table(tmp_path, capsys):
    path = tmp_path / "published.py"
    path.write_text(named("import pandas as pd\nfrom relation_tf.stats"), encoding="utf-8")
    runpy.run_path(str(path))
    assert "SST-2 mine theirs" in " ".join(capsys.readouterr().out.split())


def test_any_table_of_scores(tmp_path, monkeypatch, capsys):
    (tmp_path / "scores.csv").write_text(named("task,method,seed,score"), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["relation-tf", "compare", "scores.csv"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert "CNN and GRU" in capsys.readouterr().out
    assert (tmp_path / "comparison" / "report.html").exists()


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_notebook_example(tmp_path):
    path = tmp_path / "notebook.py"
    path.write_text(named("from relation_tf.bench"), encoding="utf-8")
    assert len(runpy.run_path(str(path))["results"].runs) == 10
    assert (tmp_path / "report" / "report.html").exists()


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


@pytest.mark.tensorflow
def test_the_grid(tmp_path, monkeypatch):
    (tmp_path / "grid.toml").write_text(named("# grid.toml"), encoding="utf-8")
    monkeypatch.setattr(
        sys, "argv", ["relation-tf", "run", "grid.toml", "--seeds", "1", "--set", "epochs=1"]
    )
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    done = {path.parts[-3] for path in tmp_path.glob("runs/grid/runs/CoLA/*/seed-1/result.json")}
    assert done == {
        "contextualizer-k1-ones", "contextualizer-k1-uniform", "contextualizer-k5-ones",
        "contextualizer-k5-uniform", "transformer-50K",
    }  # fmt: skip
    sized = json.loads(
        next(tmp_path.glob("runs/*/runs/*/transformer-50K/*/result.json")).read_text()
    )
    assert sized["size"]["parameters"] == sized["parameters"]["network"]
    assert abs(sized["size"]["parameters"] / 50_000 - 1) < 0.1


@pytest.mark.tensorflow
def test_the_task_of_ones_own(tmp_path, monkeypatch, capsys):
    (tmp_path / "tones.toml").write_text(named("# tones.toml"), encoding="utf-8")
    (tmp_path / "data" / "tones").mkdir(parents=True)
    rows = [("so loud", "loud"), ("so calm", "calm")] * 20
    for split in ("train", "test"):
        text = "".join(f"{text},{tone}\n" for text, tone in [("text", "tone"), *rows])
        (tmp_path / "data" / "tones" / f"{split}.csv").write_text(text, encoding="utf-8")
    for command in (
        "tasks tones --suite tones.toml --data data",
        "run tones.toml --data data --set epochs=1",
    ):
        monkeypatch.setattr(sys, "argv", ["relation-tf", *command.split()])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code
    printed = capsys.readouterr().out
    assert "text: so loud" in printed
    assert "4 of 4 runs done" in printed


def test_the_tasks_and_suites_are_counted():
    assert f"{len(TASK_NAMES)} tasks are known by name" in README
    assert len(list_suites()) == 14
    assert "fourteen suites" in README


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
