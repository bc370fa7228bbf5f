from .loading import list_suites, load_suite
from .method import Method
from .run import RunConfig
from .suite import Suite
from .training import TrainingSettings

__all__ = ["Method", "RunConfig", "Suite", "TrainingSettings", "list_suites", "load_suite"]
