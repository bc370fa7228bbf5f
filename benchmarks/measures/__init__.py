"""The measurements. A row of `benchmarks.table` names one of their functions."""
