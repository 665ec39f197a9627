"""The snippet that puts a badge on another page. Not covered: the picture itself (`views/badges.py`)."""

from typing import Any

from django import template

register = template.Library()


@register.inclusion_tag("_badge_snippet.html", takes_context=True)
def badge_snippet(context: template.Context, image: str) -> dict[str, Any]:
    """`image` is the path of a badge; a click on it leads to the page that is being shown."""
    request = context["request"]
    picture, page = request.build_absolute_uri(image), request.build_absolute_uri(request.path)
    return {
        "image": image,
        "markdown": f"[![kbench]({picture})]({page})",
        "html": f'<a href="{page}"><img src="{picture}" alt="kbench"></a>',
    }
