"""Addresses of the data behind the compare page. Not covered: the data itself (`api/comparison.py`)."""

from urllib.parse import urlencode

from django import template
from django.urls import reverse

register = template.Library()


@register.simple_tag(takes_context=True)
def compare_data(context: template.Context, part: str, form: str) -> str:
    """Where the numbers of one part of the page are; everything it shows where `part` is empty."""
    field = context["field"]
    query = {
        "methods": context["slugs"],
        "suite": field.suite.slug,
        "device": field.device.slug,
        "p": f"{context['p']:g}",
        "part": part,
        "format": form,
    }
    filled = {name: value for name, value in query.items() if value}
    return f"{reverse('api:compare')}?{urlencode(filled, safe=',')}"
