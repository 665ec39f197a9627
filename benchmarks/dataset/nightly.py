"""Starts an export in a process of its own, so that its minutes and its memory are not those of housekeeping.

Does NOT decide whether one is due: `files.is_due` does.
"""

import logging
import subprocess
import sys
import threading

logger = logging.getLogger(__name__)
COMMAND = ("nice", "-n", "19", sys.executable, "-m", "django", "export_records")  # timings on this machine go first
_at_work = threading.Lock()


def start() -> bool:
    """False: this process has one at work."""
    if not _at_work.acquire(blocking=False):
        return False
    threading.Thread(target=_run, daemon=True, name="data set").start()
    return True


def _run() -> None:
    try:
        done = subprocess.run(COMMAND, capture_output=True, text=True, check=False)
        if done.returncode:
            logger.error("the data set was not written: %s", done.stderr[-2000:])
        else:
            logger.info("%s", done.stdout.strip())
    finally:
        _at_work.release()
