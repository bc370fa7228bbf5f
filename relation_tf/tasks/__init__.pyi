from .batches import plan_batches
from .catalogue import TASK_NAMES, find_task, read_task, task_files
from .encoding import EncodedSplit, EncodedTask, load_task
from .glove import read_glove
from .glue import GLUE, find_glue
from .rows import Ragged, Texts
from .scoring import score
from .task import Collection, Task, TaskText, TextSplit
from .tsv import DataError, Table, read_tsv
from .vocabulary import Vocabulary

__all__ = [
    "GLUE",
    "TASK_NAMES",
    "Collection",
    "DataError",
    "EncodedSplit",
    "EncodedTask",
    "Ragged",
    "Table",
    "Task",
    "TaskText",
    "TextSplit",
    "Texts",
    "Vocabulary",
    "find_glue",
    "find_task",
    "load_task",
    "plan_batches",
    "read_glove",
    "read_task",
    "read_tsv",
    "score",
    "task_files",
]
