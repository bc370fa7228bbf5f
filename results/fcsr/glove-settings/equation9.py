"""FCSR with the other reading of equation 9: element-wise products of the features of a token."""

from relation_tf.layers import FCSR
from relation_tf.registry import register_mechanism

register_mechanism("fcsr-elements", head="feature-products", positions=None, size=None)(FCSR)
