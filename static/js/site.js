// Shared by every page: the theme switch, copy buttons, and banners that pass. Pages work without it.
(() => {
  const LOOK_MS = 5000;
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

  // Asks the home page, which has the same banners as every other one, until none of those shown passes by itself.
  async function lookAtBanners() {
    const banners = document.querySelector(".banners:has([data-passes])");
    if (!banners) return;
    if (!document.hidden) {
      try {
        const home = await fetch(document.querySelector(".brand").href);
        if (home.ok) {
          const now = new DOMParser().parseFromString(await home.text(), "text/html").querySelector(".banners");
          banners.replaceWith(now ?? "");
        }
      } catch {
        // the site does not answer; it is asked again
      }
    }
    setTimeout(lookAtBanners, LOOK_MS);
  }

  setTimeout(lookAtBanners, LOOK_MS);
  document.querySelectorAll("[data-theme-switch]").forEach(watchTheme);
  document.querySelectorAll("[data-copy]").forEach((button) => { button.hidden = false; });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
  });
})();
