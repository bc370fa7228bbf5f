from .report import Report, make_report, render
from .source_comparison import compare

__all__ = ["Report", "compare", "make_report", "render"]
