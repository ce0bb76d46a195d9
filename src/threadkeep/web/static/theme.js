// Light or dark as the reader chose it, before anything is drawn; without a choice the system's.
(() => {
  const root = document.documentElement;
  const kept = () => {
    try { return localStorage.getItem("theme"); } catch { return null; }
  };
  const show = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  show(kept());
  root.classList.add("js");
  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("[data-theme-toggle]")) return;
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const next = (root.dataset.theme ?? system) === "dark" ? "light" : "dark";
    show(next === system ? null : next);
    try {
      if (next === system) localStorage.removeItem("theme");
      else localStorage.setItem("theme", next);
    } catch { /* a private window keeps nothing */ }
  });
})();
