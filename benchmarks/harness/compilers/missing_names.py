"""Decides whether an error of nvcc could be caused by missing headers.

The thinner headers lack some names, and so may an incorrect source. If the error gives a name, another attempt is
made only if a header of torch contains that word, so that a misspelt name does not cost a slow compilation. Not
covered: which header has it, and g++ (`gxx.py`).
"""

import re
import subprocess
from pathlib import Path

_NAMED = re.compile(
    r'(?:error|catastrophic error): (?:namespace "[^"]*"|class "[^"]*") has no member(?: class)? "(\w+)"'
    r'|error: identifier "(\w+)" is undefined'
)
# these do not say which name they miss
_UNNAMED = re.compile(
    r'error: (?:name followed by "::" must be|name must be a namespace name|incomplete type|no operator "'
    r'|static assertion failed with "kbench: not in the small pybind11"|too many arguments in (?:function|macro)'
    r"|no instance of|no suitable|a template argument list is not allowed|\w+ is not a template)"
)
_MAX_NAMES = 50
_NAME_MAX = 200  # characters; no header has a longer one, and grep takes half a minute to look for one of 60,000


def more_headers_may_help(log: str, headers: Path) -> bool:
    """`log` is what nvcc said, `headers` the folder of all headers that a thinner choice leaves out."""
    if _UNNAMED.search(log):
        return True
    names = {first or second for first, second in _NAMED.findall(log)}
    known = [name for name in sorted(names) if len(name) <= _NAME_MAX]
    return bool(known) and _any_word(known[:_MAX_NAMES], headers)


def _any_word(words: list[str], folder: Path) -> bool:
    patterns = [part for word in words for part in ("-e", word)]
    done = subprocess.run(["grep", "-rqwF", *patterns, str(folder)], capture_output=True, check=False)
    return done.returncode == 0
