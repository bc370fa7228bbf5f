"""Optimizers, learning-rate schedules and stopping rules by name."""

from __future__ import annotations

import re
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from relation_tf.errors import RelationError
from relation_tf.registry import (
    OPTIMIZERS,
    STOPPING_RULES,
    register_optimizer,
    register_stopping_rule,
)
from relation_tf.training.optimizing import make_optimizer, make_schedule
from relation_tf.training.stopping import EarlyStopping, make_rule
from tests.backends import close

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("name", ["adam", "SGD", "Muon"])
def test_an_optimizer_sums_the_slices_of_a_token(name):
    import tensorflow as tf

    values, ids = np.array([[1.0, 2.0], [3.0, 4.0], [-1.5, 1.0]], "float32"), [1, 1, 2]
    slices = tf.IndexedSlices(tf.constant(values), tf.constant(ids), tf.constant([4, 2]))
    found = []
    for gradient in (slices, tf.convert_to_tensor(slices)):
        optimizer = make_optimizer(name, 0.1)
        variable = keras.Variable(np.ones((4, 2), "float32"), name="embeddings")
        for _ in range(2):
            optimizer.apply([gradient], [variable])
        found.append(variable.numpy())
    close(*found)
    assert (found[0] != 1).any()


def test_a_factory_that_returns_no_optimizer_is_named(isolated):
    isolated(OPTIMIZERS)
    register_optimizer("own")(lambda learning_rate: 3)
    with pytest.raises(RelationError, match=r"optimizer 'own': must return an .* Received: int"):
        make_optimizer("own", 0.1)


@pytest.mark.parametrize("name", ["AdamW", "Muon"])
def test_a_weight_decay_is_that_of_all_variables(name):
    assert make_optimizer(name, 0.1).weight_decay == 0.004
    assert make_optimizer("adam", 0.1, weight_decay=0.0).weight_decay is None
    assert make_optimizer(name, 0.1, weight_decay=0.0).weight_decay is None
    muon = [make_optimizer("Muon", 0.1, weight_decay=each) for each in (None, 0.0, 0.2)]
    assert [each.adam_weight_decay for each in muon] == [0.004, None, 0.2]


@pytest.mark.parametrize(
    ("name", "options", "rates"),
    [
        ("constant", {}, [0.1, 0.1]),
        ("fcsr", {}, [0.0799, 0.0799]),
        ("fcsr-compounding", {}, [0.0799, 0.0799]),
        ("warmup-cosine", {"warmup": 0.5}, [0.0, 0.01]),
        ("CosineDecay", {}, [0.1, 0.1]),  # over all 20 steps
        ("ExponentialDecay", {"decay_steps": 1, "decay_rate": 0.5}, [0.1, 0.05]),
        ("PiecewiseConstantDecay", {"boundaries": [0], "values": [1.0, 0.5]}, [1.0, 0.5]),
    ],
)
def test_schedules(name, options, rates):
    made = make_schedule(name, 0.1, epochs=4, steps_per_epoch=5, options=options)
    found = [float(made(step)) if callable(made) else made for step in (0, 1)]
    assert found == pytest.approx(rates, abs=1e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_optimizer("sgdd", 0.1), r"unknown optimizer 'sgdd'\. Did you mean 'SGD'\?"),
        (lambda: make_optimizer("SGD", 0.1, {"speed": 1}), "optimizer 'SGD': .*speed"),
        (lambda: make_optimizer("adam", 0.1, {"beta1": 1}), r"Did you mean 'beta_1'\?"),
        (
            lambda: make_optimizer("adam", 0.1, {"loss_scale_factor": 8}),
            "loss_scale_factor must not",
        ),
        (
            lambda: make_schedule("warmup-cosine", 0.1, 1, 1, {"warmup": 2}),
            r"a number in \[0, 1\)\. ",
        ),
        (lambda: make_schedule("cosinedecay", 0.1, 1, 1), r"Did you mean 'CosineDecay'\?"),
        (
            lambda: make_schedule("PiecewiseConstantDecay", 0.1, 1, 1),
            "'PiecewiseConstantDecay': also needs the options 'boundaries', 'values'",
        ),
    ],
)
def test_creation_error_is_one_line(make, message):
    with pytest.raises(RelationError, match=message) as error:
        make()
    assert "\n" not in str(error.value)


def settings(stopping, **more):
    values = {"patience": 3, "monitor": "val_loss", "stopping_options": {}, **more}
    return SimpleNamespace(stopping=stopping, **values)


def test_rule_is_created_from_its_declaration(request):
    rule, column = make_rule(settings("early_stopping", monitor="val_accuracy"))
    assert (type(rule), rule.patience, column) == (EarlyStopping, 3, "val_accuracy")
    assert rule.update(1, 0.5, list) is None
    assert rule.update(2, 0.9, list) is None
    assert rule.state()["epoch"] == 2  # a higher accuracy is better
    rule, _ = make_rule(settings("smoothed_early_stopping", stopping_options={"window": 2}))
    assert rule.window == 2

    @register_stopping_rule("doc-fixed", keys=("patience",), column="loss")
    class Fixed(EarlyStopping):
        def __init__(self, patience, most=1):
            super().__init__(patience)
            self.most = most

    request.addfinalizer(lambda: STOPPING_RULES.remove("doc-fixed"))
    rule, column = make_rule(settings("doc-fixed", stopping_options={"most": 7}))
    assert (rule.patience, rule.most, column) == (3, 7, "loss")
    with pytest.raises(RelationError, match=r"'doc-fixed': unknown option 'mst'\. .* one of most"):
        make_rule(settings("doc-fixed", stopping_options={"mst": 7}))


@pytest.mark.parametrize(
    ("rule", "options", "message"),
    [
        ("smoothed_early_stopping", {"windw": 3}, "unknown option 'windw'. Did you mean 'window'?"),
        ("smoothed_early_stopping", {"window": "x"}, "window must be an integer, 1 or more"),
        ("early_stopping", {"window": 3}, "unknown option 'window'. Must be one of enough"),
        ("early_stopping", {"enough": "x"}, "enough must be a number. Received: 'x'"),
    ],
)
def test_wrong_stopping_options(rule, options, message):
    with pytest.raises(RelationError, match=rf"^stopping '{rule}': {re.escape(message)}"):
        make_rule(settings(rule, stopping_options=options))
