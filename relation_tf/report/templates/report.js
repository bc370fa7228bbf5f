// Opens linked sections, sorts tables and copies the paragraph for a paper.
(() => {
  const open = () => {
    const section = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (section?.tagName === "DETAILS") section.open = true;
  };
  addEventListener("hashchange", open);
  for (const link of document.querySelectorAll('a[href^="#"]')) link.addEventListener("click", () => setTimeout(open));
  open();

  const number = (cell) => {
    const text = cell.textContent.replace(/−/g, "-").replace(/,/g, "");
    const found = text.match(/-?(\d+\.?\d*|\.\d+)/);
    return found ? Number(found[0]) : null;
  };

  const compare = (a, b, column) => {
    const [x, y] = [a.cells[column], b.cells[column]];
    const [m, n] = [number(x), number(y)];
    if (m === null || n === null || !x.classList.contains("number")) {
      return x.textContent.trim().localeCompare(y.textContent.trim(), undefined, { numeric: true });
    }
    return m - n;
  };

  const sort = (head, column) => {
    const falling = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    for (const body of head.closest("table").tBodies) {
      const fixed = [...body.rows].filter((row) => row.classList.contains("task"));
      const rows = [...body.rows].filter((row) => !row.classList.contains("task"));
      rows.sort((a, b) => (falling ? -1 : 1) * compare(a, b, column));
      body.append(...fixed, ...rows);
    }
  };

  const paper = document.querySelector("#paper p");
  if (paper && navigator.clipboard) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    const text = () => [...paper.parentNode.querySelectorAll("p, h3")].map((x) => x.textContent.replace(/\s+/g, " ").trim());
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text().join("\n\n"));
      button.textContent = "Copied";
    });
    paper.before(button);
  }

  for (const table of document.querySelectorAll("main table")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = "Sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sort(head, column));
    });
  }
})();
