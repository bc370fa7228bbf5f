"""Speed, side by side: this package against the equations as written, and against its peers.

`python -m benchmarks` measures and prints the table; README.md reads it.
"""
