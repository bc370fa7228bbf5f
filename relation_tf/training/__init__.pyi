from .pretrained import PretrainedEncoder, PretrainingSettings, fill, load_pretrained
from .stopping import BestWeights, SmoothedCost, StoppingRule

__all__ = [
    "BestWeights",
    "PretrainedEncoder",
    "PretrainingSettings",
    "SmoothedCost",
    "StoppingRule",
    "fill",
    "load_pretrained",
]
