"""What the console tells monitors at its own address: the metrics of its box, and whether it is alive and ready."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from starlette.responses import Response

from seriatim.box.box import MessageBox
from seriatim.errors import SeriatimError
from seriatim.listening.threads import Shared

if TYPE_CHECKING:
    from seriatim.metrics.collector import Collector


class Told:
    def __init__(self, box: MessageBox) -> None:
        self._box = box
        self._collector: Collector | None = None
        self._is_ready = Shared(self._answers)

    def metrics(self, accept: str) -> Response:
        from seriatim.metrics.box_reading import BoxReading  # noqa: PLC0415 -- of an extra
        from seriatim.metrics.collector import Collector  # noqa: PLC0415
        from seriatim.metrics.server import metrics_of  # noqa: PLC0415

        if self._collector is None:
            self._collector = Collector(box=BoxReading(lambda: self._box, closes=False))
        kind, content = metrics_of(self._collector, accept)
        return Response(content, media_type=None, headers={"content-type": kind})

    async def health(self, asked: str) -> Response:
        """Whether the console is alive (``healthz``), and whether its box answers and is enabled (``readyz``)."""
        if asked == "healthz":
            return _as_json(200, {"status": "alive"})
        if await self._is_ready.get():
            return _as_json(200, {"status": "ready", "reasons": []})
        # Why is for those who may look.
        return _as_json(503, {"status": "not ready", "reasons": ["the box doesn't answer, or is disabled"]})

    def _answers(self) -> bool:
        try:
            with self._box.access.transaction() as transaction:
                transaction.check_enabled()
        except SeriatimError:
            return False
        return True


def _as_json(status: int, told: dict[str, object]) -> Response:
    return Response(json.dumps(told) + "\n", status_code=status, media_type="application/json")
