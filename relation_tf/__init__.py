"""Token-mixing mechanisms for Keras 3, and the benchmark that compares them with attention.

The parts are imported by name and load Keras and TensorFlow only where they need them::

    import relation_tf
    from relation_tf.layers import Relation
    from relation_tf.networks import sequence_classifier
    from relation_tf.bench import run_suite
    from relation_tf.stats import steel_dwass

    model = relation_tf.load("runs/demo/runs/RTE/relation-64/seed-1")
"""

import lazy_loader

__version__ = "1.0.0"

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
