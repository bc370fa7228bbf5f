from .check.checks import check_layer
from .check.report import LayerCheck, LayerReport
from .classifiers import pair_classifier, pair_regressor, sequence_classifier, token_classifier
from .config import NetworkConfig
from .decoders import recurrent_encoder_decoder, sequence_loss, transformer_encoder_decoder
from .decoding import Decoded, beam_search, exact_match, greedy_decode
from .encoders import encoder, transformer
from .feature_projection import training_branches
from .language_model import language_model
from .mechanisms import Sharing, find_mechanism, make_layer
from .multi_task import TaskHead, as_one, frozen_layers, multi_task_networks
from .sizes import Match, count_parameters, match_parameters, size_step, with_size

__all__ = [
    "Decoded",
    "LayerCheck",
    "LayerReport",
    "Match",
    "NetworkConfig",
    "Sharing",
    "TaskHead",
    "as_one",
    "beam_search",
    "check_layer",
    "count_parameters",
    "encoder",
    "exact_match",
    "find_mechanism",
    "frozen_layers",
    "greedy_decode",
    "language_model",
    "make_layer",
    "match_parameters",
    "multi_task_networks",
    "pair_classifier",
    "pair_regressor",
    "recurrent_encoder_decoder",
    "sequence_classifier",
    "sequence_loss",
    "size_step",
    "token_classifier",
    "training_branches",
    "transformer",
    "transformer_encoder_decoder",
    "with_size",
]
