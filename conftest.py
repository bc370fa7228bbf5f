"""Fixtures of tests and of examples in docstrings."""

from tests.in_process import _in_this_process, worker_processes  # noqa: F401
