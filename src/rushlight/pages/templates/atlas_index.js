"use strict";
rushlight.ready(data => {
  const {element} = rushlight;
  const search = document.getElementById("search"), family = document.getElementById("family"), list = document.getElementById("list");
  const rows = data.operators.map(operator => ({
    operator,
    words: [operator.name, operator.family, operator.text, ...operator.public].join(" ").toLowerCase(),
    item: element("li", {}, element("a", {href: `operators/${operator.name}.html`},
      element("span", {class: "name"}, operator.name), element("span", {class: "text"}, operator.text.replaceAll("`", "")),
      element("span", {class: "tag"}, [operator.family, operator.plot && "plot", operator.accuracy !== null && `${operator.accuracy} ulp`].filter(Boolean).join(" · ")))),
  }));
  const families = [...new Set(data.operators.map(operator => operator.family))].sort();
  family.append(element("option", {value: ""}, "all families"), ...families.map(name => element("option", {value: name}, name)));

  // names that begin with what is asked come first, then names that contain it, then the rest
  const rank = (row, asked) => (row.operator.name === asked ? 0 : row.operator.name.startsWith(asked) ? 1 : row.operator.name.includes(asked) ? 2 : 3);
  function show() {
    const asked = search.value.trim().toLowerCase();
    const parts = asked.split(/\s+/);
    const found = rows.filter(row => (!family.value || row.operator.family === family.value) && parts.every(part => row.words.includes(part)));
    if (asked) found.sort((a, b) => rank(a, asked) - rank(b, asked));
    list.replaceChildren(...found.map(row => row.item));
    document.getElementById("count").textContent = `${found.length} of ${rows.length}`;
  }
  search.addEventListener("input", () => { history.replaceState(null, "", search.value ? `#${encodeURIComponent(search.value)}` : location.pathname); show(); });
  family.addEventListener("change", show);
  search.addEventListener("keydown", event => { if (event.key === "Enter") list.querySelector("a")?.click(); });
  document.addEventListener("keydown", event => { if (event.key === "/" && !rushlight.typing(event)) { event.preventDefault(); search.focus(); } });
  search.value = decodeURIComponent(location.hash.slice(1));
  show();
});
