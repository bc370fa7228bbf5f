from .method import Method
from .run import RunConfig, TrainingSettings
from .suite import Suite, list_suites, load_suite

__all__ = ["Method", "RunConfig", "Suite", "TrainingSettings", "list_suites", "load_suite"]
