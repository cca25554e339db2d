"use strict";
// What is selected, and how the stages hang together. Everything on the page is by index into the data.
const $ = id => document.getElementById(id);
const make = rushlight.element;
const view = { data: null, program: null, at: 0, chosen: null, tab: "stages", listeners: [] };

const number = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let at = 0;
  while (count >= 1024 && at < 3) { count /= 1024; at++; }
  return `${count >= 100 || at === 0 ? Math.round(count) : count.toPrecision(3)} ${units[at]}`;
}
function time(seconds) {
  const [scale, unit] = seconds >= 1 ? [1, "s"] : seconds >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
  return `${(seconds * scale).toPrecision(3)} ${unit}`;
}

const opName = node => node.op.replace(/^update_[0-9a-f]{8,}$/, "update"); // several, composed by the compiler

// Links: lines <-> nodes <-> kernels <-> functions.
function link(program) {
  program.byLine = new Map();
  program.nodes.forEach((node, i) => {
    if (!node.line) return;
    const key = `${node.file}:${node.line}`;
    if (!program.byLine.has(key)) program.byLine.set(key, []);
    program.byLine.get(key).push(i);
  });
  program.writer = new Map();
  program.kernels.forEach((kernel, i) => kernel.writes.forEach(buffer => program.writer.set(buffer, i)));
}

const union = lists => [...new Set(lists.flat())].sort((a, b) => a - b);

// What follows from choosing something: {kind, label, nodes, kernels, lines, functions}.
function related(kind, what) {
  const p = view.program;
  let nodes = [], kernels = [], functions = [], label = "";
  if (kind === "line") {
    nodes = p.byLine.get(what) || [];
    const at = what.lastIndexOf(":");
    label = `line ${what.slice(at + 1)} of ${what.slice(0, at).split("/").pop()}`;
  } else if (kind === "op") { // an operator of a line
    nodes = (p.byLine.get(what.line) || []).filter(i => p.nodes[i].op === what.op && p.nodes[i].backward === what.backward);
    label = `${what.op} of line ${what.line.split(":").pop()}`;
  } else if (kind === "node") { nodes = [what]; label = `%${p.nodes[what].name}`; }
  else if (kind === "kernel") { kernels = [what]; label = p.kernels[what].name; }
  else if (kind === "function") { functions = [what]; kernels = p.functions[what].kernels; label = what; }
  if (kind === "kernel" || kind === "function") nodes = union(kernels.map(k => p.kernels[k].nodes));
  else kernels = union(nodes.map(i => p.nodes[i].kernels));
  if (kind !== "function") functions = [...new Set(kernels.flatMap(k => p.kernels[k].functions))];
  const lines = [...new Set(nodes.filter(i => p.nodes[i].line).map(i => `${p.nodes[i].file}:${p.nodes[i].line}`))];
  return { kind, what, label, nodes: new Set(nodes), kernels: new Set(kernels), functions, lines: new Set(lines) };
}

// Choose something; `from` is the pane it was chosen in, which does not scroll.
function choose(kind, what, from = "") {
  view.chosen = kind === null ? null : related(kind, what);
  if (view.chosen) view.chosen.from = from;
  for (const listener of view.listeners) listener(view.chosen);
  trail();
}

function trail() {
  const chosen = view.chosen, place = $("trail");
  if (!chosen) { place.replaceChildren(); place.classList.remove("on"); return; }
  place.classList.add("on");
  const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  const step = (text, pane) => make("button", { class: "step", onclick: () => { showTab("stages"); showPane(pane); } }, text);
  place.replaceChildren(
    make("b", {}, chosen.label),
    step(count(chosen.lines.size, "line"), "source"), "→", step(count(chosen.nodes.size, "node"), "nodes"), "→",
    step(count(chosen.kernels.size, "kernel"), "kernels"), "→", step(count(chosen.functions.length, "function"), "llvm"), "→", step("assembly", "assembly"),
    make("span", { class: "grow" }),
    make("button", { class: "step", onclick: () => { showTab("graph"); } }, "in the graph"),
    make("button", { class: "step", onclick: () => choose(null), "aria-label": "clear the selection" }, "✕"),
  );
}

function showTab(name) {
  if (!document.querySelector(`[data-tab="${name}"]`)) return;
  view.tab = name;
  for (const button of document.querySelectorAll("#tabs [role=tab]")) button.setAttribute("aria-selected", String(button.dataset.tab === name));
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== name;
  for (const draw of tabs[name] || []) draw();
}
const tabs = {}; // what is drawn when a tab is shown
const whenShown = (name, draw) => (tabs[name] ||= []).push(draw);

function showPane(name) {
  $("panes").dataset.shown = name;
  for (const button of document.querySelectorAll(".panes-choice button")) button.setAttribute("aria-selected", String(button.dataset.pane === name));
  const pane = document.querySelector(`.pane[data-pane="${name}"]`);
  if (pane) { pane.scrollIntoView({ block: "nearest", inline: "nearest" }); stages.reveal(name); }
}

const languages = { llvm: "llvm", assembly: "x86asm", source: "python" };
function coloured(code, language) {
  if (code.length > 150_000) return document.createTextNode(code);
  const span = document.createElement("code");
  rushlight.load("highlight");
  span.innerHTML = hljs.highlight(code, { language, ignoreIllegals: true }).value;
  return span;
}

// Calls `use` with the long texts (code, passes, guards): at once where they are unpacked already.
let texts_unpacked = null;
function withTexts(use) {
  if (texts_unpacked) return use(texts_unpacked);
  return rushlight.later().then(found => { texts_unpacked = found; return use(found); });
}

function setProgram(at) {
  view.at = at;
  view.program = view.data.programs[at];
  view.chosen = null;
}
