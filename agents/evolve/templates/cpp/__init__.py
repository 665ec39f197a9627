"""C++ templates: their spaces as data; the texts lie beside this file."""

from .pooling import POOL_FORWARD

TEMPLATES = (POOL_FORWARD,)
