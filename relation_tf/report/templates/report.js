// Opens linked sections, sorts tables and filters tasks, methods and widths.
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

  // The heading of a column is in the last row of headings or spans all rows.
  const columns = (table) => {
    const grid = [];
    [...table.tHead.rows].forEach((row, down) => {
      let across = 0;
      for (const head of row.cells) {
        while ((grid[down] ??= [])[across]) across++;
        for (let i = 0; i < head.rowSpan; i++)
          for (let j = 0; j < head.colSpan; j++) (grid[down + i] ??= [])[across + j] = head;
        across += head.colSpan;
      }
    });
    return grid.at(-1);
  };

  for (const table of document.querySelectorAll("main table")) {
    columns(table).forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = "Sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sort(head, column));
    });
  }

  const form = document.getElementById("filter");
  if (!form) return;
  form.hidden = false;
  const boxes = (kind) => [...form.querySelectorAll(`input[data-${kind}]`)];
  const chosen = (kind) => new Set(boxes(kind).filter((b) => b.checked).map((b) => b.dataset[kind]));
  const known = new Set(boxes("task").map((box) => box.dataset.task));

  const show = () => {
    const [tasks, methods] = [chosen("task"), chosen("method")];
    for (const each of document.querySelectorAll("main [data-task], main [data-methods]")) {
      const { task, methods: own } = each.dataset;
      each.hidden =
        (task !== undefined && known.has(task) && !tasks.has(task)) ||
        (own !== undefined && !own.split("␟").every((name) => methods.has(name)));
    }
    for (const box of boxes("size")) {
      const own = boxes("method").filter((method) => method.dataset.of === box.dataset.size);
      box.checked = own.some((method) => method.checked);
      box.indeterminate = box.checked && own.some((method) => !method.checked);
    }
  };

  form.addEventListener("change", ({ target }) => {
    if (target.dataset.size !== undefined) {
      for (const box of boxes("method")) {
        if (box.dataset.of === target.dataset.size) box.checked = target.checked;
      }
    }
    show();
  });
  form.addEventListener("reset", () => setTimeout(show));
})();
