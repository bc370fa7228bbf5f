"""Measurements. Each row of `benchmarks.table` names one of these functions."""
