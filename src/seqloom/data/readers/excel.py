"""Sheets of Excel files (needs openpyxl)."""

import io
import warnings
import zipfile
from pathlib import Path
from typing import Any

from seqloom.data.readers import text_files
from seqloom.data.readers.expansion import ExpansionError, check_expansion
from seqloom.data.readers.text_files import DataError

SUFFIXES = (".xlsx", ".xlsm")
CELL = 8  # bytes of a cell without a value

Row = tuple[Any, ...]


def workbook(path: Path) -> tuple[Path | None, str]:
    """The Excel file that a path names, and the sheet in it: ``book.xlsx`` or ``book.xlsx/Sheet2``."""
    archive = text_files.enclosing_archive(path)
    file = archive or path
    if file.suffix.lower() not in SUFFIXES:
        return None, ""
    return file, path.relative_to(archive).as_posix() if archive else ""


def read_sheet(path: Path, openpyxl: Any) -> list[Row]:
    """The rows of the sheet that a path names, or of the only one; without empty cells at the end of a row."""
    file, name = workbook(path)
    assert file is not None  # noqa: S101  as the caller knows
    if not file.exists():
        raise text_files.no_such_file(file)
    try:
        sheets = _sheets(file.read_bytes(), openpyxl)
    except ExpansionError as error:
        raise DataError(str(file), str(error)) from None
    except (OSError, KeyError, ValueError, TypeError, AttributeError, LookupError, SyntaxError, EOFError) as error:
        raise DataError(str(file), f"not an Excel file, or damaged ({error})") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("openpyxl", "zipfile", "xml"):
            raise DataError(str(file), f"not an Excel file, or damaged ({error})") from None
        raise
    filled = {title: rows for title, rows in sheets.items() if any(rows)}
    if name and name not in sheets:
        raise DataError(str(path), f"no sheet {name!r}; the file has {', '.join(sheets)}")
    if not name and len(filled) > 1:
        raise DataError(str(file), f"has several sheets: {', '.join(filled)}; name one: {file}/{next(iter(filled))}")
    return sheets[name] if name else next(iter(filled.values()), [])


def _sheets(data: bytes, openpyxl: Any) -> dict[str, list[Row]]:
    """The rows of each sheet by its title; ExpansionError if the file becomes too large."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        check_expansion(len(data), sum(member.file_size for member in archive.infolist()))
    size, sheets = 0, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and charts
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # what the header claims, of which there may be nothing
            rows = sheets[sheet.title] = list[Row]()
            for row in sheet.iter_rows(values_only=True):
                size += CELL * (len(row) + 1)  # one cell far to the right or below needs many empty ones
                check_expansion(len(data), size)
                rows.append(_without_empty_end(tuple(row)))
    return sheets


def _without_empty_end(row: Row) -> Row:
    end = len(row)
    while end and row[end - 1] is None:
        end -= 1
    return row[:end]
