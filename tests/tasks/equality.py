"""Comparison of rows that different readers give."""

from __future__ import annotations

import numpy as np

from relation_tf.tasks import find_source


def read_task(name, folder):
    """Read a task from files."""
    return find_source(name, "files", folder).read()


def same_rows(one, other):
    """Check that two splits have the same texts, labels and row numbers."""
    assert one.texts == other.texts
    assert np.array_equal(one.index, other.index)
    _same_labels(one.labels, other.labels)


def same_encoded(one, other):
    """Check that two encoded tasks have the same vocabulary and the same splits."""
    if one.vocabulary is None:
        assert other.vocabulary is None
    else:
        assert one.vocabulary.to_json() == other.vocabulary.to_json()
    assert [*one.splits] == [*other.splits]
    values = "data" if one.vocabulary is None else "ids"
    for name, split in one.splits.items():
        found = other.splits[name]
        assert np.array_equal(found.index, split.index)
        for rows, expected in zip(found.inputs, split.inputs, strict=True):
            assert np.array_equal(getattr(rows, values), getattr(expected, values))
            assert np.array_equal(rows.offsets, expected.offsets)
        _same_labels(found.labels, split.labels)


def _same_labels(one, other):
    if one is None or other is None:
        assert one is other
    else:
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
