from .report import Report, compare, make_report, render

__all__ = ["Report", "compare", "make_report", "render"]
