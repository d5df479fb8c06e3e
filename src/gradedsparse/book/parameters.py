"""The parameters of a chapter: declared in its notebook, set by a profile or a command line.

The one cell tagged `parameters` holds one declaration a line:

    n: int = 2000  # in [20, 64000] states in all, half of them in each half
    delta: float = 0.05  # in (0, 1) probability that the certificate fails
    rule: str = "ball"  # one of ball, gaussian: the interaction rule
    title: str = "A flock"  # free text; only str and bool may go without a range
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass

from gradedsparse.book.layout import nearest
from gradedsparse.errors import GradedSparseError

Value = int | float | str | bool

KINDS = {"int": int, "float": float, "str": str, "bool": bool}
INTERVAL = re.compile(r"in\s*([\[(])\s*([^\s,]+)\s*,\s*([^\s,\])]+)\s*([\])])\s*[:;,]?\s*(.*)", re.DOTALL)
CHOICES = re.compile(r"one of\s+([\w.+-]+(?:\s*,\s*[\w.+-]+)*)\s*[:;]?\s*(.*)", re.DOTALL)


@dataclass(frozen=True)
class Interval:
    """The numbers between `low` and `high`, each end included or not."""

    low: float
    high: float
    low_included: bool = True
    high_included: bool = True

    def __contains__(self, value: float) -> bool:
        above = value >= self.low if self.low_included else value > self.low
        below = value <= self.high if self.high_included else value < self.high
        return above and below

    def __str__(self) -> str:
        opening = "[" if self.low_included else "("
        closing = "]" if self.high_included else ")"
        return f"in {opening}{self.low:.15g}, {self.high:.15g}{closing}"


@dataclass(frozen=True)
class Choices:
    """A few allowed values."""

    values: tuple[Value, ...]

    def __contains__(self, value: Value) -> bool:
        return value in self.values

    def __str__(self) -> str:
        return "one of " + ", ".join(str(value) for value in self.values)


@dataclass(frozen=True)
class Parameter:
    """One declared parameter: its type by name, default, allowed values and help text."""

    name: str
    kind: str
    default: Value
    allowed: Interval | Choices | None
    help: str

    @property
    def rule(self) -> str:
        """What a value must be, in words."""
        return f"{self.kind} {self.allowed}" if self.allowed else self.kind


@dataclass(frozen=True)
class Setting:
    """The value that a parameter has in one run, and who set it."""

    parameter: Parameter
    value: Value
    set_by: str


def declared(source: str, chapter: str) -> dict[str, Parameter]:
    """The parameters that the text of a `parameters` cell declares, by name, in order.

    Raises GradedSparseError, naming chapter and line, for anything but declarations of the form
    above, a repeated name, a number without a range, or a default outside its own range.
    """
    try:
        statements = ast.parse(source).body
    except SyntaxError as error:
        raise GradedSparseError(
            f"{chapter}: the parameters cell is not Python: {error.msg} (line {error.lineno})"
        ) from error
    comments = _comments(source)
    parameters = {}
    for statement in statements:
        parameter = _declaration(statement, comments.get(statement.end_lineno, ""), chapter)
        if parameter.name in parameters:
            raise GradedSparseError(f"{chapter}: parameter {parameter.name} is declared twice")
        parameters[parameter.name] = parameter
    return parameters


def convert(parameter: Parameter, value: object, chapter: str, set_by: str) -> Value:
    """`value` as the type of `parameter`, or GradedSparseError if type or range forbid it.

    Text is read as the type where it can be (`"2000"` for an int, `"true"` for a bool), an int
    passes as a float, and nothing is rounded.
    """
    converted = _typed(parameter.kind, value)
    if converted is None:
        raise GradedSparseError(
            f"{chapter}: parameter {parameter.name} = {value!r} (set by {set_by}) has the wrong "
            f"type: allowed is {parameter.rule}"
        )
    if parameter.allowed is not None and converted not in parameter.allowed:
        hint = ""
        if isinstance(parameter.allowed, Choices):
            choices = [str(choice) for choice in parameter.allowed.values]
            hint = f"; the nearest is {nearest(str(converted), choices)}"
        raise GradedSparseError(
            f"{chapter}: parameter {parameter.name} = {show(converted)} (set by {set_by}) is out "
            f"of range: allowed is {parameter.rule}{hint}"
        )
    return converted


def resolve(
    parameters: dict[str, Parameter],
    layers: list[tuple[str, dict[str, object]]],
    chapter: str,
) -> dict[str, Setting]:
    """The settings of one run: notebook defaults, then each layer of values over the last.

    `layers` holds pairs (who, values), lowest precedence first. Raises GradedSparseError for an
    unknown parameter (with the nearest valid name), a wrong type or a value out of range.
    """
    settings = {name: Setting(parameter, parameter.default, "notebook") for name, parameter in parameters.items()}
    for set_by, values in layers:
        for name, value in values.items():
            if name not in parameters:
                raise GradedSparseError(_unknown(name, parameters, chapter, set_by))
            parameter = parameters[name]
            converted = convert(parameter, value, chapter, set_by)
            settings[name] = Setting(parameter, converted, set_by)
    return settings


def show(value: Value) -> str:
    """A value as one types it on a command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string.lstrip("#").strip() for token in tokens if token.type == tokenize.COMMENT}


def _declaration(statement: ast.stmt, comment: str, chapter: str) -> Parameter:
    place = f"{chapter}: line {statement.lineno} of the parameters cell"
    if not (
        isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value is not None
    ):
        raise GradedSparseError(f"{place} must have the form `name: type = value  # in [low, high] help`")
    name, kind = statement.target.id, ast.unparse(statement.annotation)
    if kind not in KINDS:
        raise GradedSparseError(f"{place}: the type of {name} is {kind}, but must be one of {', '.join(KINDS)}")
    try:
        default = ast.literal_eval(statement.value)
    except ValueError as error:
        raise GradedSparseError(f"{place}: the value of {name} is not a plain constant") from error
    allowed, text = _allowed(kind, comment, f"{place}: {name}")
    unchecked = Parameter(name, kind, default, allowed, text)
    if isinstance(default, str) and kind != "str":
        raise GradedSparseError(f"{place}: the value of {name} is text, but its type is {kind}")
    return Parameter(name, kind, convert(unchecked, default, chapter, "notebook"), allowed, text)


def _allowed(kind: str, comment: str, place: str) -> tuple[Interval | Choices | None, str]:
    if kind in ("int", "float") and (match := INTERVAL.match(comment)):
        opening, low, high, closing, text = match.groups()
        try:
            interval = Interval(float(low), float(high), opening == "[", closing == "]")
        except ValueError as error:
            raise GradedSparseError(f"{place}: the range {low}, {high} is not numbers") from error
        if not interval.low <= interval.high:
            raise GradedSparseError(f"{place}: the range {interval} is empty")
        return interval, text
    if match := CHOICES.match(comment):
        listed, text = match.groups()
        values = tuple(_typed(kind, item.strip()) for item in listed.split(","))
        if None in values:
            raise GradedSparseError(f"{place}: the choices {listed} are not all of type {kind}")
        return Choices(values), text
    if kind in ("int", "float"):
        raise GradedSparseError(f"{place} needs its range: `# in [low, high] help`")
    return None, comment


def _typed(kind: str, value: object) -> Value | None:
    if kind == "bool":
        if isinstance(value, str):
            return {"true": True, "false": False}.get(value.lower())
        return value if isinstance(value, bool) else None
    if kind == "str":
        return value if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    if kind == "int" and isinstance(value, float):
        return None
    try:
        return KINDS[kind](value)
    except ValueError:
        return None


def _unknown(name: str, parameters: dict[str, Parameter], chapter: str, set_by: str) -> str:
    closest = nearest(name, list(parameters))
    if closest is None:
        return f"{chapter}: there is no parameter {name} (set by {set_by}); it has none at all"
    return (
        f"{chapter}: there is no parameter {name} (set by {set_by}); the nearest is {closest}: "
        f"{parameters[closest].rule}"
    )
