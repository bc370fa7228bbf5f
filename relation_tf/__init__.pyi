from .bench import load

__version__: str

__all__ = ["__version__", "load"]
