"""The page of the public data set and its files, which can be read in parts and asked for only when they have changed.

Whoever reads a file in parts sends its ETag as `If-Range`, so parts of two exports are never mixed. Does NOT write the
files.
"""

import re
from collections.abc import AsyncIterator
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO

from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_safe

from benchmarks.dataset import files

PIECE_BYTES = 256 * 1024
CACHED_S = 300
RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
NO_FILE = "There is no such file. The data page lists those of the last export."


@require_safe
def data_page(request: HttpRequest) -> HttpResponse:
    data = files.current()
    context = {
        "data": data,
        "made_at": datetime.fromisoformat(data["made_at"]) if data else None,
        "licence": settings.KBENCH_ENTRY_LICENCE,
        "address": f"{request.scheme}://{request.get_host()}",
    }
    return render(request, "data.html", context)


@require_safe
async def data_file(request: HttpRequest, table: str) -> HttpResponseBase:
    file, about = await sync_to_async(_opened)(table)
    etag = f'"{about["sha256"]}"'
    size: int = about["size_bytes"]
    response: HttpResponseBase
    if request.headers.get("If-None-Match") in (etag, f"W/{etag}"):
        file.close()
        response = HttpResponse(status=HTTPStatus.NOT_MODIFIED)
    else:
        asked = request.headers.get("Range", "") if request.headers.get("If-Range", etag) == etag else ""
        response = _part(file, _range_of(asked, size), size, head=request.method == "HEAD")
        response.headers["Content-Type"] = "application/vnd.apache.parquet"
        response.headers["Content-Disposition"] = f'attachment; filename="kbench-{about["file"]}"'
        response.headers["Accept-Ranges"] = "bytes"
    response.headers["ETag"] = etag
    patch_cache_control(response, public=True, max_age=CACHED_S)
    return response


def _opened(table: str) -> tuple[BinaryIO, dict[str, Any]]:
    """Asks again once: an export may have replaced the files meanwhile."""
    for _ in range(2):
        manifest = files.current()
        found: tuple[Path, dict[str, Any]] | None = files.file_of(manifest, table) if manifest else None
        if found is None:
            break
        try:
            return found[0].open("rb"), found[1]
        except FileNotFoundError:
            continue
    raise Http404(NO_FILE)


def _range_of(asked: str, size: int) -> tuple[int, int] | None:
    """First and last byte; None for the whole. The first is behind the last where nothing can be sent."""
    found = RANGE.fullmatch(asked.strip())
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if not first:
        return (size, size - 1) if int(last) == 0 else (max(0, size - int(last)), size - 1)
    return int(first), min(int(last), size - 1) if last else size - 1


def _part(file: BinaryIO, part: tuple[int, int] | None, size: int, *, head: bool) -> HttpResponseBase:
    first, last = part or (0, size - 1)
    if first > last:
        file.close()
        return HttpResponse(
            status=HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers={"Content-Range": f"bytes */{size}"}
        )
    headers = {"Content-Length": str(last - first + 1)}
    if part:
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    status = HTTPStatus.PARTIAL_CONTENT if part else HTTPStatus.OK
    if head:
        file.close()
        return HttpResponse(status=status, headers=headers)
    return StreamingHttpResponse(_pieces(file, first, last), status=status, headers=headers)


async def _pieces(file: BinaryIO, first: int, last: int) -> AsyncIterator[bytes]:
    with file:
        await sync_to_async(file.seek)(first)
        left = last - first + 1
        while left > 0 and (piece := await sync_to_async(file.read)(min(PIECE_BYTES, left))):
            left -= len(piece)
            yield piece
