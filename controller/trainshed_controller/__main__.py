"""`python -m trainshed_controller`: runs the operator until it receives a signal."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time

from trainshed_controller.depth import allow_deep_objects
from trainshed_controller.operator import Operator
from trainshed_controller.settings import SettingsError, read_platform

_PLAIN = frozenset(vars(logging.makeLogRecord({})))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: what was logged, and the fields that came with it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {k: v for k, v in vars(record).items() if k not in _PLAIN and k != "message"}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up_logging() -> None:
    """Log to standard error; what kopf says of every event only from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for name in ("kopf", "aiohttp.access"):
        logging.getLogger(name).setLevel(logging.WARNING)


def main() -> None:
    """Run the operator; an unusable setting ends it with one line."""
    try:
        platform = read_platform(os.environ)
    except SettingsError as error:
        sys.exit(str(error))
    set_up_logging()
    allow_deep_objects()
    asyncio.run(Operator(platform).run(asyncio.Event()))


if __name__ == "__main__":
    main()
