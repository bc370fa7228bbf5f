"""The sections of a report, a module for each subject with its data, tables and figures.

A section of another module is registered with `relation_tf.registry.register_section`.
"""

from importlib import import_module

ORDER = (
    "answer", "learning-time", "scores", "seeds", "capabilities", "published", "layout",
    "differences", "several", "learning", "time", "lengths", "trade-offs", "predictions",
    "variance", "tests", "tuning", "run", "made",
)  # fmt: skip
"""Names of the sections in the order of the page."""

for _name in (
    "answer", "learning_time", "scores", "capabilities", "published", "tests", "costs",
    "predictions", "tuning", "runs",
):  # fmt: skip
    import_module(f"{__name__}.{_name}")
