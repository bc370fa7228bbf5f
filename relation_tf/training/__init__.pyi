from .pretrained import PretrainedEncoder, fill, load_pretrained
from .pretraining_settings import PretrainingSettings
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
