"""Figures that a paper has published, to stand beside ours. Free of Keras."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class Figure(BaseModel):
    """One published figure.

    Attributes:
        method: The method it belongs to: a method's name, a mechanism's, or the paper's own name of
            one that is not here.
        task: The name under which the task is scored.
        metric: The metric, or `"milliseconds a batch"`.
        value: As published: points for scores.
        sd: Its standard deviation, where the paper gives one.
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
        source: The paper, and where in it.
        split: What the figures were measured on.
        vectors: Width of the word vectors that the paper's networks started from; None for random.
        missing: Which of the paper's figures are not here, and why.
        figure: The figures.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    split: str = "test"
    vectors: Annotated[int, Field(ge=1)] | None = None
    missing: str = ""
    figure: list[Figure] = Field(default_factory=list)


def load_published(name: str) -> Published:
    """Read a file of the package by its name, or any other by its path.

    Raises:
        ValueError: For a file that is not there or not right; the message names it.

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
