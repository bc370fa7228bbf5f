"""The sections of a report, a module for each subject with its data, tables and figures.

A section of another module is registered with `relation_tf.registry.register_section`.
"""

from importlib import import_module

MODULES = {
    "answer": "answer", "paper": "paper", "aggregates": "aggregates",
    "learning-time": "learning_time", "scores": "scores",
    "seeds": "scores",
    "capabilities": "capabilities", "published": "published",
    "differences": "tests", "several": "tests", "learning": "costs", "time": "costs",
    "lengths": "costs", "trade-offs": "costs", "predictions": "predictions",
    "variance": "predictions", "tests": "tests", "tuning": "tuning", "run": "runs", "made": "runs",
}  # fmt: skip
"""Module of each section, in the order of the page."""

for _name in dict.fromkeys(MODULES.values()):
    import_module(f"{__name__}.{_name}")
