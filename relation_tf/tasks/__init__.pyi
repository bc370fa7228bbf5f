from .batches import plan_batches
from .catalogue import find_source, find_task
from .custom import CustomTask, TaskGroup
from .datasets import GLUE
from .encoding import EncodedSplit, EncodedTask, load_task
from .generated import GENERATED, Characters, GeneratedTask, dates, reversal
from .glove import read_glove
from .listing import examples
from .metrics import score
from .plain_text import read_plain_text
from .rows import Ragged
from .sources import Folders, Missing, TaskSource, search
from .tables import Table, read_tsv
from .task import Dataset, FileLayout, HubDataset, Task, TaskText, TextSplit
from .vocabulary import Vocabulary

__all__ = [
    "GENERATED",
    "GLUE",
    "Characters",
    "CustomTask",
    "Dataset",
    "EncodedSplit",
    "EncodedTask",
    "FileLayout",
    "Folders",
    "GeneratedTask",
    "HubDataset",
    "Missing",
    "Ragged",
    "Table",
    "Task",
    "TaskGroup",
    "TaskSource",
    "TaskText",
    "TextSplit",
    "Vocabulary",
    "dates",
    "examples",
    "find_source",
    "find_task",
    "load_task",
    "plan_batches",
    "read_glove",
    "read_plain_text",
    "read_tsv",
    "reversal",
    "score",
    "search",
]
