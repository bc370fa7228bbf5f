"""FCSR with additive attention over the tokens instead of feature attention."""

from relation_tf.layers import FCSR
from relation_tf.registry import register_mechanism

register_mechanism("fcsr-additive", head="additive-attention", positions=None, size=None)(FCSR)
