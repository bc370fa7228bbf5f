"""The application with all commands."""

from relation_tf.cli import listing, reports, runs  # noqa: F401  # they register the commands
from relation_tf.cli.application import app, run_app

__all__ = ["app", "run_app"]
