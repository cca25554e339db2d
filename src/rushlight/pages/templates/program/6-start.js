"use strict";
// Search, keys, and the beginning.
function pickProgram(at) {
  setProgram(at);
  $("program").value = String(at);
  stages.draw();
  stages.complete();
  choose(null);
  showTab(view.tab);
}

function find(text) {
  const p = view.program, words = text.trim().toLowerCase(), found = [];
  if (!words) return found;
  const add = (kind, what, label, detail) => { if (found.length < 40) found.push({ kind, what, label, detail }); };
  p.kernels.forEach((kernel, i) => { if (kernel.name.toLowerCase().includes(words) || kernel.writes.includes(words)) add("kernel", i, kernel.name, "kernel"); });
  p.nodes.forEach((node, i) => { if (`%${node.name}`.toLowerCase().includes(words) || node.op.toLowerCase().includes(words)) add("node", i, `%${node.name}`, `${node.op}${node.line ? `, line ${node.line}` : ""}`); });
  for (const name of Object.keys(p.functions)) if (name.toLowerCase().includes(words)) add("function", name, name, "function");
  return found;
}

function searching() {
  const box = $("search"), list = $("found");
  let at = 0;
  const show = () => {
    const found = find(box.value);
    at = 0;
    list.hidden = !box.value.trim();
    list.replaceChildren(...(found.length ? found.map((one, i) => make("li", { role: "option", class: i ? "" : "at", onclick: () => take(one) }, make("b", {}, one.label), make("span", { class: "soft" }, one.detail))) : [make("li", { class: "soft" }, "nothing of that name")]));
    list.items = found;
  };
  const take = one => { choose(one.kind, one.what); if (view.tab !== "graph") showTab("stages"); list.hidden = true; box.blur(); };
  box.addEventListener("input", show);
  box.addEventListener("focus", () => { if (box.value) show(); });
  box.addEventListener("keydown", event => {
    const items = list.items || [];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      at = Math.max(0, Math.min(items.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)));
      [...list.children].forEach((row, i) => { row.classList.toggle("at", i === at); if (i === at) row.scrollIntoView({ block: "nearest" }); });
    } else if (event.key === "Enter" && items[at]) take(items[at]);
    else if (event.key === "Escape") { list.hidden = true; box.blur(); }
  });
  document.addEventListener("click", event => { if (!event.target.closest("#search, #found")) list.hidden = true; });
}

function keys() {
  const names = ["stages", "graph", "fusion", "guards", "measured", "passes"];
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || rushlight.typing(event) || $("help").open) return;
    const kernels = view.program ? view.program.kernels.length : 0;
    if (event.key >= "1" && event.key <= "6") showTab(names[event.key - 1]);
    else if (event.key === "/") { event.preventDefault(); (view.tab === "graph" ? $("graph-search") : $("search")).focus(); }
    else if (event.key === "?") $("help").showModal();
    else if (event.key === "Escape") choose(null);
    else if (event.key === "g") showTab("graph");
    else if ((event.key === "j" || event.key === "k") && kernels) {
      const now = view.chosen && view.chosen.kernels.size ? Math.min(...view.chosen.kernels) : event.key === "j" ? -1 : kernels;
      choose("kernel", Math.max(0, Math.min(kernels - 1, now + (event.key === "j" ? 1 : -1))));
    }
  });
}

// What can wait until the page is there.
async function complete() {
  await stages.complete();
  await withTexts(() => null);
  drawing.prepare();
}

rushlight.ready(data => {
  view.data = data;
  data.programs.forEach(link);
  const none = { name: "", nodes: [], values: [], outputs: [], kernels: [], functions: {}, notes: [], stages: [], workspace: { bytes: 0, buffers: [], stages: 0 } };
  if (!data.programs.length) { link(none); view.program = none; } else setProgram(0);
  $("title").textContent = data.name;
  const kernels = data.programs.reduce((sum, p) => sum + p.kernels.length, 0), nodes = data.programs.reduce((sum, p) => sum + p.nodes.length, 0);
  $("subtitle").textContent = data.programs.length ? `${number.format(nodes)} operators, ${number.format(kernels)} kernels, ${data.machine.cpu}` : "no graph";
  const chooser = $("program");
  chooser.hidden = data.programs.length < 2;
  chooser.append(...data.programs.map((p, i) => make("option", { value: i }, p.name)));
  chooser.addEventListener("change", () => pickProgram(Number(chooser.value)));
  for (const button of document.querySelectorAll("#tabs [role=tab]")) button.addEventListener("click", () => showTab(button.dataset.tab));
  $("help-button").addEventListener("click", () => $("help").showModal());
  stages.start(); drawing.start(); texts.start(); measured.start(); searching(); keys();
  showTab(data.breaks.length ? "guards" : "stages");
  return complete;
});
