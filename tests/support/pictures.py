"""Small pictures of pages: PNG with a palette, a quarter of what a browser writes."""

import base64
import struct
import zlib
from pathlib import Path

from playwright.sync_api import Page

# A page has a few hundred colours, most of them shades of its letters. Those that are seen most
# make the palette; each other one becomes the nearest of them.
_QUANTIZE = """async (png) => {
  const blob = await (await fetch("data:image/png;base64," + png)).blob();
  const bitmap = await createImageBitmap(blob);
  const { width, height } = bitmap;
  const context = new OffscreenCanvas(width, height).getContext("2d");
  context.drawImage(bitmap, 0, 0);
  const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
  const counts = new Map();
  for (const one of pixels) counts.set(one, (counts.get(one) ?? 0) + 1);
  const palette = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 256).map(([one]) => one);
  const parts = (one) => [one & 255, (one >> 8) & 255, (one >> 16) & 255];
  const colours = palette.map(parts);
  const nearest = (one) => {
    const [r, g, b] = parts(one);
    let best = 0, least = Infinity;
    colours.forEach(([x, y, z], number) => {
      const far = (r - x) ** 2 + (g - y) ** 2 + (b - z) ** 2;
      if (far < least) [best, least] = [number, far];
    });
    return best;
  };
  const numbers = new Map([...counts.keys()].map((one) => [one, nearest(one)]));
  const indexes = Uint8Array.from(pixels, (one) => numbers.get(one));
  const text = await new Promise((done) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.split(",")[1]);
    reader.readAsDataURL(new Blob([indexes]));
  });
  return { width, height, palette: colours.flat(), indexes: text };
}"""


def keep_picture(page: Page, place: Path) -> None:
    """Write a picture of what a page shows."""
    shot = base64.b64encode(page.screenshot(animations="disabled")).decode()
    browser = page.context.browser
    assert browser is not None  # the page is open in it
    desk = browser.new_page()
    try:
        found = desk.evaluate(_QUANTIZE, shot)
    finally:
        desk.close()
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(
        png_of(
            found["width"],
            found["height"],
            bytes(found["palette"]),
            base64.b64decode(found["indexes"]),
        )
    )


def png_of(width: int, height: int, palette: bytes, indexes: bytes) -> bytes:
    """Write a PNG of one byte for each pixel, the number of a colour."""
    rows = b"".join(b"\0" + indexes[at : at + width] for at in range(0, width * height, width))
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = (
        (b"IHDR", head),
        (b"PLTE", palette),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*one) for one in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
