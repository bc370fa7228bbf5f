from .benchmark import pair_classifier, pair_regressor, sequence_classifier
from .encoder_stack import encoder, transformer
from .layer_check import LayerCheck, LayerReport, check_layer
from .registry import MECHANISMS, Mechanism, find_mechanism
from .sizes import Match, count_parameters, match_parameters, size_step, with_size

__all__ = [
    "MECHANISMS",
    "LayerCheck",
    "LayerReport",
    "Match",
    "Mechanism",
    "check_layer",
    "count_parameters",
    "encoder",
    "find_mechanism",
    "match_parameters",
    "pair_classifier",
    "pair_regressor",
    "sequence_classifier",
    "size_step",
    "transformer",
    "with_size",
]
