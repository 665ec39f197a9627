"""What people write, on a page: plain text, with links where an address stands.

Does NOT know Markdown or any other markup.
"""

import re
from urllib.parse import urlsplit

from django import template
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe

register = template.Library()
_ADDRESS = re.compile(r"https?://[!#-;=?-_a-z~]{1,500}")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}\.){1,8}[a-z]{2,24}")
_AFTER = ".,;:!?)]'*_"  # belongs to the sentence and not to the address


@register.filter
def plain_text(text: str) -> SafeString:
    """Escaped; what is clearly the address of a page is a link that shows the whole of it."""
    parts: list[SafeString] = []
    at = 0
    for found in _ADDRESS.finditer(text):
        url = found[0].rstrip(_AFTER)
        if _is_plain(url):
            link = format_html('<a href="{}" rel="nofollow ugc noopener noreferrer">{}</a>', url, url)
            parts += [conditional_escape(text[at : found.start()]), link]
            at = found.start() + len(url)
    return mark_safe("".join([*parts, conditional_escape(text[at:])]))  # noqa: S308 - each part is escaped


def _is_plain(url: str) -> bool:
    """Names a host in ASCII letters, and neither a user nor a port nor anything that programs read differently."""
    try:
        netloc = urlsplit(url).netloc
    except ValueError:
        return False
    return "\\" not in url and bool(_HOST.fullmatch(netloc.lower()))
