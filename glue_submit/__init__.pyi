from .checking import CheckReport, Fault, check
from .metrics import compute, evaluate, glue_average, task_score
from .packing import Packed, pack
from .scoring import Scores, read_labels, score
from .tasks import SCORE_RANGE, TASKS, SubmissionError, Task, get_task

__all__ = [
    "SCORE_RANGE",
    "TASKS",
    "CheckReport",
    "Fault",
    "Packed",
    "Scores",
    "SubmissionError",
    "Task",
    "check",
    "compute",
    "evaluate",
    "get_task",
    "glue_average",
    "pack",
    "read_labels",
    "score",
    "task_score",
]
