"""Tables as CSV: one header, one line per row, absent is empty.

Does NOT choose what goes into a table.
"""

import csv
import io
from collections.abc import Iterable, Sequence

from django.http import HttpResponse

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def table(name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> HttpResponse:
    """An answer that a browser saves as `kbench-NAME.csv`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    response = HttpResponse(text.getvalue(), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'inline; filename="kbench-{name}.csv"'
    return response


def _cell(value: object) -> object:
    """A text that a spreadsheet would run as a formula stays text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
