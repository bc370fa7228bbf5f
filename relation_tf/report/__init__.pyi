from .console import summarize
from .render import render

__all__ = ["render", "summarize"]
