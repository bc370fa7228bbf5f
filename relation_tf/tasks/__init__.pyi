from .batches import plan_batches
from .encoding import EncodedSplit, EncodedTask, load_task
from .glove import read_glove
from .glue import GLUE, Task, TaskText, TextSplit, find_glue, read_task
from .tsv import DataError, Table, read_tsv
from .vocabulary import Ragged, Vocabulary

__all__ = [
    "GLUE",
    "DataError",
    "EncodedSplit",
    "EncodedTask",
    "Ragged",
    "Table",
    "Task",
    "TaskText",
    "TextSplit",
    "Vocabulary",
    "find_glue",
    "load_task",
    "plan_batches",
    "read_glove",
    "read_task",
    "read_tsv",
]
