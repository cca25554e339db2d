"use strict";
// The five panes, side by side.
const stages = (() => {
  const rows = {}; // of each pane with many rows: how to make one, and the groups they are in

  function drawSource() {
    const place = $("pane-source");
    place.replaceChildren();
    const used = view.program.byLine;
    for (const source of view.data.sources) {
      const uses = source.parts.some(part => part.lines.some((_, i) => used.has(`${source.file}:${part.first + i}`)));
      if (!uses && view.data.programs.length > 1) continue;
      const rows = [];
      for (const part of source.parts) {
        if (rows.length) rows.push(make("div", { class: "gap" }, "⋯"));
        part.lines.forEach((text, i) => {
          const key = `${source.file}:${part.first + i}`, nodes = used.get(key);
          const row = make("div", { class: nodes ? "line live" : "line", "data-line": key, tabindex: nodes ? "0" : null, role: nodes ? "button" : null },
            make("span", { class: "no" }, String(part.first + i)), make("code", {}, text || " "));
          if (nodes) row.append(make("span", { class: "count", title: `${nodes.length} nodes` }, String(nodes.length)));
          rows.push(row);
        });
      }
      place.append(make("h3", { title: source.file }, source.name), make("div", { class: "code" }, rows));
    }
    if (!place.children.length) place.append(make("p", { class: "soft pad" }, "The source is not there any more."));
  }

  function colourSource() {
    rushlight.load("highlight");
    const lines = new Map([...document.querySelectorAll("#pane-source .line")].map(line => [line.dataset.line, line]));
    for (const source of view.data.sources) for (const part of source.parts) {
      const html = hljs.highlight(part.lines.join("\n"), { language: "python", ignoreIllegals: true }).value.split("\n");
      html.forEach((text, i) => {
        const line = lines.get(`${source.file}:${part.first + i}`);
        if (line && text) line.querySelector("code").innerHTML = balanced(text);
      });
    }
  }

  // Colours of a line of a highlighted text: what began on an earlier line (a docstring) is not carried over.
  function balanced(html) {
    const opens = (html.match(/<span/g) || []).length, closes = (html.match(/<\/span>/g) || []).length;
    if (opens > closes) return html + "</span>".repeat(opens - closes);
    return closes > opens ? `${'<span class="hljs-string">'.repeat(closes - opens)}${html}` : html;
  }

  function drawNodes() {
    const p = view.program;
    const inputs = make("details", { class: "inputs" }, make("summary", {}, `${p.values.length} inputs`));
    inputs.addEventListener("toggle", () => inputs.append(...p.values.map(v => make("div", { class: "mono" }, `%${v.name}: ${v.spec}${v.constant ? " (constant)" : ""}`))), { once: true });
    const row = i => {
      const node = p.nodes[i], [head, ...rest] = node.text.split(" = ");
      return make("div", { class: `node${node.view ? " view" : ""}`, "data-node": i, tabindex: "0", role: "button" },
        make("span", { class: "op" }, opName(node)), node.backward ? make("span", { class: "tag" }, "backward") : null,
        make("span", { class: "mono" }, `${head.replaceAll(/ strides \([^)]*\)/g, "")} = ${rest.join(" = ").replace(node.op, "")}`));
    };
    $("pane-nodes").replaceChildren(inputs, ...chunks("nodes", p.nodes.length, row));
  }

  // Rows in groups of 40: the first is made at once, others when they are asked for or when there is time.
  function chunks(pane, count, row) {
    const groups = [];
    for (let first = 0; first < count; first += 40) groups.push({ first, last: Math.min(count, first + 40), place: make("div", { class: "chunk" }), made: false });
    rows[pane] = { groups, row };
    if (count) fill(pane, 0);
    return groups.map(group => group.place);
  }

  // Make the group that has row `i`, if it is not there.
  function fill(pane, i) {
    const { groups, row } = rows[pane], group = groups[Math.floor(i / 40)];
    if (group.made) return;
    group.made = true;
    for (let at = group.first; at < group.last; at++) group.place.append(row(at));
  }

  function rowOf(pane, kind, i) {
    fill(pane, i);
    return document.querySelector(`.${kind}[data-${kind}="${i}"]`);
  }

  // What was left out, a group at a time, so that keys and clicks are not kept waiting.
  async function complete() {
    colourSource();
    for (const pane of ["nodes", "kernels"]) {
      const { groups } = rows[pane];
      for (let i = 0; i < groups.length && rows[pane].groups === groups; i++) {
        fill(pane, groups[i].first);
        if (i % 8 === 7) await new Promise(done => setTimeout(done));
      }
    }
  }

  function kernelTitle(kernel, i) {
    const seconds = measuredSeconds(i);
    return [make("b", {}, kernel.name), make("span", { class: "tag" }, kernel.kind), kernel.parallel ? make("span", { class: "tag" }, "threads") : null,
      make("span", { class: "grow" }),
      seconds ? make("span", { class: "fact" }, time(seconds)) : null,
      kernel.flops ? make("span", { class: "fact" }, `${short.format(kernel.flops)}flop`) : null,
      make("span", { class: "fact" }, bytes(kernel.bytes))];
  }

  function measuredSeconds(i) {
    const measured = view.data.measured;
    return measured && measured.busy[view.at] ? measured.busy[view.at][i] : 0;
  }

  function drawKernels() {
    const p = view.program;
    const row = i => {
      const kernel = p.kernels[i], together = p.stages[kernel.stage].length, made = document.createDocumentFragment();
      if (!i || p.kernels[i - 1].stage !== kernel.stage) made.append(make("div", { class: "stage" }, `stage ${kernel.stage}${together > 1 ? `: ${together} kernels at once` : ""}`));
      made.append(make("article", { class: "kernel", "data-kernel": i, tabindex: "0", role: "button" },
        make("header", {}, kernelTitle(kernel, i)),
        make("div", { class: "ops" }, [...new Set(kernel.nodes.filter(n => !p.nodes[n].view).map(n => opName(p.nodes[n])))].slice(0, 14).join(" · ")),
        make("pre", {}, kernel.loops),
        kernel.plan.length ? make("ul", { class: "plan" }, kernel.plan.map(line => make("li", {}, line))) : null));
      return made;
    };
    $("pane-kernels").replaceChildren(...chunks("kernels", p.kernels.length, row));
  }

  // LLVM and assembly: of what is chosen, or a list of all functions.
  function drawCode(pane) {
    const p = view.program, place = $(`pane-${pane}`), chosen = view.chosen;
    // what only these kernels use comes first, routines that many share last
    const names = chosen && chosen.functions.length ? [...chosen.functions].sort((a, b) => p.functions[a].kernels.length - p.functions[b].kernels.length) : Object.keys(p.functions);
    const all = !(chosen && chosen.functions.length);
    let room = 20; // as many functions are opened at once
    place.replaceChildren(...names.filter(name => p.functions[name]).map(name => {
      const f = p.functions[name], lines = f.lines[pane], users = f.kernels.length, at = view.at;
      const open = !all && room-- > 0;
      const block = make("details", { class: "function", "data-function": name },
        make("summary", {}, make("b", {}, name), make("span", { class: "grow" }), make("span", { class: "fact" }, `${lines} lines`),
          users ? make("button", { class: "step", title: f.kernels.slice(0, 12).map(k => p.kernels[k].name).join(", ") + (users > 12 ? ", …" : ""), onclick: event => { event.preventDefault(); choose("function", name, pane); } },
            users === 1 ? p.kernels[f.kernels[0]].name : `${users} kernels`) : null));
      const show = () => {
        if (!block.open || block.children.length > 1) return;
        const text = make("pre", {}, lines ? "…" : "inlined into what calls it");
        block.append(text);
        if (lines) withTexts(texts => text.replaceChildren(coloured(texts.functions[at][name][pane === "llvm" ? 0 : 1], languages[pane])));
      };
      block.addEventListener("toggle", show);
      block.open = open;
      if (open) show();
      return block;
    }));
    place.scrollTop = 0;
  }

  function chips(row, key) {
    const p = view.program, counts = new Map();
    for (const i of p.byLine.get(key) || []) {
      const node = p.nodes[i], name = node.op + (node.backward ? " backward" : "");
      if (node.view) continue;
      if (!counts.has(name)) counts.set(name, { op: node.op, backward: node.backward, count: 0 });
      counts.get(name).count++;
    }
    const made = [...counts].map(([name, { op, backward, count }]) =>
      make("button", { class: `chip${backward ? " back" : ""}`, "data-op": op, onclick: event => { event.stopPropagation(); choose("op", { line: key, op, backward }, "source"); } },
        count > 1 ? `${name} ×${count}` : name));
    row.after(make("div", { class: "chips" }, made));
  }

  function mark(chosen) {
    for (const old of document.querySelectorAll("#panes .on, #panes .near")) old.classList.remove("on", "near");
    const keep = chosen && chosen.kind === "op" ? chosen.what.line : chosen && chosen.kind === "line" ? chosen.what : null;
    for (const old of document.querySelectorAll("#panes .chips")) if (!keep || old.previousElementSibling.dataset.line !== keep) old.remove();
    $("panes").classList.toggle("chosen", Boolean(chosen));
    drawCode("llvm"); drawCode("assembly");
    if (!chosen) return;
    const first = {};
    const set = (pane, element) => { if (element) { element.classList.add("on"); first[pane] ||= element; } };
    for (const line of chosen.lines) set("source", document.querySelector(`.line[data-line="${CSS.escape(line)}"]`));
    for (const i of chosen.nodes) set("nodes", rowOf("nodes", "node", i));
    for (const i of chosen.kernels) set("kernels", rowOf("kernels", "kernel", i));
    if (keep) {
      const row = document.querySelector(`.line[data-line="${CSS.escape(keep)}"]`);
      if (row && !(row.nextElementSibling && row.nextElementSibling.classList.contains("chips"))) chips(row, keep);
    }
    for (const pane of Object.keys(first)) if (pane !== chosen.from) reveal(pane);
  }

  // Scroll a pane to the first that is chosen.
  function reveal(pane) {
    const body = $(`pane-${pane}`), element = body.querySelector(".on");
    if (!element || !body.offsetParent) return;
    // What was not drawn yet has another height than was thought: again until it stays where it is.
    let frames = 0;
    const scroll = () => {
      const away = element.getBoundingClientRect().top - body.getBoundingClientRect().top - 40, before = body.scrollTop;
      body.scrollTop += away;
      if (++frames < 20 && element.isConnected && (frames < 3 || Math.abs(body.scrollTop - before) > 1)) requestAnimationFrame(scroll);
    };
    scroll();
  }

  function pick(event) {
    if (event.target.closest("button, summary, .chips, a")) return;
    if (String(getSelection())) return; // text is being selected
    const found = event.target.closest(".line.live, .node, .kernel");
    if (!found) return;
    const { line, node, kernel } = found.dataset;
    if (line !== undefined) choose("line", line, "source");
    else if (node !== undefined) choose("node", Number(node), "nodes");
    else choose("kernel", Number(kernel), "kernels");
  }

  function draw() {
    drawSource(); drawNodes(); drawKernels(); drawCode("llvm"); drawCode("assembly");
  }

  function start() {
    const panes = $("panes");
    panes.addEventListener("click", pick);
    panes.addEventListener("keydown", event => {
      if ((event.key === "Enter" || event.key === " ") && event.target.closest(".line.live, .node, .kernel") === event.target) { event.preventDefault(); pick(event); }
    });
    const names = { source: "Source", nodes: "Graph", kernels: "Kernels", llvm: "LLVM", assembly: "Assembly" };
    document.querySelector(".panes-choice").append(...Object.entries(names).map(([pane, text]) =>
      make("button", { role: "tab", "data-pane": pane, "aria-selected": String(pane === "source"), onclick: () => showPane(pane) }, text)));
    panes.dataset.shown = "source";
    if (/aarch64|arm64/.test(view.data.machine.triple)) languages.assembly = "armasm";
    view.listeners.push(mark);
    draw();
  }
  return { start, draw, reveal, complete };
})();
