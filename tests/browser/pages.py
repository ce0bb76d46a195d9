"""Pages that the tests visit, by path; every host name shows the same ones."""

PROSE = "The spool keeps what was said until somebody reads it. " * 8

PAGES = {
    "/": f"<!doctype html><title>Spools &amp; threads</title><main><p>{PROSE}</p></main>",
    "/other": "<!doctype html><title>Other</title><p>Another page.</p>",
    "/tall": "<!doctype html><title>Tall</title><body style='margin:0'>"
    "<div style='height:10000px'>tall</div>",
    "/article": f"""<!doctype html><title>Article</title>
<style>
  .gone {{ display: none }} .unseen {{ visibility: hidden }} .through {{ display: contents }}
</style>
<header>site header</header><nav>menu entry</nav>
<div role="search"><input name="q" value="typed query"></div>
<main>
  <header><h1>How  to
    wind</h1></header>
  <p>First <b>bold</b><i> and</i> plain.<br>Next line.</p>
  <div class="through"><p>{PROSE}</p></div>
  <pre><code>def wind(spool):
    return spool + 1
</code></pre>
  <table><tr><th>name</th><th>turns</th></tr><tr><td>red</td><td>12</td></tr></table>
  <aside>see also</aside>
  <p class="gone">not displayed</p><p class="unseen">not visible</p>
  <p hidden>hidden by attribute</p>
  <span aria-hidden="true">for nobody</span>
  <form><label>Password</label><input type="password" value="hunter2">
    <textarea>typed text</textarea><select><option>chosen</option></select>
    <button>press</button></form>
  <div contenteditable>typed note</div><div role="textbox">typed role</div>
  <div class="monaco-editor"><div>typed code</div></div>
  <script>const inScript = 1;</script><template>in template</template>
</main>
<footer>imprint</footer>""",
    "/app": "<!doctype html><title>First view</title><main>first view</main>",
    "/blocks": "<!doctype html><title>Blocks</title><div id=menu>"
    + "<a href=/>link text</a> " * 60
    + f"</div><div><div><section><p>{PROSE}</p><p>{PROSE}</p></section></div></div>",
}

# A page that does what it can to be in the way: it comes before anything of ours has run in it.
HOSTILE = f"""<!doctype html><title>Hostile</title>
<script>
  for (const name of ["title", "referrer", "body", "visibilityState", "documentElement"])
    Object.defineProperty(Document.prototype, name, {{ get() {{ throw new Error("tampered"); }} }});
  Object.prototype.kind = "switch";
  Object.prototype.toJSON = () => "tampered";
  Object.defineProperty(Object.prototype, "url", {{ get: () => "http://evil.test/", set() {{}} }});
  Array.prototype.push = Array.prototype.map = () => {{ throw new Error("tampered"); }};
  String.prototype.slice = String.prototype.replace = () => "tampered";
  Date.now = performance.now = () => NaN;
  JSON.stringify = JSON.parse = () => "tampered";
  Promise.prototype.then = function () {{ return this; }};
  EventTarget.prototype.addEventListener = () => undefined;
  Element.prototype.getAttribute = () => "tampered";
  History.prototype.pushState = () => {{ throw new Error("tampered"); }};
  addEventListener("pagehide", (event) => event.stopImmediatePropagation(), true);
  window.chrome = {{ runtime: {{ sendMessage: () => Promise.reject() }} }};
  window.threadkeepStop = () => undefined;
</script>
<main><h1>What it says</h1><p>{PROSE}</p>
<i>Before</i><form>In a form<p hidden>hidden</p><input name="localName"><input name="getAttribute">
<input name="nodeType"><input name="classList"><input name="closest"><input name="checkVisibility">
</form></main>
<img name="title"><img name="body"><img name="createTreeWalker"><img name="visibilityState">
<img name="addEventListener"><img name="referrer"><img name="documentElement"><img id="navigation">
<img id="threadkeepReadable"><img id="threadkeepVisit"><img id="performance"><img id="__proto__">"""

# What such a page does later: it makes up that it was left, and that it was shown again.
MADE_UP_EVENTS = """
    dispatchEvent(new PageTransitionEvent("pagehide"));
    dispatchEvent(new PageTransitionEvent("pageshow", {persisted: true}));
    dispatchEvent(new Event("visibilitychange"));
"""
