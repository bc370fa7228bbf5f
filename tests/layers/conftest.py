"""Fixtures for the tests of the layers."""

from tests.golden import golden

__all__ = ["golden"]
