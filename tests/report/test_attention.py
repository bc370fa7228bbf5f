"""Figure of attention weights and its alternative text."""

from __future__ import annotations

import numpy as np
import pytest

from relation_tf.report.drawing import attention_picture


def weights_of(rows, columns):
    drawn = np.random.default_rng(0).random((rows, columns)) ** 4
    return drawn / drawn.sum(axis=1, keepdims=True)


def test_cells_show_the_weights():
    weights = np.array([[0.0, 0.25, 0.75], [1.0, 0.0, 0.0]])
    picture = attention_picture(weights, "abc", "xy")
    (axes,) = picture._figure(picture.panels, 1).axes
    shades = {}
    for line in axes.lines:
        x, y = line.get_data()
        for start, row in zip(x[::3], y[::3], strict=True):
            shades[int(row), int(start)] = line.get_alpha()
    assert shades == pytest.approx({(0, 1): 0.3, (0, 2): 0.8, (1, 0): 1.0})
    assert "to c (75 %)" in picture.panels[0].alt


def test_padding_is_left_out_and_rounding_errors_above_one_are_allowed():
    weights = np.pad(np.eye(2) * np.float32(1.0000001), ((0, 3), (0, 4)))
    assert (
        attention_picture(weights, "ab", "ab").svg()
        == attention_picture(np.eye(2), "ab", "ab").svg()
    )


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (list("3 March 2012"), list("2012-03-03")),
        (["a"], ["b"]),
        (["contextualizer-of-rank-5", "the", "end"], ["attention", "$x$", "<b>"]),
        (["word"] * 40, ["other"] * 40),
    ],
)
def test_readable(readable, source, target):
    readable(attention_picture(weights_of(len(target), len(source)), source, target))


def test_same_weights_give_same_bytes_and_names_are_escaped():
    picture = attention_picture(weights_of(2, 2), ["<b>", "&"], ["x", "y"])
    assert picture.svg() == picture.svg()
    assert "<b>" not in picture.svg()


@pytest.mark.parametrize(
    ("weights", "source", "message"),
    [
        (np.eye(2), [], r"at least one\. Received: shape \(2, 2\)$"),
        (
            np.eye(2)[0],
            "ab",
            r"of 2 target tokens .* of 2 source tokens, .* Received: shape \(2,\)$",
        ),
        (np.eye(1), "ab", r"Received: shape \(1, 1\)$"),
        (np.array([[0.5, 0.5], [-1.0, 2.0]]), "ab", r"from 0 to 1\. Received: -1 to 2$"),
        (np.array([[0.5, 0.5], [np.nan, 0.0]]), "ab", r"from 0 to 1\. Received: nan to nan$"),
    ],
)
def test_invalid_weights(weights, source, message):
    with pytest.raises(ValueError, match=message):
        attention_picture(weights, source, "xy")
