from .report import Report, make_report, render

__all__ = ["Report", "make_report", "render"]
