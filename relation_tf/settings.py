"""Settings: models of files, options as dataclass fields, and one line for each fault."""

from __future__ import annotations

import inspect
import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from typing import Annotated, Any, Self, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from relation_tf.errors import OptionError, did_you_mean, join_names, quote

_LONGEST_MESSAGE = 320  # characters, the file's name not counted

Positive = Annotated[int, Field(ge=1, lt=2**31)]
Share = Annotated[float, Field(gt=0, lt=1)]


class Settings(BaseModel):
    """Base class of settings in files: unknown keys and values of other types are faults.

    Subclasses add rules between keys in `_faults`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        for fault in self._faults():
            raise ValueError(fault)
        return self

    def _faults(self) -> Iterator[str]:
        """Yield what is wrong with values that are valid alone; the first one is an error."""
        yield from ()


def faults_of(error: ValidationError, model: type[BaseModel] = BaseModel) -> list[str]:
    """Describe each error of pydantic, found by a model, on one line; one or more."""
    relevant = without_alternatives(error.errors())
    return [*dict.fromkeys(shortened(_line(fault, model)) for fault in relevant)]


def first_fault(error: ValidationError, model: type[BaseModel] = BaseModel) -> str:
    """Describe the first error of pydantic; a model that forbids keys is required."""
    return faults_of(error, model)[0]


def _line(fault: Any, model: type[BaseModel]) -> str:
    keys = list(fault["loc"])
    if fault["type"] == "extra_forbidden":
        known = _known_keys(model, keys)
        hint = did_you_mean(str(keys[-1]), known) or f" Known: {join_names(known)}."
        if len(keys) == 1 and (tables := _tables_with(keys[0], model)):
            hint = f" Set it in {' or '.join(tables)}."
        return f"unknown key {quote(_dotted(keys))}.{hint}"
    keys = _named(keys)
    path = _dotted(keys)
    fields = model.model_fields
    is_list = path in fields and get_origin(fields[path].annotation) is list
    # In a run's result, the method is a text.
    if path == "method" and fault["type"] in ("missing", "too_short") and is_list:
        return "no methods. Add at least one [[method]] table."
    if fault["type"] == "missing":
        return f"key {path!r} is missing"
    message = fault["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    message = message.replace("a valid integer", "an integer").replace("a valid ", "a ")
    if fault["loc"][2:3] == ("size",):
        message = "a number of parameters below 2^31, such as 500_000, '50K' or '1.5M', or a list"
    if keys[:1] == ["vocabulary"]:
        path, message = "vocabulary", "'train', 'all' or a list of text files"
    if fault["type"] == "string_pattern_mismatch" and keys[-1:] == ["name"]:
        message = "a name of at most 80 letters, digits, '.', '_' and '-'"
    if fault["type"] == "list_type" and path in ("method", "task", "group"):
        message = f"[[{path}]] tables, in double brackets"
    elif fault["type"] == "list_type" and isinstance(fault["input"], str):
        message = f"a list, such as [{quote(fault['input'])}]"
    if not path:
        return message
    if fault["type"] == "value_error" and keys[0] in ("task", "method", "group") and len(keys) == 2:
        return f"key {path!r}: {message}"
    if message.startswith(("unknown", "published figures")):
        return f"key {path!r}: {message}"
    known = re.findall(r"'([^']+)'", message) if fault["type"] == "literal_error" else []
    hint = did_you_mean(fault["input"], known)
    received = f"Received: {_received(fault['input'])}{hint and f'.{hint}'}"
    should = re.match(r"\w+ should (.*)", message.replace(" after validation", ""))
    must = should[1] if should else f"be {message}"
    return f"key {path!r}: must {must}{'' if must.endswith(('.', '?')) else '.'} {received}"


def without_alternatives(faults: Sequence[Any]) -> list[Any]:
    """Leave out "must be a list" of values that are wrong in another way (one number or a list)."""
    others = {_dotted(_named(fault["loc"])) for fault in faults if fault["type"] != "list_type"}
    return [
        fault
        for fault in faults
        if fault["type"] != "list_type" or _dotted(_named(fault["loc"])) not in others
    ]


def _named(keys: Iterable[Any]) -> list[Any]:
    """Leave out the members of unions that pydantic adds, such as "list[...]"."""
    added = re.compile(r"[\[(]|^(constrained-int|str|CustomTask)$")
    return [part for part in keys if not added.search(str(part))]


def _dotted(keys: Iterable[Any]) -> str:
    """Join nested keys with dots, as in TOML; list positions start at 1."""
    return ".".join(str(part + 1) if isinstance(part, int) else str(part) for part in keys)


def _received(value: Any) -> str:
    """Write a value for a message."""
    try:
        text = repr(value)
    except ValueError:  # an integer beyond Python's limit for conversion
        return "a number of too many digits"
    return text if len(text) <= 80 else f"{text[:77]}..."


def shortened(message: str) -> str:
    """Shorten a long message in the middle."""
    message = " ".join(message.splitlines())
    if len(message) <= _LONGEST_MESSAGE:
        return message
    return f"{message[: _LONGEST_MESSAGE - 120]} ... {message[-110:]}"


def _known_keys(model: type[BaseModel], keys: Sequence[Any]) -> list[str]:
    """Return the allowed keys at the place of a key."""
    for key in keys[:-1]:
        if field := model.model_fields.get(key):
            model = next(_models(field.annotation), model)
    return list(model.model_fields)


def _tables_with(key: str, model: type[BaseModel]) -> list[str]:
    """Return the tables of a model that have a key, as TOML names them."""
    forms: dict[Any, str] = {list: "[[{}]]", dict: "[{}.TASK]"}
    return [
        forms.get(get_origin(field.annotation), "[{}]").format(name)
        for name, field in model.model_fields.items()
        if any(key in table.model_fields for table in _models(field.annotation))
    ]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Return the models in an annotation, such as `list[Method]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


Function = TypeVar("Function", bound=Callable[..., Any])


def option(
    default: Any,
    text: str,
    metavar: str | None = None,
    *,
    flag: str | None = None,
    shown: str | bool | None = None,
    choices: Sequence[str] = (),
    typed: Any = None,
    **bounds: float,
) -> Any:
    """Declare an option as a field of a dataclass.

    Args:
        default: Default value.
        text: Help text of one line.
        metavar: Placeholder for the value, such as `"DIR"` or `"N"`.
        flag: Name on the command line; by default, derived from the name of the field.
        shown: Description of the default, if it depends on other options; False to show none.
        choices: Allowed values.
        typed: Type on the command line, if it is another one.
        **bounds: Bounds of a number: `least`, `most`, `above` or `below`.
    """
    metadata = {"help": text, "metavar": metavar, "flag": flag, "shown": shown, "typed": typed}
    return field(default=default, metadata={**metadata, "choices": choices, "bounds": bounds})


def accepts(settings: type, names: Collection[str] = ()) -> Callable[[Function], Function]:
    """Give a function with `**options` the fields of a dataclass of options in its signature.

    Args:
        settings: The dataclass.
        names: The accepted options, by default all.

    Returns:
        A decorator that returns the function itself.
    """
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(declared.name, kind, default=declared.default, annotation=declared.type)
        for declared in fields(settings)
        if not names or declared.name in names
    ]
    return lambda function: take_options(function, added)


def take_options(function: Function, options: Iterable[inspect.Parameter]) -> Function:
    """Replace `**options` in the signature of a function by these options."""
    signature = inspect.signature(function, eval_str=True)
    kept = [p for p in signature.parameters.values() if p.name != "options"]
    function.__signature__ = signature.replace(parameters=[*kept, *options])  # type: ignore[attr-defined]
    return function


_BOUNDS: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    "least": (operator.ge, "{:g} or more"),
    "most": (operator.le, "{:g} or less"),
    "above": (operator.gt, "above {:g}"),
    "below": (operator.lt, "below {:g}"),
}


_LARGEST = 2**31  # seeds, sizes and numbers of steps of the libraries


def check_fields(options: Any) -> None:
    """Check the values of a dataclass of options; None is allowed.

    Raises:
        OptionError: If a value is not one of the choices, out of bounds or not finite.
    """
    for declared in fields(options):
        value, choices = getattr(options, declared.name), declared.metadata["choices"]
        if value is None:
            continue
        allowed = hint = ""
        if choices and value not in choices:
            *first, last = map(repr, choices)
            allowed = " or ".join([*filter(None, [", ".join(first)]), last])
            hint = did_you_mean(value, choices)
        if isinstance(value, int) and abs(value) >= _LARGEST:
            allowed = f"below {_LARGEST:,}"
        for name, bound in declared.metadata["bounds"].items():
            within, text = _BOUNDS[name]
            if not within(value, bound) or math.isinf(value):
                allowed = text.format(bound)
        if allowed:
            fault = f"must be {allowed}. Received: {value}{hint and f'.{hint}'}"
            raise OptionError(declared.name, fault, declared.metadata["flag"])
