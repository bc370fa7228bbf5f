from .attention import Attention
from .linear_attention import LinearAttention
from .pointwise_mlp import PointwiseMLP
from .relation import Relation
from .sine_position_encoding import SinePositionEncoding

__all__ = [
    "Attention",
    "LinearAttention",
    "PointwiseMLP",
    "Relation",
    "SinePositionEncoding",
]
