"""Tests that rows and curves refer to existing functions and mechanisms."""

from __future__ import annotations

import importlib
import inspect

import pytest

from benchmarks.measures import decoding, recurrences, scaling
from benchmarks.table import CURVES, DECODERS, ROWS
from relation_tf import layers
from tests.backends import close

pytestmark = pytest.mark.tensorflow


def test_names_differ():
    names = [row.name for row in ROWS] + [curve.subject for curve in CURVES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_names_a_function_and_its_arguments(row):
    module, _, name = row.function.partition(":")
    function = getattr(importlib.import_module(f"benchmarks.measures.{module}"), name)
    inspect.signature(function).bind(**row.arguments)


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.subject)
def test_a_curve_names_a_subject_and_lengths_that_grow(curve):
    assert curve.subject in scaling.SUBJECTS or hasattr(layers, curve.subject)
    assert list(curve.lengths) == sorted(set(curve.lengths))


def test_a_curve_is_measured():
    points = scaling.grow("Relation", [3, 65])
    assert [point.length for point in points] == [3, 65]
    assert all(0 < point.seconds.low <= point.seconds.median for point in points)
    assert all(point.bytes >= 0 for point in points)


@pytest.mark.parametrize("curve", DECODERS[1:], ids=lambda curve: curve.subject)
def test_a_decoder_is_measured(curve):
    short, long = decoding.decode(curve.subject, [3, 65])
    assert (short.length, long.length) == (3, 65)
    assert 0 < long.seconds.low <= long.seconds.median
    assert (long.bytes == short.bytes) is curve.linear


@pytest.mark.parametrize("layer", ["MinGRU", "DeltaNet"])
def test_a_recurrent_layer_equals_its_loop_over_tokens(layer, monkeypatch):
    monkeypatch.setattr(recurrences, "compare", lambda *steps: [step() for step in steps])
    chunks, loop = recurrences.against_loop(layer, 5)
    for one, other in zip(chunks, loop, strict=True):
        close(one, other, 1e-3)
