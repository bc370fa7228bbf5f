from .planning import SuitePlan
from .ray_cluster import RunResources
from .results import Results, read_results
from .run_folder import RunFolder
from .runner import plan_suite, run_suite
from .stopping import BestWeights, SmoothedCost, StoppingRule
from .submissions import Submissions, write_submissions
from .suite import Method, RunConfig, Suite, SuiteError, list_suites, load_suite

__all__ = [
    "BestWeights",
    "Method",
    "Results",
    "RunConfig",
    "RunFolder",
    "RunResources",
    "SmoothedCost",
    "StoppingRule",
    "Submissions",
    "Suite",
    "SuiteError",
    "SuitePlan",
    "list_suites",
    "load_suite",
    "plan_suite",
    "read_results",
    "run_suite",
    "write_submissions",
]
