"""Tests of the built-in data."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from relation_tf.tasks import miniglue


def test_bytes_are_those_of_this_version(tmp_path: Path) -> None:
    """After an intended change, increase VERSION and update the digest."""
    miniglue.write(tmp_path, seed=0, train_rows=30, dev_rows=20, test_rows=10)
    total = hashlib.sha256()
    for path in sorted(tmp_path.rglob("*.tsv")):
        total.update(path.relative_to(tmp_path).as_posix().encode() + b"\0" + path.read_bytes())
    assert (miniglue.VERSION, miniglue._MOST_DRAWN, total.hexdigest()) == (
        2,
        10_000,
        "428e044fe47e515e9892969a10ce23b9fc968f31ab8e959b0bf6e00cd5cd51ac",
    )


def test_a_large_test_file_repeats_its_first_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(miniglue, "_MOST_DRAWN", 4)
    miniglue.write(tmp_path, train_rows=10, dev_rows=5, test_rows=10)
    _, *rows = (tmp_path / "QQP" / "test.tsv").read_text().splitlines()
    numbers, texts = zip(*(row.split("\t", 1) for row in rows), strict=True)
    assert numbers == tuple(map(str, range(10)))
    assert texts == (texts[:4] * 3)[:10]
    assert len({*texts}) == 4
    assert len({*(tmp_path / "QQP" / "train.tsv").read_text().splitlines()}) == 11


def test_too_many_rows_for_the_grammar(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"CoLA/dev\.tsv: must not repeat rows .* Received: \d+"):
        miniglue.write(tmp_path, train_rows=300_000, dev_rows=50, test_rows=1)
