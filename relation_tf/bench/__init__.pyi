from .diagnosing import diagnose
from .loading import TrainedModel, load
from .options import RunOptions
from .planning import SuitePlan, plan_suite
from .pretraining import Pretraining, pretrain
from .results import Results, SuiteStatus, read_results
from .run_folder import RunFolder
from .runner import run_suite
from .submissions import Submissions, write_submissions

__all__ = [
    "Pretraining",
    "Results",
    "RunFolder",
    "RunOptions",
    "Submissions",
    "SuitePlan",
    "SuiteStatus",
    "TrainedModel",
    "diagnose",
    "load",
    "plan_suite",
    "pretrain",
    "read_results",
    "run_suite",
    "write_submissions",
]
