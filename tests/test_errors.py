"""Errors of input."""

import pickle

import pytest

from relation_tf.errors import (
    DataError,
    MissingPackageError,
    OptionError,
    SuiteError,
    UnknownNameError,
    did_you_mean,
    one_line,
)


def test_a_name_of_tensorflow_is_no_message():
    said = "{{function_node a_<lambda>_2}} No memory\n\t [[{{node a/mul}}]] [Op:__step]\n"
    error = RuntimeError(f"Graph execution error:\n\n{said}")
    assert one_line(error) == "RuntimeError: No memory"
    assert one_line(RuntimeError("[[{{node a}}]]")) == "RuntimeError: [[{{node a}}]]"


@pytest.mark.parametrize(
    "error",
    [
        DataError("a.tsv:2: expected 2 fields, found 1:\x1b"),
        SuiteError("key 'seeds': must be 1 or more"),
        MissingPackageError("BLEU", "sacrebleu", "bleu"),
        OptionError("jobs", "must be 1 or more. Received: 0", "--most"),
        UnknownNameError("task", "COLA", ["CoLA"]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_travel_between_processes(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_names_that_begin_with_the_typed_text_are_suggested():
    names = ["MR", "WikiText perplexity"]
    assert "'WikiText perplexity'" in did_you_mean("Wikitext", names)
    assert did_you_mean("wi", names) == ""
