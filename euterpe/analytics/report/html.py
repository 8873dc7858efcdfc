"""HTML elements as escaped strings: any string that is not `Html` is text and is escaped."""

from html import escape


class Html(str):
    """Markup whose text is already escaped."""

    __slots__ = ()


Content = Html | str
_VOID = frozenset({"meta", "br"})
_RENAMED = {"class_": "class", "http_equiv": "http-equiv", "for_": "for"}


def text(value: str) -> Html:
    """Escape untrusted text. Replace unprintable characters: some of them reverse the text direction."""
    shown = (
        value
        if value.isprintable()
        else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in value)
    )
    return Html(escape(shown))


def join(*parts: Content) -> Html:
    return Html("".join(part if isinstance(part, Html) else text(part) for part in parts))


def tag(name: str, /, *children: Content, **attributes: str | float | None) -> Html:
    """Return an element. Attributes that are None are left out; `aria_label` is written aria-label."""
    written = "".join(
        f' {_RENAMED.get(key) or key.replace("_", "-")}="{text(_value(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{written}/>")
    return Html(f"<{name}{written}>{join(*children)}</{name}>")


def _value(value: str | float) -> str:
    """Return the value as text, with coordinates rounded to a tenth of a pixel."""
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
