from .aft import AFTLocal, AFTSimple
from .attention import Attention
from .contextualizer import Contextualizer
from .delta_net import DeltaNet, GatedDeltaNet
from .fastformer import Fastformer
from .fcsr import FCSR, FOFE, FeatureAttention
from .fourier_mixing import FourierMixing
from .gated_linear_attention import GatedLinearAttention
from .gmlp import GMLP
from .hgrn2 import HGRN2
from .hyper_mixer import HyperMixer
from .linear_attention import LinearAttention
from .local_attention import LocalAttention
from .mamba2 import Mamba2
from .min_gru import MinGRU, MinLSTM
from .mlstm import MLSTM
from .pointwise_mlp import PointwiseMLP
from .positions import (
    LearnedPositionEncoding,
    SegmentEncoding,
    SinePositionEncoding,
    SoftmaxPositionEncoding,
)
from .relation import Relation
from .retention import Retention
from .short_convolution import ShortConvolution
from .summary_mixing import SummaryMixing
from .two_directions import TwoDirections

__all__ = [
    "FCSR",
    "FOFE",
    "GMLP",
    "HGRN2",
    "MLSTM",
    "AFTLocal",
    "AFTSimple",
    "Attention",
    "Contextualizer",
    "DeltaNet",
    "Fastformer",
    "FeatureAttention",
    "FourierMixing",
    "GatedDeltaNet",
    "GatedLinearAttention",
    "HyperMixer",
    "LearnedPositionEncoding",
    "LinearAttention",
    "LocalAttention",
    "Mamba2",
    "MinGRU",
    "MinLSTM",
    "PointwiseMLP",
    "Relation",
    "Retention",
    "SegmentEncoding",
    "ShortConvolution",
    "SinePositionEncoding",
    "SoftmaxPositionEncoding",
    "SummaryMixing",
    "TwoDirections",
]
