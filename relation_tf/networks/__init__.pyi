from .benchmark import pair_classifier, pair_regressor, sequence_classifier
from .encoder_stack import encoder, transformer
from .layer_check import LayerCheck, LayerReport, check_layer
from .multi_task import Sharing, TaskHead, as_one, multi_task_networks
from .registry import MECHANISMS, Mechanism, find_mechanism
from .sizes import Match, count_parameters, match_parameters, size_step, with_size

__all__ = [
    "MECHANISMS",
    "LayerCheck",
    "LayerReport",
    "Match",
    "Mechanism",
    "Sharing",
    "TaskHead",
    "as_one",
    "check_layer",
    "count_parameters",
    "encoder",
    "find_mechanism",
    "match_parameters",
    "multi_task_networks",
    "pair_classifier",
    "pair_regressor",
    "sequence_classifier",
    "size_step",
    "transformer",
    "with_size",
]
