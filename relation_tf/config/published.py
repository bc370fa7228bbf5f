"""Figures of papers, which reports show next to the scores. Free of Keras."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class PublishedFigure(BaseModel):
    """One published figure.

    Attributes:
        method: A method's name, a mechanism's, or the paper's name of one that is not here.
        task: The name of the scored task.
        metric: The metric, or `"milliseconds a batch"`.
        value: As published: points for scores.
        sd: Its standard deviation, if the paper gives one.
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
        source: The paper, and the place in it.
        split: The split on which the figures were measured.
        vectors: Width of the word vectors that the paper's networks started from; None for random.
        missing: The paper's figures that are left out, and why.
        figure: The figures.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    split: str = "test"
    vectors: Annotated[int, Field(ge=1)] | None = None
    missing: str = ""
    figure: list[PublishedFigure] = Field(default_factory=list)


def load_published(name: str) -> Published:
    """Read a file of the package by its name, or any other by its path.

    Raises:
        ValueError: If there is no such file, or it has faults; the message names it.

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
