from .planning import SuitePlan
from .pretrained import PretrainedEncoder, PretrainingSettings, fill, load_pretrained
from .pretraining import Pretraining, pretrain
from .ray_cluster import RunResources
from .results import Results, read_results
from .run_folder import RunFolder
from .runner import plan_suite, run_suite
from .stopping import BestWeights, SmoothedCost, StoppingRule
from .submissions import Submissions, write_submissions

__all__ = [
    "BestWeights",
    "PretrainedEncoder",
    "Pretraining",
    "PretrainingSettings",
    "Results",
    "RunFolder",
    "RunResources",
    "SmoothedCost",
    "StoppingRule",
    "Submissions",
    "SuitePlan",
    "fill",
    "load_pretrained",
    "plan_suite",
    "pretrain",
    "read_results",
    "run_suite",
    "write_submissions",
]
