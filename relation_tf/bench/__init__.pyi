from .diagnosing import diagnose
from .loading import TrainedModel, load
from .options import RunOptions
from .planning import SuitePlan, plan_suite
from .pretraining import Pretraining, pretrain
from .results import Results, SuiteStatus, read_results
from .run_folder import RunFolder
from .runner import run_suite
from .submissions import Predictions, Submissions, predict_missing, write_submissions

__all__ = [
    "Predictions",
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
    "predict_missing",
    "pretrain",
    "read_results",
    "run_suite",
    "write_submissions",
]
