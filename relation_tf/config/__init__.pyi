from .loading import list_suites, load_suite
from .method import Method
from .run import RunConfig
from .suite import Suite

__all__ = ["Method", "RunConfig", "Suite", "list_suites", "load_suite"]
