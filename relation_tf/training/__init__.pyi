from .generation import generate, make_language_model
from .generation_settings import GenerationSettings
from .pretrained import PretrainedEncoder, fill, load_pretrained
from .pretraining_settings import PretrainingSettings
from .stopping import AccuracyReached, EarlyStopping, SmoothedEarlyStopping, Stop, StoppingRule

__all__ = [
    "AccuracyReached",
    "EarlyStopping",
    "GenerationSettings",
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
