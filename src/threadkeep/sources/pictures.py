"""Pictures in a conversation, as each program writes them down; their bytes are never touched."""

from typing import Any, Final

from threadkeep.knowledge.records import Image
from threadkeep.sources.common import rows, table, text

_DATA: Final = "data:"
_UNKNOWN_TYPE: Final = "image/png"
# Longer than any media type: what follows it in a data URL are the bytes.
_HEAD: Final = 100
_TYPES: Final = ("mimeType", "mime_type", "mediaType", "media_type", "mime")


def picture(block: object) -> Image | None:
    """Read a block that holds a picture, or names one; None if it is anything else."""
    fields = table(block)
    inside = table(fields.get("inlineData")) or table(fields.get("fileData"))
    if inside:
        return _image(inside)
    kind = text(fields.get("type"))
    if "image" not in kind and kind not in {"file", "media"}:
        return None
    found = _image(table(fields.get("source")) or fields)
    # Anything else than a picture may hang on a message as a file.
    is_picture = "image" in kind or (found is not None and _is_picture(found.media_type))
    return found if is_picture else None


def _is_picture(media_type: str) -> bool:
    """Some programs name only the first half of a media type."""
    return media_type.partition("/")[0] == "image"


def pictures(content: object) -> tuple[Image, ...]:
    """Read all pictures of a message's content, or of what a tool gave back."""
    found = [picture(block) for block in rows(content)]
    return tuple(image for image in found if image is not None)


def linked(url: str, media_type: str = "") -> Image:
    """Make the picture that an address leads to; `data:` addresses say themselves what they are."""
    named = _type_in(url) if url.startswith(_DATA) else ""
    return Image(named or media_type or _UNKNOWN_TYPE, url=url)


def _image(fields: dict[str, Any]) -> Image | None:
    media_type = next(filter(None, (text(fields.get(name)) for name in _TYPES)), "")
    url = _address(fields)
    if url:
        return linked(url, media_type)
    data = text(fields.get("data")) or text(fields.get("image"))
    if data.startswith((_DATA, "http://", "https://")):
        return linked(data, media_type)
    return Image(media_type or _UNKNOWN_TYPE, data=data) if data else None


def _address(fields: dict[str, Any]) -> str:
    """Give the address: a text, or an object around it."""
    for name in ("url", "image_url", "fileUri", "file_uri"):
        value = fields.get(name)
        found = text(value) or text(table(value).get("url"))
        if found:
            return found
    return ""


def _type_in(url: str) -> str:
    return url[len(_DATA) : _HEAD].partition(",")[0].partition(";")[0]
