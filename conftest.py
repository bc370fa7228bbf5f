"""Trackers of packages that are not installed are left out of the doctests."""

from importlib.util import find_spec

collect_ignore = [
    f"relation_tf/bench/trackers/{package}.py"
    for package in ("tensorboard", "wandb", "mlflow", "trackio")
    if find_spec(package) is None
]
