"""Published figures, which reports show next to the scores. Does not import Keras."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class PublishedFigure(BaseModel):
    """One published figure.

    Attributes:
        method: Name of a method or mechanism, or the paper's name of another method.
        task: The name of the scored task.
        metric: The metric, or `"milliseconds per batch"`.
        value: As published: points for scores.
        sd: Published standard deviation, if any.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str
    task: str
    metric: str = "accuracy"
    value: float
    sd: float | None = None


class Published(BaseModel):
    """The figures of one table or figure of a paper.

    Attributes:
        source: The paper, and the table or figure.
        split: The split on which the figures were measured.
        vectors: Width of the paper's word vectors; None for random embeddings.
        missing: Omitted figures of the paper, and the reason.
        figure: The figures.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    split: str = "test"
    vectors: Annotated[int, Field(ge=1)] | None = None
    missing: str = ""
    figure: list[PublishedFigure] = Field(default_factory=list)


def load_published(name: str) -> Published:
    """Read published figures by name, or from a file.

    Raises:
        ValueError: If there is no such name or file, or it has faults.

    Example:
        >>> load_published("relation-table1").figure[0].value
        10.8
    """
    inside = resources.files("relation_tf.suites") / "published" / f"{name}.toml"
    try:
        file = inside if inside.is_file() else Path(name)
        return Published.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise ValueError(f"published figures {name!r}: no such name or file") from error
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(str(part + 1) if isinstance(part, int) else part for part in fault["loc"])
        raise ValueError(
            f"published figures {name!r}: key {key!r}: {fault['msg']}. "
            f"Received: {fault['input']!r:.80}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"published figures {name!r}: not TOML: {error}") from error
