// Shared by every page: the theme switch and copy buttons. Pages work without it.
(() => {
  const root = document.documentElement;

  function themeNow() {
    if (root.dataset.theme) return root.dataset.theme;
    return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }

  function watchTheme(button) {
    const label = button.querySelector("[data-label]");
    const name = () => { label.textContent = themeNow() === "dark" ? "Use light colours" : "Use dark colours"; };
    button.hidden = false;
    name();
    button.addEventListener("click", () => {
      root.dataset.theme = themeNow() === "dark" ? "light" : "dark";
      document.cookie = `theme=${root.dataset.theme};path=/;max-age=31536000;samesite=lax`;
      name();
    });
  }

  async function copy(button) {
    const source = document.getElementById(button.dataset.copy);
    const lines = source.querySelectorAll(".l");
    const text = lines.length ? Array.from(lines, (line) => line.textContent).join("") : source.textContent;
    const was = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => { button.textContent = was; }, 2500);
  }

  document.querySelectorAll("[data-theme-switch]").forEach(watchTheme);
  document.querySelectorAll("[data-copy]").forEach((button) => { button.hidden = false; });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
  });
})();
