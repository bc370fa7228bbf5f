from .comparing import compare
from .report import Report, make_report

__all__ = ["Report", "compare", "make_report"]
