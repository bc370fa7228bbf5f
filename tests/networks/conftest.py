"""Fixtures for the tests of the networks."""

import pytest

pytest.register_assert_rewrite("tests.layers.contract")

from tests.golden import golden  # noqa: E402

__all__ = ["golden"]
