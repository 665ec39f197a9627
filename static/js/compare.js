// Moves p on the compare page without a reload: the numbers are on the page already. The form does the same without it.
(() => {
  const scores = JSON.parse(document.getElementById("scores").textContent);
  const range = document.querySelector("[data-p]");
  const number = document.getElementById("p");
  const figure = number.closest("section").querySelector(".figure");
  const guide = figure.querySelector("[data-guide]");

  const above = (marks, part, p) => marks.filter((mark) => mark[part] > p).length;

  function small(text) {
    const line = document.createElement("span");
    line.className = "small";
    line.textContent = text;
    return line;
  }

  function cell(place, p) {
    const marks = scores.methods[place.dataset.fast];
    const [count, sure, most] = [0, 1, 2].map((part) => above(marks, part, p));
    const share = scores.total ? Math.round((100 * count) / scores.total) : 0;
    place.replaceChildren(`${share} %`, small(`${count} of ${scores.total}`));
    if (sure !== most) place.append(small(`surely ${sure}, at most ${most}`));
    return { title: place.dataset.title, count };
  }

  function show(p) {
    const { left, right, high } = figure.dataset;
    const share = Math.min(p / Number(high), 1);
    const x = Math.round(10 * (Number(left) + (Number(right) - Number(left)) * share)) / 10;
    guide.setAttribute("x1", x);
    guide.setAttribute("x2", x);
    const counts = Array.from(document.querySelectorAll("[data-fast]"), (place) => cell(place, p));
    const most = Math.max(...counts.map((item) => item.count));
    const first = most ? counts.filter((item) => item.count === most).map((item) => item.title) : [];
    document.querySelector("[data-p-text]").textContent = p;
    document.querySelector("[data-leader-names]").textContent = first.join(" and ") || "nobody";
    document.querySelector("[data-leads]").textContent = first.length > 1 ? "lead" : "leads";
  }

  function keep(p) {
    const address = new URL(location.href);
    address.searchParams.set("p", p);
    history.replaceState(null, "", address);
    figure.closest("section").querySelector("[data-figure]").dispatchEvent(new Event("renew", { bubbles: true }));
  }

  function follow(from, to) {
    from.addEventListener("input", () => {
      const p = Number(from.value);
      if (from.value === "" || !(p >= 0)) return;
      to.value = p;
      show(p);
    });
    from.addEventListener("change", () => keep(Number(from.value)));
  }

  range.hidden = false;
  follow(range, number);
  follow(number, range);
})();
