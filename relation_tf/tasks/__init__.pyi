from .batches import plan_batches
from .catalogue import TASK_NAMES, find_source, find_task, read_task
from .encoding import EncodedSplit, EncodedTask, load_task
from .generated import GENERATED, Characters, GeneratedTask, SequencePairs, dates, reversal
from .glove import read_glove
from .glue import GLUE
from .group import TaskGroup
from .listing import Overview, examples, label_counts, overview
from .own import OwnTask
from .plain_text import read_plain_text
from .rows import FileTexts, Ragged, Texts
from .scoring import score
from .sources import Source
from .task import Collection, Layout, Task, TaskText, TextSplit
from .tsv import DataError, Table, read_tsv
from .vocabulary import Vocabulary

__all__ = [
    "GENERATED",
    "GLUE",
    "TASK_NAMES",
    "Characters",
    "Collection",
    "DataError",
    "EncodedSplit",
    "EncodedTask",
    "FileTexts",
    "GeneratedTask",
    "Layout",
    "Overview",
    "OwnTask",
    "Ragged",
    "SequencePairs",
    "Source",
    "Table",
    "Task",
    "TaskGroup",
    "TaskText",
    "TextSplit",
    "Texts",
    "Vocabulary",
    "dates",
    "examples",
    "find_source",
    "find_task",
    "label_counts",
    "load_task",
    "overview",
    "plan_batches",
    "read_glove",
    "read_plain_text",
    "read_task",
    "read_tsv",
    "reversal",
    "score",
]
