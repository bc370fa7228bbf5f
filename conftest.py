"""Modules that import packages that are not installed are left out of the doctests."""

from importlib.util import find_spec

collect_ignore = []
if find_spec("lm_eval") is None:
    collect_ignore.append("relation_tf/training/harness.py")
