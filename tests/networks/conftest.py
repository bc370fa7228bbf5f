"""Fixtures for the tests of the networks."""

from tests.golden import golden

__all__ = ["golden"]
