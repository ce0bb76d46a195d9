// The text of a page that a person reads: without menus, hidden parts, and anything that can be typed into.
//
// A page can give its elements names that shadow properties: those of forms in every browser, in some also those
// of `document`. So properties are read through the prototypes, which are ours alone in a content script.
"use strict";

var threadkeepReadable = (() => {
  const TEXT_BYTES = 50 * 1024;
  // A page of 100,000 nodes may not hold up its own closing: browsers give up on one that takes seconds.
  const MOST_NODES = 50_000;
  const MOST_MS = 250;
  const MIN_PROSE = 140;

  const SKIPPED = new Set(
    ("script style noscript template link meta nav aside footer iframe object embed svg canvas video audio " +
      "picture img map input textarea select option datalist button output progress meter dialog menu").split(" "),
  );
  const SKIPPED_ROLES = new Set(
    ("navigation complementary contentinfo banner search menu menubar toolbar tablist dialog alertdialog " +
      "textbox searchbox combobox listbox spinbutton slider button").split(" "),
  );
  // Editors that draw what is typed as ordinary elements.
  const EDITORS = ["monaco-editor", "CodeMirror", "cm-editor", "ace_editor", "ProseMirror"];
  const LINES = new Set(
    ("address article blockquote body br caption center dd details div dl dt fieldset figcaption figure form h1 h2 " +
      "h3 h4 h5 h6 header hgroup hr li legend main ol p pre section summary table tbody tfoot thead tr ul").split(" "),
  );
  const CELLS = new Set(["td", "th"]);

  const getter = (prototype, name) => {
    const { get } = Object.getOwnPropertyDescriptor(prototype, name);
    return (thing) => get.call(thing);
  };
  const bodyOf = getter(Document.prototype, "body");
  const designModeOf = getter(Document.prototype, "designMode");
  const nameOf = getter(Element.prototype, "localName");
  const classesOf = getter(Element.prototype, "classList");
  const typeOf = getter(Node.prototype, "nodeType");
  const dataOf = getter(CharacterData.prototype, "data");
  const attribute = (element, name) => Element.prototype.getAttribute.call(element, name);
  const isInside = (element, selector) => Element.prototype.closest.call(element, selector) !== null;

  const isShown = (element) =>
    Element.prototype.checkVisibility.call(element, { visibilityProperty: true }) ||
    getComputedStyle(element).display === "contents"; // has no box of its own, its children do

  const isTypedInto = (element) => {
    const editable = attribute(element, "contenteditable");
    if (editable !== null && editable.toLowerCase() !== "false") return true;
    const classes = classesOf(element);
    return EDITORS.some((name) => classes.contains(name));
  };

  const isKept = (element) => {
    const name = nameOf(element);
    if (name === "br") return true;
    if (SKIPPED.has(name) || SKIPPED_ROLES.has(attribute(element, "role"))) return false;
    if (name === "header" && !isInside(element, "main, article, [role=main]")) return false;
    if (attribute(element, "aria-hidden") === "true" || isTypedInto(element)) return false;
    return isShown(element);
  };

  // Walk what is kept below `root`; `visitor.text` may return true to end it.
  const walk = (root, visitor) => {
    const filter = NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT;
    const walker = Document.prototype.createTreeWalker.call(document, root, filter);
    const until = performance.now() + MOST_MS;
    let node = root;
    for (let left = MOST_NODES; left > 0; left -= 1) {
      if (left % 1024 === 0 && performance.now() > until) return;
      if (typeOf(node) === Node.TEXT_NODE) {
        if (visitor.text(dataOf(node))) return;
      } else if (isKept(node)) {
        visitor.enter(node);
        const child = walker.firstChild();
        if (child) {
          node = child;
          continue;
        }
        visitor.leave(node);
      }
      let next = walker.nextSibling();
      while (!next) {
        const parent = walker.parentNode();
        if (!parent) return;
        visitor.leave(parent);
        next = walker.nextSibling();
      }
      node = next;
    }
  };

  const prose = (weight) => weight.text - weight.links;
  const isMain = (element) =>
    ["main", "article"].includes(nameOf(element)) || attribute(element, "role") === "main";

  // How much text, and how much of it in links, each element holds.
  const weigh = (body) => {
    const open = [];
    const mains = [];
    let whole = null;
    const close = () => {
      const done = open.pop();
      const parent = open.at(-1);
      if (isMain(done.element)) mains.push(done);
      if (!parent) {
        whole = done;
        return;
      }
      parent.text += done.text;
      parent.links += nameOf(done.element) === "a" ? done.text : done.links;
      if (!parent.heaviest || prose(done) > prose(parent.heaviest)) parent.heaviest = done;
    };
    walk(body, {
      enter: (element) => void open.push({ element, text: 0, links: 0, heaviest: null }),
      leave: close,
      text: (data) => {
        if (open.length > 0) open.at(-1).text += Math.min(data.length, TEXT_BYTES);
      },
    });
    while (open.length > 0) close(); // where the walk was ended early
    return { mains, whole };
  };

  // The element with the text: <main> or <article> where it holds the better half, else the block that does.
  const textRoot = (body) => {
    const { mains, whole } = weigh(body);
    if (whole === null) return null;
    const main = mains.reduce((best, one) => (best && prose(best) >= prose(one) ? best : one), null);
    if (main && prose(main) >= MIN_PROSE && prose(main) * 2 >= prose(whole)) return main.element;
    let chosen = whole;
    while (chosen.heaviest && prose(chosen) > MIN_PROSE && prose(chosen.heaviest) >= prose(chosen) * 0.8) {
      if (!["article", "div", "main", "section"].includes(nameOf(chosen.heaviest.element))) break;
      chosen = chosen.heaviest;
    }
    return chosen.element;
  };

  // Lines of text: white space is one space, except in <pre>, which keeps its own.
  const written = (root) => {
    const lines = [];
    let line = "";
    let length = 0;
    let preformatted = 0;
    const endLine = () => {
      const ended = preformatted > 0 ? line.replace(/^\n+|\s+$/g, "") : line.trim();
      if (ended !== "") lines.push(ended);
      length += ended.length + 1;
      line = "";
    };
    walk(root, {
      enter: (element) => {
        const name = nameOf(element);
        if (LINES.has(name)) endLine();
        if (CELLS.has(name) && !preformatted) line += " ";
        if (name === "pre") preformatted += 1;
      },
      leave: (element) => {
        const name = nameOf(element);
        if (LINES.has(name)) endLine();
        if (name === "pre") preformatted -= 1;
      },
      text: (data) => {
        const start = data.slice(0, TEXT_BYTES);
        if (preformatted > 0) line += start;
        else line += start.replace(/\s+/g, " ").slice(line.endsWith(" ") && /^\s/.test(start) ? 1 : 0);
        return length + line.length > TEXT_BYTES;
      },
    });
    endLine();
    return lines.join("\n");
  };

  // Cut to so many bytes of UTF-8, never inside a character; control characters say nothing to a reader.
  const cut = (text, bytes) => {
    const clean = text.slice(0, bytes).toWellFormed().replace(/[\0-\x08\x0b-\x1f\x7f]/g, "");
    const { read } = new TextEncoder().encodeInto(clean, new Uint8Array(bytes));
    return clean.slice(0, read);
  };

  const text = () => {
    const body = bodyOf(document);
    if (body === null || designModeOf(document) === "on") return "";
    const root = textRoot(body);
    return root === null ? "" : cut(written(root), TEXT_BYTES);
  };

  return { cut, getter, text };
})();
