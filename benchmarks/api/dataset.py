"""GET /data: the files of the public data set, with columns, units, sizes and hashes. Does NOT send the files."""

from datetime import datetime
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from ninja import Field, Router, Schema

from benchmarks.dataset import files

from .problems import Problem

router = Router()


class DataColumnOut(Schema):
    name: str
    type: str = Field(description="text, list of texts, integer, number, flag or time; every column can be null")
    unit: str
    about: str


class DataTableOut(Schema):
    name: str
    about: str
    url: str = Field(description="path of the Parquet file; takes ranges, and If-None-Match with its sha256 in quotes")
    rows: int
    size_bytes: int
    sha256: str
    columns: list[DataColumnOut]


class DataSetOut(Schema):
    schema_version: int = Field(description="raised when the meaning of a column changes or a column is removed")
    made_at: datetime
    tables: list[DataTableOut]


@router.get("", response=DataSetOut, summary="The public data set as Parquet files", url_name="data")
def data(request: HttpRequest) -> Any:
    """Written every night. Sources may be used under the licence in the column `licence` of their submission."""
    manifest = files.current()
    if manifest is None:
        raise Problem(HTTPStatus.NOT_FOUND, "not-written", "The data set has not been written yet; try again tomorrow.")
    tables = [{**table, "url": reverse("data-file", args=[table["name"]])} for table in manifest["tables"]]
    return {**manifest, "tables": tables}
