from .language_model import generate, make_language_model
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
    "generate",
    "load_pretrained",
    "make_language_model",
]
