"""Token-mixing mechanisms for Keras 3, and the benchmark that compares them with attention.

The parts are imported by name and load Keras and TensorFlow only where they need them::

    from relation_tf.layers import Relation
    from relation_tf.networks import sequence_classifier
    from relation_tf.bench import run_suite
    from relation_tf.stats import steel_dwass
"""

__version__ = "0.1.0"
