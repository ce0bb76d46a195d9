// The graph of entities: drag to move it, Ctrl and the wheel or the buttons to come nearer, and
// whoever is pointed at or focused stands out with all that hang together with it.

const NEAREST = 6;
const FARTHEST = 0.6;
const STEP = 1.3;

function start(holder) {
  const svg = holder.querySelector("svg");
  const moved = svg.querySelector("[data-moved]");
  const view = { x: 0, y: 0, scale: 1 };

  const show = () => moved.setAttribute(
    "transform", `translate(${view.x} ${view.y}) scale(${view.scale})`,
  );

  const zoom = (factor, at) => {
    const scale = Math.min(NEAREST, Math.max(FARTHEST, view.scale * factor));
    view.x = at.x - (at.x - view.x) * (scale / view.scale);
    view.y = at.y - (at.y - view.y) * (scale / view.scale);
    view.scale = scale;
    show();
  };

  const place = (event) => {
    const box = svg.getScreenCTM().inverse();
    return new DOMPoint(event.clientX, event.clientY).matrixTransform(box);
  };

  const middle = () => ({ x: svg.viewBox.baseVal.width / 2, y: svg.viewBox.baseVal.height / 2 });

  holder.addEventListener("click", (event) => {
    const wanted = event.target.closest("[data-zoom]")?.dataset.zoom;
    if (wanted === "in") zoom(STEP, middle());
    else if (wanted === "out") zoom(1 / STEP, middle());
    else if (wanted === "all") {
      Object.assign(view, { x: 0, y: 0, scale: 1 });
      show();
    }
  });

  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // the page goes on scrolling
    event.preventDefault();
    zoom(event.deltaY < 0 ? STEP : 1 / STEP, place(event));
  }, { passive: false });

  // Where it is wider than the screen, the middle is seen first.
  holder.scrollLeft = (holder.scrollWidth - holder.clientWidth) / 2;
  drag(svg, view, place, show);
  neighbours(holder, svg);
}

function drag(svg, view, place, show) {
  let from = null;
  let far = false;
  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    from = place(event);
    far = false;
  });
  svg.addEventListener("pointermove", (event) => {
    if (!from) return;
    const at = place(event);
    if (!far && Math.hypot(at.x - from.x, at.y - from.y) < 4) return;
    if (!far) {
      far = true;
      svg.setPointerCapture(event.pointerId);
      svg.classList.add("moving");
    }
    view.x += at.x - from.x;
    view.y += at.y - from.y;
    from = at;
    show();
  });
  const end = () => {
    from = null;
    svg.classList.remove("moving");
  };
  svg.addEventListener("pointerup", end);
  svg.addEventListener("pointercancel", end);
  svg.addEventListener("dragstart", (event) => event.preventDefault());
  svg.addEventListener("click", (event) => {
    if (far) event.preventDefault(); // it was moved, not chosen
  }, true);
}

function neighbours(holder, svg) {
  const dots = new Map([...svg.querySelectorAll("[data-dot]")].map((dot) => [dot.dataset.dot, dot]));
  const lines = [...svg.querySelectorAll("line")];

  const choose = (dot) => {
    for (const one of svg.querySelectorAll(".near")) one.classList.remove("near");
    holder.classList.toggle("chosen", Boolean(dot));
    if (!dot) return;
    const name = dot.dataset.dot;
    dot.classList.add("near");
    for (const line of lines) {
      const { a, b } = line.dataset;
      if (a !== name && b !== name) continue;
      line.classList.add("near");
      dots.get(a === name ? b : a)?.classList.add("near");
    }
  };

  // Where the pointer is at none, the one that has the focus stays chosen.
  const focused = () => svg.querySelector("[data-dot]:focus");
  svg.addEventListener("pointerover", (event) => choose(event.target.closest("[data-dot]") ?? focused()));
  svg.addEventListener("pointerleave", () => choose(focused()));
  svg.addEventListener("focusin", (event) => choose(event.target.closest("[data-dot]")));
  svg.addEventListener("focusout", () => choose(null));
}

for (const holder of document.querySelectorAll("[data-graph]")) start(holder);
