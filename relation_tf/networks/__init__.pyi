from .benchmark import pair_classifier, pair_regressor, sequence_classifier
from .registry import MECHANISMS, Mechanism, find_mechanism

__all__ = [
    "MECHANISMS",
    "Mechanism",
    "find_mechanism",
    "pair_classifier",
    "pair_regressor",
    "sequence_classifier",
]
