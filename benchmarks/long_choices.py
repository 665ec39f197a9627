"""Lists of a thousand choices: the same HTML as Django's, without a template for each line of it."""

from typing import Any

from django import forms
from django.forms.utils import flatatt
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString


class LongSelect(forms.Select):
    """Of which one is chosen."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        chosen = set(self.format_value(value))
        lines = ((key, " selected" if str(key) in chosen else "", title) for key, title in self.choices)
        options = format_html_join("\n", '<option value="{}"{}>{}</option>', lines)
        own = {"name": name, "multiple": self.allow_multiple_selected, **(attrs or {})}
        return format_html("<select{}>{}</select>", flatatt(self.build_attrs(self.attrs, own)), options)


class LongSelectMultiple(LongSelect, forms.SelectMultiple):
    """Of which several are."""
