"""The leaderboard's table."""

from __future__ import annotations

import numpy as np
import pytest

from glue_submit import TASKS, SubmissionError


@pytest.mark.parametrize(
    ("name", "prediction", "spelt"),
    [
        ("CoLA", 0, "0"),
        ("QQP", np.int64(1), "1"),
        ("RTE", np.str_("entailment"), "entailment"),
        ("STS-B", 3, "3.000"),
        ("STS-B", "4.99999", "5.000"),
        ("STS-B", -0.0, "0.000"),
    ],
)
def test_spell(name, prediction, spelt):
    assert TASKS[name].spell(prediction) == spelt


@pytest.mark.parametrize(
    ("name", "prediction"),
    [
        ("CoLA", 2),
        ("CoLA", 1.0),
        ("CoLA", "1.0"),
        ("CoLA", "\u0661"),
        ("CoLA", np.array([0, 1])),
        ("RTE", 1),
        ("RTE", "Entailment"),
        ("STS-B", "nan"),
        ("STS-B", "1e999"),
        ("STS-B", 5.0004),
        ("STS-B", -0.0001),
        ("STS-B", True),
    ],
)
def test_spell_refuses_with_the_found_value(name, prediction):
    with pytest.raises(SubmissionError, match=r"^expected .*, found .+$") as caught:
        TASKS[name].spell(prediction)
    assert "\n" not in str(caught.value)
