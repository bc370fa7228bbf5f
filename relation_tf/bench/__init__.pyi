from .options import RunOptions
from .planning import SuitePlan
from .pretraining import Pretraining, pretrain
from .results import Results, read_results
from .run_folder import RunFolder
from .runner import plan_suite, run_suite
from .submissions import Submissions, write_submissions
from .trackers import Tracker

__all__ = [
    "Pretraining",
    "Results",
    "RunFolder",
    "RunOptions",
    "Submissions",
    "SuitePlan",
    "Tracker",
    "plan_suite",
    "pretrain",
    "read_results",
    "run_suite",
    "write_submissions",
]
