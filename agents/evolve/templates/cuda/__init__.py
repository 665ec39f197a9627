"""CUDA templates."""

from ..base import Template

TEMPLATES: tuple[Template, ...] = ()
