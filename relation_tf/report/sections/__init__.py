"""The sections of a report, in the order of the page.

A section of another module is registered with `relation_tf.registry.register_section`.
"""

from importlib import import_module

for _name in (
    "answer", "learning_time", "scores", "capabilities", "published", "differences", "over_tasks",
    "costs", "trade_offs", "predictions", "variance", "tests", "tuning", "runs",
):  # fmt: skip
    import_module(f"{__name__}.{_name}")
