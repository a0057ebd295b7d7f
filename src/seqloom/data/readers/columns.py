"""Which column of a table holds what: by configuration, by its name, by its place and by its content."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from seqloom.data.readers import column_names, tables
from seqloom.data.readers.date_formats import parse_dates
from seqloom.data.readers.decimal_marks import PLAIN, DecimalMark, NumberFormat, plain_table, unit_of, writes_number
from seqloom.data.readers.table_values import LONGEST_LABEL, as_number, is_missing
from seqloom.data.readers.tables import Table
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Location, no_such_column

LabelColumn = int | str | tuple[int | str, ...]
"""The column with the labels, or several columns with numbers: indices or names."""
Chosen = Mapping[str, LabelColumn | None]  # columns by configuration key; empty or None: not configured


def _one_column(value: Any) -> Any:
    if isinstance(value, list | tuple):
        raise ValueError("expected one column, found a list: join the columns into one beforehand")  # noqa: TRY004
    return value


TextColumn = Annotated[int | str, BeforeValidator(_one_column)]
"""The column with texts: index or name."""
LABEL_COLUMN = "label_column"
SHOWN_VALUES = 3  # of each column, in errors
SHOWN_UNREAD = 8  # columns that are not read, in a note


@dataclass(frozen=True, slots=True)
class Role:
    """What a column is used for."""

    key: str  # configuration key: text_column
    noun: str  # what the column holds: text
    names: tuple[str, ...]  # usual names of such a column, the most certain ones first
    holds: Literal["text", "label", "any"] = "any"  # what the values look like
    optional: bool = False
    trained: bool = False  # a model reads the column by its name, which cannot be configured any more


@dataclass(frozen=True)
class Columns:
    """The column of each role."""

    roles: tuple[Role, ...]
    indices: Mapping[str, int]  # by configuration key; negative: from the end; optional roles may be missing
    names: tuple[str, ...]  # of all columns; empty: no header
    width: int
    quotes: bool = False  # quotes around fields are a part of the text
    targets: tuple[int | str, ...] = ()  # several label columns, which are joined to one
    numbers: NumberFormat = PLAIN  # of several label columns, or of vectors

    def value(self, location: Location, fields: Sequence[Any], key: str) -> Any:
        """The value of a role in a record; None if no column has that role."""
        index = self.indices.get(key)
        if index is None:
            return None
        try:
            return fields[index]
        except IndexError:
            if -self.width <= index < self.width:
                raise DataError(location, f"expected {self.width} columns, found {len(fields)}") from None
            raise no_such_column(location, index, len(fields), key=key) from None

    def name(self, key: str) -> str:
        """The name of a role's column, or else what the role is called."""
        role = next(role for role in self.roles if role.key == key)
        return self.names[self.indices[key]] if key in self.indices and self.names else role.noun

    def settings(self) -> dict[str, int | str]:
        """The configuration that names these columns."""
        settings = {key: self.names[index] if self.names else index for key, index in self.indices.items()}
        if self.targets:
            settings.pop(LABEL_COLUMN, None)
        return {**settings, "decimal": self.numbers.decimal} if self.numbers.decimal else settings

    def describe_roles(self, roles: Sequence[Role]) -> str:
        """The columns of some roles."""
        return ", ".join(self._describe(role) for role in roles if role.key in self.indices)

    def describe(self) -> str:
        """``text from column 1 'text', label from column 2 'label'; not read: column 'id'``."""
        columns = self.describe_roles(self.roles)
        quotes = "quotes around fields are read as text" if self.quotes else ""
        return "; ".join(filter(None, (columns, self.describe_unread(), self.numbers.note, quotes)))

    def describe_unread(self) -> str:
        """``not read: columns 'id', 'date'``; empty if all columns have a role."""
        used = {index % max(self.width, 1) for index in self.indices.values()}
        others = [index for index in range(self.width) if index not in used]
        named = [repr(self.names[index]) if self.names and self.names[index] else str(index + 1) for index in others]
        more = f" and {len(named) - SHOWN_UNREAD:,} more" if len(named) > SHOWN_UNREAD else ""
        noun = "column" if len(named) == 1 else "columns"
        return f"not read: {noun} {', '.join(named[:SHOWN_UNREAD])}{more}" if named else ""

    def _describe(self, role: Role) -> str:
        index = self.indices[role.key] % max(self.width, 1)
        if self.targets and role.key == LABEL_COLUMN:
            return f"targets from columns {', '.join(map(repr, self.targets))}"
        if self.names:
            return f"{role.noun} from column {index + 1} {self.names[index]!r}"
        return f"{role.noun} from column {index + 1} (task.{role.key} = {index})"


def find_columns(
    source: Any,
    roles: Sequence[Role],
    chosen: Chosen,
    *,
    separator: str = "",
    encoding: str = "utf-8",
    decimal: DecimalMark = "",  # of numbers in several label columns, where they leave it open
) -> tuple[Table, Columns]:
    """A table and the columns of the roles in it."""

    def read() -> Table:
        return tables.read_table(source, separator=separator, encoding=encoding)

    table, numbers = read(), PLAIN
    required = not any(role.optional for role in roles if role.key == LABEL_COLUMN)
    targets = chosen.get(LABEL_COLUMN)
    if isinstance(targets, tuple):
        table, numbers = plain_table(table, places_of(table, targets), rereading(source, read), decimal=decimal)
    table, chosen = with_joined_labels(table, chosen, required=required)
    configured = [column for role in roles if isinstance(column := chosen.get(role.key), str) and column]
    if not table.names and table.head and set(configured) & {str(value).strip() for value in table.head[0][1]}:
        table = with_header(table)
    columns = resolve_columns(table, roles, chosen)
    return table, replace(columns, targets=targets, numbers=numbers) if isinstance(targets, tuple) else columns


def places_of(table: Table, columns: Iterable[int | str]) -> set[int]:
    """The indices of those columns that a table has."""
    named = {name: index for index, name in enumerate(table.names)}
    indices = (named.get(column) if isinstance(column, str) else column for column in columns)
    return {index % table.width for index in indices if index is not None and -table.width <= index < table.width}


def rereading(source: Any, read: Callable[[], Table]) -> Callable[[], Table] | None:
    """What reads a table once more; None: it can be read only once."""
    return None if isinstance(source, Path) and source == STANDARD_INPUT else read


def label_columns(column: LabelColumn | None) -> tuple[int | str, ...]:
    """The configured columns of labels; empty: none is."""
    if column is None or column == "":
        return ()
    return column if isinstance(column, tuple) else (column,)


def join_columns(table: Table, columns: tuple[int | str, ...], *, required: bool = True) -> tuple[Table, str]:
    """A table in which several columns of targets are one column of lists, the last, and its name.

    Not ``required``: without these columns the table stays as it is.
    """
    places = []
    for column in columns:
        if not required and not _has_column(table, column):
            return table, ""
        places.append(_label_place(table, column))
    if len(set(places)) < len(places):
        raise DataError(table.location, "label_column: expected different columns")
    kept = [index for index in range(table.width) if index not in places]

    def joined(record: tables.Record) -> tables.Record:
        location, fields = record
        if len(fields) < table.width:
            raise DataError(location, f"expected {table.width} columns, found {len(fields)}")
        return location, [*(fields[index] for index in kept), [fields[index] for index in places]]

    name = ", ".join(str(column) for column in columns)
    names = (*(table.names[index] for index in kept), name) if table.names else ()
    head = tuple(map(joined, table.head))
    return replace(table, names=names, head=head, records=map(joined, table.records)), name


def _has_column(table: Table, column: int | str) -> bool:
    return -table.width <= column < table.width if isinstance(column, int) else column in table.names


def _label_place(table: Table, column: int | str) -> int:
    """The index of a configured column of labels."""
    if _has_column(table, column):
        return column % table.width if isinstance(column, int) else table.names.index(column)
    if isinstance(column, str):
        raise no_named_column(table, column, key=LABEL_COLUMN)
    raise no_such_column(table.location, column, table.width, key=LABEL_COLUMN)


def with_joined_labels(table: Table, chosen: Chosen, *, required: bool = True) -> tuple[Table, Chosen]:
    """A table and its configured columns, with several label columns as one."""
    columns: Any = chosen.get(LABEL_COLUMN)
    if not isinstance(columns, tuple):
        return table, chosen
    table, name = join_columns(table, columns, required=required)
    last: int | str = name if table.names else table.width - 1
    return table, {**chosen, LABEL_COLUMN: last if name else "\0"}  # no column has this name


def require_labels(table: Table, columns: Columns, chosen: Chosen) -> None:
    """DataError if no column of a table with names holds the labels, which training needs."""
    if LABEL_COLUMN in columns.indices or not table.head:
        return
    for column in label_columns(chosen.get(LABEL_COLUMN)):
        _label_place(table, column)
    used = {index % table.width for index in columns.indices.values()}
    free = [name for index, name in enumerate(table.names) if name and index not in used]
    if free:
        names = ", ".join(map(repr, free[:SHOWN_UNREAD])) + (", …" if len(free) > SHOWN_UNREAD else "")
        raise DataError(
            table.location,
            f"no column is known to hold the labels: set task.label_column to {'one of ' * (len(free) > 1)}{names}",
        )


def with_header(table: Table) -> Table:
    """The same table, its first record taken as the names of the columns."""
    location, values = table.head[0]
    names = tuple("" if is_missing(value) else str(value).strip() for value in values)
    tables.check_names(location, names)
    return replace(table, names=names, head=table.head[1:], records=islice(table.records, 1, None))


def resolve_columns(table: Table, roles: Sequence[Role], chosen: Chosen) -> Columns:
    """The column of each role; DataError names the keys to set where that is not clear."""
    indices = {role.key: index for role in roles if (index := _chosen(table, role, chosen.get(role.key))) is not None}
    _check_distinct(table, indices)
    absent = {role.key for role in roles if role.optional and chosen.get(role.key) not in ("", None)}
    search = _Search(table, [role for role in roles if role.key not in absent], indices)
    search.by_name()
    if table.width == 1 and not indices and roles:
        indices[_main(roles).key] = 0
    search.by_content()
    missing = [role for role in roles if role.key not in indices and not role.optional]
    if missing and table.width:
        if table.width < len(roles) - sum(role.optional for role in roles):
            nouns = " and a column with the ".join(role.noun for role in roles if not role.optional)
            single, separator = f"only {_describe_column(table, 0)}", "; task.separator sets another separator"
            raise DataError(
                table.location,
                f"expected a column with the {nouns}, found {single}" + (separator if table.separator else ""),
            )
        raise unclear(table, roles, missing, search.free(), shown_as="Columns without a role")
    quotes = table.separator == "\t" and any(map(_is_quoted, chain.from_iterable(row for _, row in table.head)))
    return Columns(tuple(roles), indices, table.names, table.width, quotes)


def _is_quoted(field: Any) -> bool:
    return isinstance(field, str) and len(field) > 1 and field.startswith('"') and field.endswith('"')


def unclear(
    table: Table,
    roles: Sequence[Role],
    missing: Sequence[Role],
    candidates: Iterable[int] = (),  # none: all columns
    *,
    shown_as: str = "Columns",
) -> DataError:
    """The error for roles without a column: it shows the columns and the keys to set."""
    nouns = " and the ".join(role.noun for role in missing)
    shown = list(candidates) or range(table.width)
    listed = "; ".join(_describe_column(table, index) for index in shown[:12])
    keys = " and ".join(f"task.{role.key}" for role in roles if not role.optional)
    likely = max(shown, key=lambda index: _text_length(table, index)) if missing[0].holds == "text" else shown[0]
    if missing[0].holds == "label":
        likely = min(shown, key=lambda index: _distinct_fraction(table, index))
    noun = shown_as if len(shown) < table.width else "Columns"
    example = repr(table.names[likely]) if table.names else likely
    how = f"for example task.{missing[0].key}={example}" + ("" if table.names else "; the first column is 0")
    return DataError(table.location, f"cannot tell which column holds the {nouns}: set {keys}, {how}. {noun}: {listed}")


def _text_length(table: Table, index: int) -> float:
    """The mean length of the values of a column, as texts."""
    values = [str(value) for value in table.column(index)]
    return sum(map(len, values)) / max(len(values), 1)


def _distinct_fraction(table: Table, index: int) -> float:
    """The fraction of the values of a column that differ; 1 if there is only one value, which tells nothing apart."""
    values = [str(value) for value in table.column(index)]
    distinct = len(set(values))
    return distinct / len(values) if distinct > 1 else 1.0


def _describe_column(table: Table, index: int) -> str:
    values = [str(value) for value in dict.fromkeys(map(str, table.column(index)))]
    examples = ", ".join(repr(value[:20] + "…" if len(value) > 21 else value) for value in values[:SHOWN_VALUES])
    name = repr(table.names[index]) if table.names else str(index)
    return f"{name} ({examples}{', …' if len(values) > SHOWN_VALUES else ''})"


def _main(roles: Sequence[Role]) -> Role:
    """The role that a table with a single column has: the text, not its label."""
    return next((role for role in roles if role.holds != "label"), roles[0])


def _chosen(table: Table, role: Role, column: LabelColumn | None) -> int | None:
    """The index of a configured column."""
    if column is None or column == "" or isinstance(column, tuple) or not table.width:
        return None
    if isinstance(column, int):
        if table.width == 1:
            return None
        if not -table.width <= column < table.width:
            if role.optional:
                return None
            raise no_such_column(table.location, column, table.width, key=role.key)
        return column
    if column in table.names:
        return table.names.index(column)
    if not table.inside(column):
        if role.optional or (table.width == 1 and not table.names):
            return None
        if role.trained and table.names:
            header = ", ".join(map(repr, table.names))[:200]
            raise DataError(table.location, f"no column {column!r}, which the model reads; rename one of {header}")
    raise no_named_column(table, column, key=role.key)


def no_named_column(table: Table, column: str, *, key: str) -> DataError:
    """The error for a name that no column of a table has; it may be that of an object, whose values are columns."""
    if inner := table.inside(column):
        choice = " or ".join(map(repr, inner[:SHOWN_VALUES]))
        return DataError(table.location, f"{column!r} is an object (task.{key}); name a value inside of it: {choice}")
    if not table.names:
        return DataError(table.location, f"no column {column!r}: the first row is not a header (task.{key})")
    similar = "".join(f"; did you mean {name!r}?" for name in get_close_matches(column, table.names, n=1))
    header = ", ".join(table.names)[:200]
    return DataError(table.location, f"no column {column!r} (task.{key}); the header has {header}{similar}")


def _check_distinct(table: Table, indices: Mapping[str, int]) -> None:
    used: dict[int, str] = {}
    for key, index in indices.items():
        other = used.setdefault(index % table.width, key)
        if other != key:
            name = f" {table.names[index]!r}" if table.names else ""
            column = f"column {index % table.width}" if not name else f"the column{name}"
            raise DataError(
                table.location, f"task.{other} and task.{key} are both {column}; expected different columns"
            )


class _Search:
    """Columns for the roles that are not configured."""

    def __init__(self, table: Table, roles: Sequence[Role], indices: dict[str, int]) -> None:
        self.table, self.roles, self.indices = table, roles, indices  # indices are added to
        self.columns = [_Content(table.column(index)) for index in range(table.width)]

    def by_name(self) -> None:
        """Give each role the column that has one of its usual names."""
        if not self.table.names:
            return
        names = [column_names.normalize(name) for name in self.table.names]
        for role in self.open_roles():
            free = self.free()
            exact = [index for index in free if names[index] in role.names or self._plain(index) in role.names]
            exact.sort(key=lambda index: _rank(role, names[index], self._plain(index)))
            similar = [
                index
                for index in free
                if names[index].rpartition("_")[2] in role.names
                and self.columns[index].fits(role)
                and not role.optional
            ]
            index = self._best(role, exact) if exact else self._best(role, similar)
            if index is not None:
                self.indices[role.key] = index
        self._languages(names)

    def _plain(self, index: int) -> str:
        return self.table.names[index].strip().casefold()

    def _best(self, role: Role, candidates: Sequence[int]) -> int | None:
        """The one candidate, or the only one that is certain by its name or its content."""
        if len(candidates) <= 1:
            return candidates[0] if candidates else None
        if self._plain(candidates[0]) == role.names[0] or role.optional:
            return candidates[0]
        fitting = [index for index in candidates if self.columns[index].fits(role)]
        if len(fitting) == 1:
            return fitting[0]
        if role.holds == "text" and fitting:
            longest, second = sorted(fitting, key=lambda index: -self.columns[index].length)[:2]
            if self.columns[longest].length >= 2 * self.columns[second].length:
                return longest
        raise unclear(self.table, self.roles, [role], candidates)

    def _languages(self, names: Sequence[str]) -> None:
        """Two columns named after languages are source and target."""
        roles = self.open_roles()
        languages = [index for index in self.free() if names[index] in column_names.LANGUAGES]
        if len(languages) == len(roles) == 2 and {role.holds for role in roles} == {"any"}:
            self.indices.update(zip((role.key for role in roles), languages, strict=True))

    def by_content(self) -> None:
        """Give the remaining roles the columns that look like them, or that are left."""
        roles = self.open_roles()
        if (
            not self.table.names
            and self.table.width == 2
            and [role.holds for role in roles]
            in (
                ["text", "label"],
                ["label", "text"],
            )
        ):
            self._text_and_label(roles)
            return
        required = [role for role in roles if not role.optional]
        free = [index for index in self.free() if not self._is_identifier(index)]
        if {role.holds for role in roles} == {"any"}:  # in the order of the columns
            free = self._without_numbers(free, len(roles))
            if not self.table.names or len(free) == len(roles):
                self.indices.update(zip((role.key for role in roles), free, strict=False))
            elif len(free) == len(required):
                self.indices.update(zip((role.key for role in required), free, strict=True))
            return
        for role in sorted(required, key=lambda role: role.holds != "text"):
            free = [index for index in self.free() if not self._is_identifier(index)]
            fitting = [index for index in free if self.columns[index].fits(role)]
            if len(fitting) == 1 or (role.holds == "label" and fitting[:1] == [0] and not self.table.names):
                self.indices[role.key] = fitting[0]
            elif fitting and role.holds == "text":
                longest, second = sorted(fitting, key=lambda index: -self.columns[index].length)[:2]
                if self.columns[longest].length >= 2 * self.columns[second].length:
                    self.indices[role.key] = longest
            elif len(free) == 1 and not fitting and self.columns[free[0]].may_be(role):
                self.indices[role.key] = free[0]

    def _without_numbers(self, free: list[int], count: int) -> list[int]:
        """Without a header, if the first column numbers the rows: the columns that are not numeric, if enough are."""
        if self.table.names or 0 not in free or not self.columns[0].counts_up:
            return free
        others = [index for index in free if not self.columns[index].numeric]
        return others if len(others) >= count else free

    def _text_and_label(self, roles: Sequence[Role]) -> None:
        """Without a header: the label, then the text, unless the content says otherwise."""
        text, label = sorted(roles, key=lambda role: role.holds != "text")
        first, second = self.columns
        swapped = first.fits(text) and second.fits(label) and not (first.fits(label) and second.fits(text))
        if not swapped and not (first.fits(label) and second.fits(text)):
            swapped = (second.distinct, second.words) < (first.distinct, first.words) and second.words <= first.words
        self.indices[label.key], self.indices[text.key] = (1, 0) if swapped else (0, 1)

    def open_roles(self) -> list[Role]:
        return [role for role in self.roles if role.key not in self.indices]

    def free(self) -> list[int]:
        used = {index % self.table.width for index in self.indices.values()}
        return [index for index in range(self.table.width) if index not in used]

    def _is_identifier(self, index: int) -> bool:
        """Whether a column only numbers or names the rows."""
        if not self.table.names:
            return False
        name = column_names.normalize(self.table.names[index])
        return not name or name.rpartition("_")[2] in ("id", "index", "uuid", "0") or name == "split"


def _rank(role: Role, *names: str) -> int:
    return min(role.names.index(name) for name in names if name in role.names)


class _Content:
    """What the first values of a column look like."""

    def __init__(self, values: Sequence[Any]) -> None:
        texts = [value for value in values if isinstance(value, str)]
        self.count = len(values)
        self.distinct = len({str(value) for value in values})
        self.numeric = bool(values) and all(as_number(value) is not None or writes_number(value) for value in values)
        self.dates = bool(parse_dates(values))
        numbers = [as_number(value) for value in values] if self.numeric else []
        self.counts_up = len(numbers) > 2 and all(
            one is not None and other is not None and one.is_integer() and one < other
            for one, other in pairwise(numbers)
        )
        self.amounts = (self.numeric and not self.counts_up) or (bool(texts) and all(map(unit_of, texts)))
        self.plain = all(isinstance(value, str | int | float | bool) for value in values)
        self.words = sum(len(text.split()) for text in texts) / max(len(texts), 1)
        self.length = sum(map(len, texts)) / max(len(texts), 1)
        self.longest = max(map(len, texts), default=0)
        self.texts = len(texts) == len(values)

    def fits(self, role: Role) -> bool:
        """Whether the column looks like what the role holds."""
        if not self.count:
            return False
        if role.holds == "text":
            return (
                self.texts
                and not self.numeric
                and 2 * self.distinct > self.count
                and (self.words >= 3 or self.length > 20)
            )
        if role.holds == "label":
            few = self.distinct <= 2 or 2 * self.distinct <= self.count
            fractions = self.numeric and self.distinct > 10
            short = self.words <= 3 and self.longest <= LONGEST_LABEL
            return self.plain and few and short and not fractions and not self.dates
        return True

    def may_be(self, role: Role) -> bool:
        """Whether nothing in the column contradicts the role."""
        if role.holds == "text":
            return self.texts and not self.numeric
        if role.holds == "label":
            recurs = self.count < 20 or 2 * self.distinct <= self.count
            return self.plain and self.words <= 5 and (recurs or self.amounts) and not self.dates
        return True
