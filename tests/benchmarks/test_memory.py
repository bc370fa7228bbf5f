"""Memory of a computation."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.memory import added_memory

BLOCK, COUNT = 100_000, 500  # small blocks, which stay in the heap when they are freed


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_memory_that_was_freed_counts_again():
    blocks = [bytes(BLOCK) for _ in range(COUNT)]
    last = bytes(BLOCK)  # keeps the end of the heap
    del blocks
    assert added_memory(lambda: [b"1" * BLOCK for _ in range(COUNT)]) > 0.9 * BLOCK * COUNT
    assert len(last) == BLOCK
