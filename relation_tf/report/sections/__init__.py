"""The sections of a report, each a class in a file of its own, in the order of the page.

A section of another module is registered with `relation_tf.registry.register_section`.
"""

from importlib import import_module

_ORDER = (
    "answer", "learning_time", "scores", "seeds", "layout", "published", "differences", "effects",
    "over_tasks", "learning_curves", "costs", "predictions", "tests", "runs", "made",
)  # fmt: skip

for _name in _ORDER:
    import_module(f"{__name__}.{_name}")
