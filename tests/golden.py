"""Golden values of the original program of the Relation paper."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

GOLDEN_VALUES = Path(__file__).parent / "golden_values"


@pytest.fixture(scope="session")
def golden() -> Mapping[str, np.ndarray]:
    """Return the arrays of `original_program.npz` by key."""
    with np.load(GOLDEN_VALUES / "original_program.npz", allow_pickle=False) as file:
        return dict(file)


def below(golden: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Return the arrays with a key prefix, in file order, by the rest of the key."""
    return {k.removeprefix(prefix): v for k, v in golden.items() if k.startswith(prefix)}
