from . import bench as bench
from . import config as config
from . import layers as layers
from . import networks as networks
from . import report as report
from . import stats as stats
from . import tasks as tasks
from .bench import load

__version__: str

__all__ = ["__version__", "load"]
