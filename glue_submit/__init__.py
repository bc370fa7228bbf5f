"""Pack, check and score predictions for the GLUE leaderboard."""

from glue_submit.checking import CheckReport, Fault, check
from glue_submit.metrics import compute, evaluate, glue_average, task_score
from glue_submit.packing import Packed, pack
from glue_submit.scoring import Scores, read_labels, score
from glue_submit.tasks import SCORE_RANGE, TASKS, SubmissionError, Task, get_task

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
