"""Speed of this package compared with direct implementations and other libraries.

`python -m benchmarks` measures and prints the table; README.md describes the results.
"""
