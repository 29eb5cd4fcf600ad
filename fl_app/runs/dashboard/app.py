# SPDX-License-Identifier: GPL-3.0-or-later
"""Serve the page: static files, the list of runs, and a stream of server-sent events."""

from __future__ import annotations

import gzip
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from plotly.offline import get_plotlyjs
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fl_app.runs.dashboard.access import HEADERS, Access
from fl_app.runs.dashboard.stream import Stream

STATIC = Path(str(files("fl_app.runs.dashboard") / "static"))


def make_app(stream: Stream, access: Access) -> ASGIApp:
    """Make the application that serves the runs of a stream."""

    async def page(_request: Request) -> Response:
        return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})

    async def runs(_request: Request) -> Response:
        return JSONResponse(await stream.runs())

    async def events(request: Request) -> Response:
        names = request.query_params.getlist("run")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(stream.events(names), media_type="text/event-stream", headers=headers)

    async def plotly(request: Request) -> Response:
        # The address names no version, so that browsers ask again after a day.
        headers = {"Cache-Control": "max-age=86400", "Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            packed = {**headers, "Content-Encoding": "gzip"}
            return Response(_packed_plotly(), media_type="text/javascript", headers=packed)
        return Response(get_plotlyjs(), media_type="text/javascript", headers=headers)

    routes = [
        Route("/", page),
        Route("/api/runs", runs),
        Route("/api/events", events),
        Route("/plotly.min.js", plotly),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return _Guarded(Starlette(routes=routes), access)


class _Guarded:
    """Ask `Access` before every request, and add the headers that keep a page to itself."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        refusal = self._access.refusal(Request(scope))
        await (self._app if refusal is None else refusal)(scope, receive, send_with_headers)


@lru_cache(maxsize=1)
def _packed_plotly() -> bytes:
    return gzip.compress(get_plotlyjs().encode(), 6)
