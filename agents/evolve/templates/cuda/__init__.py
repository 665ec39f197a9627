"""CUDA templates: their spaces as data; the texts lie beside this file.

Every text has two layers: a plain core that knows nothing of torch and compiles in about a second, and, behind a mark,
what a submission needs around it. `calls.py` says how a core is called alone.
"""

from . import classes, convolution, library, linear, norms, pooling
from .calls import CALLS, CoreCall, plain_core

__all__ = ["CALLS", "TEMPLATES", "CoreCall", "plain_core"]

TEMPLATES = (
    *pooling.TEMPLATES,
    *norms.TEMPLATES,
    *classes.TEMPLATES,
    *linear.TEMPLATES,
    *convolution.TEMPLATES,
    *library.TEMPLATES,
)
