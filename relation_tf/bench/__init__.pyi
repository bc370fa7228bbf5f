from .planning import SuitePlan
from .pretraining import Pretraining, pretrain
from .ray_cluster import RunResources
from .results import Results, read_results
from .run_folder import RunFolder
from .runner import plan_suite, run_suite
from .submissions import Submissions, write_submissions

__all__ = [
    "Pretraining",
    "Results",
    "RunFolder",
    "RunResources",
    "Submissions",
    "SuitePlan",
    "plan_suite",
    "pretrain",
    "read_results",
    "run_suite",
    "write_submissions",
]
