"""Evaluation by lm_eval, compared with computations without it."""

from __future__ import annotations

import configparser
import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("lm_eval", reason="pip install '.[harness]' brings lm_eval")

from lm_eval import simple_evaluate
from lm_eval.api.registry import Registry, get_model
from lm_eval.tasks import TaskManager
from lm_eval.utils import get_rolling_token_windows

from relation_tf.bench import pretrain
from relation_tf.errors import OptionError, RelationError, SuiteError
from relation_tf.tasks.plain_text import read_plain_text
from relation_tf.tasks.vocabulary import Vocabulary
from relation_tf.training import (
    GenerationSettings,
    PretrainingSettings,
    generate,
    load_pretrained,
)
from relation_tf.training.generation import make_language_model
from relation_tf.training.harness import PretrainedLM, _stop_pattern, run_lm_eval
from relation_tf.training.scoring import windows
from tests.backends import close
from tests.training.test_generation import LENGTH, MECHANISMS, PROMPT, write_folder
from tests.training.test_scoring import log_softmax, naive_score

pytestmark = pytest.mark.tensorflow

ROOT = Path(__file__).resolve().parents[2]
WORDS = ["the", "cat", "sees", "a", "dog", "and", "that", "bird"]
SMALL = PretrainingSettings(
    objective="causal", num_layers=1, units=8, length=len(WORDS), batch_size=4, steps=20,
    vocabulary_size=120, learning_rate=0.01,
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("made"), *MECHANISMS, seeds=(1, 2))


def lines(count, seed):
    """Return lines that are exactly one block of the text."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.permutation(WORDS)) for _ in range(count)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a folder with text files, and a folder of pre-training on them."""
    path = tmp_path_factory.mktemp("trained")
    for name, count in (("train", 60), ("valid", 10)):
        (path / f"{name}.txt").write_text("\n".join(lines(count, count)), encoding="utf-8")
    pretrain(
        [path / "train.txt"], path / "causal", ["relation"], [1], SMALL,
        held_out=path / "valid.txt", quiet=True,
    )  # fmt: skip
    return path


def asked(*requests):
    return [SimpleNamespace(args=request) for request in requests]


def evaluate(path, task, **arguments):
    """Evaluate the folder `causal` on a task of local files."""
    config = {"test_split": "test", **task}
    config["dataset_kwargs"] = {**task["dataset_kwargs"], "cache_dir": str(path / "datasets")}
    (path / f"{task['task']}.yaml").write_text(json.dumps(config))  # JSON is YAML
    run_arguments = {"pretrained": str(path / "causal"), "batch_size": 4}
    return simple_evaluate(
        model=PretrainedLM.create_from_arg_obj(run_arguments, {"batch_size": 1}),
        tasks=[task["task"]],
        task_manager=TaskManager(include_path=str(path), include_defaults=False),
        bootstrap_iters=0,
        **arguments,
    )


@pytest.mark.slow
def test_perplexity_is_that_of_pretraining(trained):
    task = {
        "task": "valid",
        "dataset_path": "text",
        "dataset_kwargs": {"data_files": {"test": str(trained / "valid.txt")}},
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{text}}",
        "metric_list": [{"metric": "word_perplexity"}],
    }
    found = evaluate(trained, task)["results"]["valid"]["word_perplexity,none"]
    text = read_plain_text([trained / "train.txt"], len(WORDS), trained / "valid.txt", 120)
    assert text.held_out.shape == (10, len(WORDS))  # a word is a token, a line is a block
    result = json.loads((trained / "causal/runs/relation/seed-1/result.json").read_text())
    # Pre-training does not predict the first token of a block.
    bias = load_pretrained(trained / "causal", "relation").bias
    first = -log_softmax(bias)[text.held_out[:, 0]].mean()
    loss = (first + result["held_out_loss"] * (len(WORDS) - 1)) / len(WORDS)
    close(np.log(found), loss)


@pytest.mark.slow
def test_multiple_choice_takes_the_most_probable_choice(trained):
    rng = np.random.default_rng(5)
    rows = [
        {"start": " ".join(words[:4]), "ends": [" ".join(words[4:6]), words[6]], "answer": i % 2}
        for i, words in enumerate(rng.permutation(WORDS) for _ in range(12))
    ]
    (trained / "choices.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task = {
        "task": "choices",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(trained / "choices.jsonl")}},
        "output_type": "multiple_choice",
        "doc_to_text": "{{start}}",
        "doc_to_choice": "{{ends}}",
        "doc_to_target": "answer",
        "metric_list": [{"metric": "acc"}],
    }
    found = evaluate(trained, task, log_samples=True)
    pretrained = load_pretrained(trained / "causal", "relation")
    model = make_language_model(pretrained)

    def naive(start, end):
        ids = pretrained.vocabulary.encode([f"{start} {end}"]).ids.tolist()
        total = 0.0
        for i in range(4, len(ids)):
            total += log_softmax(model(np.array([ids[:i]]))[0, -1])[ids[i]]
        return total

    best = []
    for sample in found["samples"]["choices"]:
        row = sample["doc"]
        expected = [naive(row["start"], end) for end in row["ends"]]
        scores = [answer[0] for answer in sample["filtered_resps"]]
        close(np.array(scores, float), expected)
        assert np.argmax(np.array(scores, float)) == np.argmax(expected)
        best.append(np.argmax(expected) == row["answer"])
    assert found["results"]["choices"]["acc,none"] == np.mean(best)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_loglikelihood_is_the_sum_of_one_token_at_a_time(folder, mechanism):
    pretrained = load_pretrained(folder, mechanism)
    model = make_language_model(pretrained)
    requests = [
        ("The cat", " eats"),
        ("The cat", " eats and the dog runs , but the bird sings . the fish swims !"),
        (f"{PROMPT} {PROMPT} {PROMPT}", " fish"),
        ("", "the dog"),
        ("  ", "the dog"),
        ("the cat ", "eats"),  # the space belongs to the word after it
    ]
    found = PretrainedLM(str(folder), mechanism, batch_size=2).loglikelihood(asked(*requests))
    for (context, continuation), (total, greedy) in zip(requests, found, strict=True):
        encode = pretrained.vocabulary.encode
        ids = encode([context + continuation]).ids.tolist()
        expected = naive_score(model, ids, len(encode([context]).ids))
        close(total, expected[0])
        assert greedy == expected[1]


def test_pieces_of_a_word_that_the_continuation_changes_are_scored(folder):
    lm = PretrainedLM(str(folder), "relation")
    vocabulary = load_pretrained(folder, "relation").vocabulary
    before, whole = (vocabulary.encode([text]).ids.tolist() for text in ("the swi", "the swims"))
    assert len(whole) <= len(before), "more pieces without the rest of the word"
    (whole_word,) = lm.loglikelihood(asked(("the", " swims")))
    assert lm.loglikelihood(asked(("the swi", "ms"))) == [whole_word]
    assert lm.loglikelihood(asked(("the swims", ""), ("the", " "))) == [(0.0, True)] * 2


def test_rolling_texts_are_the_windows_of_lm_eval():
    for count in (1, 5, 7, 8, 15, 40):
        tokens = [*range(1, count + 1)]
        theirs = [*get_rolling_token_windows(tokens, 0, LENGTH - 1, 1)]
        ids = [0, *tokens]
        ours = [(ids[begin : end - 1], ids[first:end])
                for begin, first, end in windows(len(ids), 1, LENGTH)]  # fmt: skip
        assert ours == theirs


def test_rolling_scores_the_whole_text(folder):
    pretrained = load_pretrained(folder, "attention")
    model = make_language_model(pretrained)
    texts = ["the cat", f"{PROMPT} {PROMPT} {PROMPT}", ""]
    found = PretrainedLM(str(folder), "attention").loglikelihood_rolling(
        asked(*[(text,) for text in texts])
    )
    expected = [
        naive_score(model, pretrained.vocabulary.encode([text]).ids.tolist(), 0)[0]
        for text in texts
    ]
    close(found, expected)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_greedy_text_is_that_of_generate(folder, mechanism):
    (text,) = generate(folder, "The cat", GenerationSettings(tokens=5, greedy=True),
                       method=mechanism)  # fmt: skip
    lm = PretrainedLM(str(folder), mechanism, batch_size=3)
    options = {"until": ["\n\n"], "max_gen_toks": 5}
    other = {"until": [], "max_gen_toks": 12, "do_sample": False}
    found = lm.generate_until(
        asked((PROMPT, other), ("The cat", options), ("", other), ("The cat", other))
    )
    assert found[1] == text.removeprefix("The cat")
    assert found[3].startswith(found[1])
    assert all(found)


def test_text_ends_before_the_first_stop_sequence(folder):
    lm = PretrainedLM(str(folder), "attention")
    (text,) = lm.generate_until(asked((PROMPT, {"max_gen_toks": 8})))
    stop = text[5:8]
    before = text[: text.index(stop)]
    # Generated text is in lower case.
    options = {"max_gen_toks": 8, "until": ["?x?", stop.upper()]}
    assert lm.generate_until(asked((PROMPT, options))) == [before]


@pytest.mark.parametrize(
    ("stop", "text", "found"),
    [
        ("###", " a # # # b", 3),
        ("Q:", " a? q : b", 4),
        ("</s>", " a < / s > b", 3),
        (" other", " another other", 8),
        ("...", " a...", 2),
        ("it's", " it ' s", 1),
        ("end_of", " end _ of", 1),
        ("É:", " a e :", 3),
        ("\n\n", " a b", None),
        ("\nQ:", " a q : b", None),
        ("##", " a # b #", None),
    ],
)
def test_a_stop_sequence_matches_generated_text(stop, text, found):
    vocabulary = Vocabulary.train(["a b"], tokens="wordpiece")
    match = _stop_pattern(stop, vocabulary).search(text)
    assert (match and match.start()) == found


def test_drawn_text_depends_on_the_request_only(folder):
    options = {"do_sample": True, "temperature": 2.0, "top_k": 20, "max_gen_toks": 6}
    requests = asked(*[(PROMPT, options)] * 4)
    found = PretrainedLM(str(folder), "relation", batch_size=4).generate_until(requests)
    assert len({*found}) > 1
    assert PretrainedLM(str(folder), "relation", batch_size=3).generate_until(requests) == found


def test_seeds_of_runs(folder):
    request = asked(("the cat", " eats"))
    first, second = (
        PretrainedLM(str(folder), "relation", seed=seed).loglikelihood(request) for seed in (1, 2)
    )
    assert first != second
    assert PretrainedLM(str(folder), "relation").loglikelihood(request) == first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pretrained": "nowhere"}, "nowhere: must be a folder written by `relation-tf pretrain`"),
        ({"pretrained": ""}, "pretrained: must be a folder. Received: none"),
        ({}, "method: must be one of attention, linear-attention, relation. Received: none"),
        ({"method": "gru"}, "has no finished run of gru, only of attention"),
        ({"method": "relation", "seed": 7}, "with seed 7, only with 1, 2"),
        ({"method": "relation", "batch_size": "auto"}, "must be an integer, 1 or more. Received: "),
        ({"method": "relation", "batch_size": 0}, "batch_size: must be an integer, 1 or more"),
        ({"method": "relation", "dtype": "half"}, "unknown model argument 'dtype'. Must be one of"),
        ({"method": "relation", "plugins": "no_such"}, "no_such"),
    ],
)
def test_wrong_arguments_are_one_line(folder, arguments, message):
    with pytest.raises(RelationError) as raised:
        PretrainedLM(**{"pretrained": str(folder), **arguments})
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_wrong_arguments_of_lm_eval_are_one_line(folder):
    arguments = ["--model", "relation_tf", "--model_args", f"pretrained={folder},method=relation"]
    for more, message in (([], "lm_eval: "), (["--tasks", "no_such"], "no_such")):
        with pytest.raises(SuiteError, match=message) as raised:
            run_lm_eval([*arguments, *more])
        assert "\n" not in str(raised.value)


def test_masked_encoders_are_refused(tmp_path):
    write_folder(tmp_path, "relation", objective="masked")
    with pytest.raises(SuiteError) as raised:
        PretrainedLM(str(tmp_path))
    assert "must be pre-trained with --objective causal to generate or score text" in str(
        raised.value
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_beams": 4}, "unknown generation option 'num_beams'. Must be one of until"),
        ({"do_sample": True, "top_k": 0}, "top_k: must be 1 or more"),
    ],
)
def test_wrong_generation_options_are_refused(folder, options, message):
    lm = PretrainedLM(str(folder), "relation")
    with pytest.raises((RelationError, OptionError)) as raised:
        lm.generate_until(asked(("the", options)))
    assert message in str(raised.value)


def test_lm_eval_finds_the_declared_entry_point(folder):
    parsed = configparser.ConfigParser()
    parsed.read(ROOT / "setup.cfg", encoding="utf-8")
    (line,) = parsed["options.entry_points"]["lm_eval.models"].split("\n")[1:]
    name, value = line.split(" = ")
    registry = Registry("model")
    registry.register(name, target=EntryPoint(name, value, "lm_eval.models"))
    model = registry.get("relation_tf")
    assert model is PretrainedLM
    text = f"pretrained={folder},method=relation,seed=2,batch_size=4"
    made = model.create_from_arg_string(text, {"batch_size": None, "device": "cpu"})
    assert made.loglikelihood(asked(("the", " cat")))


@pytest.mark.slow
def test_the_command(trained, capsys, monkeypatch):
    task = {
        "task": "command",
        "dataset_path": "text",
        "dataset_kwargs": {
            "data_files": {"test": str(trained / "valid.txt")},
            "cache_dir": str(trained / "datasets"),
        },
        "test_split": "test",
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{text}}",
        "metric_list": [{"metric": "word_perplexity"}],
    }
    file = trained / "command.yaml"
    file.write_text(json.dumps(task))
    before = ["relation-tf", "lm-eval"]
    monkeypatch.setattr("sys.argv", before)
    run_lm_eval([
        "--model", "relation_tf", "--model_args", f"pretrained={trained / 'causal'}",
        "--batch_size", "4", "--tasks", str(file),
    ])  # fmt: skip
    assert "word_perplexity" in capsys.readouterr().out
    assert get_model("relation_tf") is PretrainedLM
    assert get_model("dummy"), "the models of lm_eval are kept"
    assert sys.argv is before
