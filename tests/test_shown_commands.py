"""Tests that run every command of README and the documentation with small settings."""

from __future__ import annotations

import itertools
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import glue_submit.cli
from relation_tf import cli
from relation_tf.config import list_suites, load_suite
from relation_tf.tasks import miniglue
from tests.test_docs import DOCS, PAGES, README, ROOT, blocks, commands, write_files

# What holds for as long as a process does, which other tests share.
PROCESS_WIDE = {
    "--deterministic": "turns on op determinism, which cannot be turned off again",
}
# What this machine or this test cannot do, and what stands for it.
LEFT_OUT = {
    "pip": "installs: tests/test_release.py",
    "python": "a program of the reader's own; make test-all runs layers on each backend",
}
# Less of what takes long: the same command with these behind it. A suite that is made small is run
# whole, after which submissions are packed.
_ONE = """--set epochs=1 --set 'method=[{mechanism="relation"}]'"""
SMALLER = {
    "relation-tf run decode": "--seeds 1 --tasks decode-128 --methods decoder-relation",
    "relation-tf run mine-speed": "--seeds 1 --tasks training-128",
    "relation-tf run mechanism-speed": (
        "--seeds 1 --tasks training-128 --methods attention,relation"
    ),
    "relation-tf run modern": (
        "--seeds 1 --tasks CoLA --methods attention,relation --set epochs=1"
    ),
    "relation-tf run sequences": "--seeds 1 --tasks dates --methods gru --set epochs=1",
    "relation-tf run contextualizer-table3": (
        "--seeds 1 --methods contextualizer-k1-ones --set epochs=1"
    ),
    "relation-tf run demo": _ONE,
    # This suite has a reference.
    "relation-tf run glue ": "--methods relation-64 --set epochs=1",
    "relation-tf run glue-small": _ONE,
    "relation-tf run": "--seeds 1 --set epochs=1",
    "relation-tf diagnose": "--seeds 1 --tasks memorize-small --set epochs=1",
    "relation-tf pretrain": "--mechanisms relation,attention --steps 2 --length 16 --vocabulary 60",
}


MADE = {"make demo": "relation-tf run demo --out runs/demo"}


def typed(page: Path) -> list[str]:
    """Return the commands of a page, without comments and paths, with the commands of `make`."""
    shown = [shlex.join(shlex.split(line, comments=True)) for line in commands(page)]
    return [MADE.get(command, command).removeprefix(".venv/bin/") for command in shown]


def test_make_demo_is_the_command_that_stands_for_it():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"$(BIN)/{MADE['make demo']} " in makefile


def is_left_out(command: str) -> bool:
    words = re.sub(r"^(?:[A-Z_]+=\S+ )+", "", command).split()
    return words[0] in LEFT_OUT or " ".join(words[:2]) in LEFT_OUT


def in_small(command: str) -> list[str]:
    """Return the arguments of a command, with options that shorten it."""
    words = shlex.split(command.replace("seed-2.zip", "seed-1.zip"))  # one seed is run
    more = next((more for start, more in SMALLER.items() if command.startswith(start)), "")
    if _ONE in more and "--methods" in words:
        more = "--set epochs=1"
    if words[:2] == ["relation-tf", "run"] and "--seed" not in shlex.join([*words, more]):
        more += " --set seeds=1"
    whole = {"--tasks", "--fill-missing", "plan"}
    if "glue-small" in words and not whole & {*words}:
        more += " --tasks RTE"
    expanded = (sorted(map(str, Path().glob(word))) if "*" in word else [word] for word in words)
    return [*itertools.chain.from_iterable(expanded), *shlex.split(more)]


def run(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    if not PROCESS_WIDE.keys().isdisjoint(words):
        subprocess.run([sys.executable, "-m", "relation_tf.cli", *words[1:]], check=True)
        return
    main = {"relation-tf": cli.main, "glue-submit": glue_submit.cli.main}[words[0]]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code, shlex.join(words)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return a data folder as in the documentation: GLUE with full test sets, and MR."""
    folder = tmp_path_factory.mktemp("data")
    miniglue.write(folder / "DIR" / "glue_data", train_rows=60, dev_rows=20)
    sentences = "".join(f"{i % 2} so {('calm', 'loud')[i % 2]} , take {i}\n" for i in range(60))
    (folder / "DIR" / "rt-polarity.all").write_text(sentences, encoding="utf-8")
    (folder / "DIR" / "imdb").mkdir()
    reviews = "".join(
        f"{i}\t{('neg', 'pos')[i % 2]}\t9\tso {('calm', 'loud')[i % 2]} it is\n" for i in range(20)
    )
    for split in ("train", "test"):
        path = folder / "DIR" / "imdb" / f"{split}.tsv"
        path.write_text(f"id\tlabel\trating\treview\n{reviews}", encoding="utf-8")
    tones = "".join(f"so {tone},{tone}\n" for tone in ("loud", "calm") * 20)
    (folder / "DIR" / "tones").mkdir()
    for split in ("train", "test"):
        (folder / "DIR" / "tones" / f"{split}.csv").write_text(f"text,tone\n{tones}")
    vectors = "".join(f"{word} {' '.join(['0.5'] * 100)}\n" for word in ("the", "good", "so"))
    (folder / "glove.6B.100d.txt").write_text(vectors, encoding="utf-8")
    return folder


def more_for_compare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write two folders of runs, two tables with other seeds, and scores of two mechanisms."""
    for name in ("before", "after"):
        command = f"relation-tf run demo --tasks RTE --seeds 1 --set epochs=1 --out runs/{name}"
        run(monkeypatch, [*command.split(), "--methods", "relation-64,baseline-64"])
    head = "task,method,seed,score\n"
    networks = {"CNN": 0.7, "GRU": 0.8}
    for first, name, levels in (
        (1, "seeds-1-5.csv", networks),
        (6, "seeds-6-10.csv", networks),
        (1, "my-scores.csv", {"relation": 70, "attention": 80}),
    ):
        rows = "".join(
            f"MR,{method},{seed},{level + seed / 1000}\n"
            for method, level in levels.items()
            for seed in range(first, first + 5)
        )
        (folder / name).write_text(head + rows, encoding="utf-8")


def more_for_pretraining(folder: Path) -> None:
    import gzip

    text = "".join(f"{word} so good it is not {word}\n" for word in ("loud", "calm") * 60)
    (folder / "train.txt").write_text(text, encoding="utf-8")
    (folder / "valid.txt").write_text(text.replace("not", "now"), encoding="utf-8")
    (folder / "more.txt.gz").write_bytes(gzip.compress(text.replace("so", "very").encode()))


def predictions_from_elsewhere(folder: Path) -> None:
    """Write tables of the zip of previous runs, predictions for a dev set, and test labels."""
    gold = "".join(["index\tlabel\n", *(f"{row}\t0\n" for row in range(146))])
    (folder / "DIR" / "glue_data" / "WNLI" / "test_gold.tsv").write_text(gold)
    packed = folder / "runs" / "glue" / "submissions" / "relation-64" / "seed-1.zip"
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(folder / "my-predictions")
    made = folder / "runs" / "glue" / "runs" / "CoLA" / "relation-64" / "seed-1" / "predictions"
    (folder / "my-dev-predictions").mkdir()
    shutil.copy(made / "CoLA.dev.tsv", folder / "my-dev-predictions" / "CoLA.tsv")


# What extending.md registers would stay in this process: tests/test_extending.py runs its commands.
RUN_HERE = [README, *(page for page in PAGES if page.name != "extending.md")]


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("page", RUN_HERE, ids=lambda page: page.stem)
def test_the_commands_of_a_page(page, data, tmp_path, monkeypatch, capsys):
    shown = [command for command in typed(page) if not is_left_out(command)]
    if not shown:
        pytest.skip("this page shows no command")
    from relation_tf.training.session import op_determinism

    before = op_determinism()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RELATION_TF_CACHE", str(data / "cache"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_layer", raising=False)  # another test's
    for path in data.iterdir():
        (tmp_path / path.name).symlink_to(path)
    if page == README or page.name == "diagnostics.md":
        write_files(DOCS / "how-to" / "own-layer.md", tmp_path)
    if page != README:
        write_files(page, tmp_path)
    if page in (README, DOCS / "how-to" / "compare.md"):
        program = tmp_path / "program.py"
        program.write_text(blocks(DOCS / "how-to" / "compare.md", "python")[0][1])
        runpy.run_path(str(program))
    if page.name == "compare.md":
        more_for_compare(tmp_path, monkeypatch)
    if page.name == "pretraining.md":
        more_for_pretraining(tmp_path)
    for command in shown:
        if "my-predictions" in command:
            predictions_from_elsewhere(tmp_path)
        run(monkeypatch, in_small(command))
    assert op_determinism() == before, "other tests share this process"


def test_each_skipped_or_shortened_command_is_documented():
    shown = [command for page in (README, *PAGES) for command in typed(page)]
    assert len(shown) > 50
    for start in LEFT_OUT:
        assert any(is_left_out(command) and start in command for command in shown), start
    for start in SMALLER:
        assert any(command.startswith(start) for command in shown), start


@pytest.mark.parametrize("path", sorted((ROOT / "results").rglob("suite.toml")), ids=str)
def test_the_suites_of_results_can_be_read(path):
    assert load_suite(path).runs()


def test_commands_of_results_name_existing_files():
    pages = sorted((ROOT / "results").glob("*/README.md"))
    texts = [page.read_text(encoding="utf-8") for page in pages]
    suites = {name for text in texts for name in re.findall(r"relation-tf run ([\w./-]+)", text)}
    assert len(suites) > 20
    for suite in suites:
        assert suite in list_suites() or (ROOT / suite).is_file(), suite
