from .pretrained import PretrainedEncoder, fill, load_pretrained
from .pretraining_settings import PretrainingSettings
from .stopping import AccuracyReached, EarlyStopping, SmoothedEarlyStopping, Stop, StoppingRule

__all__ = [
    "AccuracyReached",
    "EarlyStopping",
    "PretrainedEncoder",
    "PretrainingSettings",
    "SmoothedEarlyStopping",
    "Stop",
    "StoppingRule",
    "fill",
    "load_pretrained",
]
