"""`relation-tf pretrain`; beside tests/test_cli.py once the command is in the package's cli.py."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys

import pytest

from relation_tf import cli
from relation_tf.training.pretrained import PretrainingSettings

SMALL = [
    "--layers", "1", "--units", "4", "--length", "8", "--batch-size", "2", "--steps", "3",
    "--vocabulary", "60", "--mechanisms", "relation, attention",
]  # fmt: skip


@pytest.fixture
def relation_tf(monkeypatch, capsys, tmp_path):
    """Run the command; its exit code and what it printed."""
    monkeypatch.setenv("RELATION_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("so good it is\n" * 99)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["relation-tf", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        printed = capsys.readouterr()
        return exit_.value.code or 0, printed.out, printed.err

    return run


@pytest.mark.tensorflow
def test_pretrain(relation_tf, tmp_path):
    code, out, err = relation_tf("pretrain", "a.txt", *SMALL, "--seeds", "1,2")
    assert (code, err) == (0, "")
    assert "4 of 4 runs done, in pretrained" in out
    assert "scores: pretrained/scores.csv" in out
    assert len((tmp_path / "pretrained" / "scores.csv").read_text().splitlines()) == 5
    code, out, _ = relation_tf("pretrain", "a.txt", *SMALL, "--seeds", "1,2")
    assert code == 0
    assert "4 of 4 runs are done already" in out
    code, out, err = relation_tf("pretrain", "a.txt", *SMALL, "--seeds", "1,2", "--norm", "post")
    assert code == 2
    assert err.splitlines() == [
        "relation-tf: pretrained: was made with norm = 'pre', now asked is 'post'. Give another "
        "--out, or delete the folder to make it again"
    ]
    settings = json.loads((tmp_path / "pretrained" / "pretraining.json").read_text())
    assert settings["held_out"] == 0.05


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["b.txt"], "relation-tf: b.txt: cannot be read: No such file or directory"),
        (["a.txt", "--held-out", "b.txt"], "relation-tf: b.txt: cannot be read: No such file or"),
        (["a.txt", "--held-out", "2"], "relation-tf: held-out: expected a file, or a share"),
        (["a.txt", "--seeds", "x"], "--seeds: expected numbers such as 1,2. Received: 'x'"),
        (["a.txt", "--mechanisms", ","], "relation-tf: mechanisms: expected one or more"),
        (["a.txt", "--steps", "0"], "relation-tf: steps: expected 1 or more. Received: 0"),
        (["a.txt", "--vocabulary", "3"], "relation-tf: vocabulary_size: expected 4 or more"),
    ],
)
def test_bad_input_is_one_line(relation_tf, arguments, message):
    code, _, err = relation_tf("pretrain", *arguments)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_defaults_are_those_of_the_settings():
    own = {
        name: parameter.default
        for name, parameter in inspect.signature(cli.pretrain).parameters.items()
    }
    names = {"num_layers": "layers", "vocabulary_size": "vocabulary"}
    for field in dataclasses.fields(PretrainingSettings):
        assert own[names.get(field.name, field.name)] == field.default
