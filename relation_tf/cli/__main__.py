"""`python -m relation_tf.cli`."""

import os
import sys

# With -m, Python searches the current folder first, such as a run folder of other people.
if not (sys.flags.safe_path or os.path.exists("relation_tf")):  # noqa: PTH110 - fewer imports
    sys.path.pop(0)

from relation_tf.cli import main

if __name__ == "__main__":
    main()
