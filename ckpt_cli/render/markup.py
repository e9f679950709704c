"""Build HTML and SVG as elements: text never becomes a tag, because nothing is pasted together."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, tostring

from ckpt_cli.render.text import StyledLine, safe_text


def element(tag: str, **attributes: str | int | float) -> Element:
    """Return an element; `class_` and `text_anchor` become `class` and `text-anchor`."""
    return Element(tag, _named(attributes))


def add(
    parent: Element, tag: str, text: str | None = None, **attributes: str | int | float
) -> Element:
    """Add an element with a text, in which invisible characters are escaped; return it."""
    child = SubElement(parent, tag, _named(attributes))
    if text is not None:
        child.text = safe_text(text, newlines=True)
    return child


def add_spans(parent: Element, line: StyledLine, tag: str = "span") -> None:
    """Add the pieces of a styled line; their styles become classes."""
    for text, style in line.spans:
        add(parent, tag, text, **({} if style == "plain" else {"class_": style}))


def html(root: Element) -> str:
    """Return an element as HTML, with all text escaped."""
    return tostring(root, encoding="unicode", method="html")


def xml(root: Element) -> str:
    """Return an element as XML, with all text escaped."""
    return tostring(root, encoding="unicode")


def _named(attributes: dict[str, str | int | float]) -> dict[str, str]:
    return {
        name.rstrip("_").replace("_", "-"): safe_text(
            f"{value:g}" if isinstance(value, float) else str(value)
        )
        for name, value in attributes.items()
    }
