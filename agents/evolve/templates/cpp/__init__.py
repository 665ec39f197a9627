"""C++ templates: their spaces as data; the texts lie beside this file."""

from .linear import LINEAR_FORWARD
from .pooling import POOL_FORWARD

TEMPLATES = (POOL_FORWARD, LINEAR_FORWARD)
