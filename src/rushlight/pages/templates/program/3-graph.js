"use strict";
// The drawing: cytoscape draws, dagre lays out, in a worker so that the page stays alive.
const drawing = (() => {
  let cy = null, mode = "before", key = "";
  const layouts = new Map();

  function elements() {
    const p = view.program, made = { nodes: [], edges: [] };
    const edge = (from, to) => made.edges.push({ data: { id: `${from}>${to}`, source: from, target: to } });
    if (mode === "before") {
      const views = $("graph-views").checked;
      const kept = i => views || !p.nodes[i].view;
      // what a node gets through views that are not drawn
      const roots = i => (kept(i) ? [i] : p.nodes[i].inputs.filter(x => typeof x === "number").flatMap(roots));
      p.nodes.forEach((node, i) => {
        if (!kept(i)) return;
        made.nodes.push({ data: { id: `n${i}`, label: opName(node), sub: node.shape, node: i, colour: `c${(node.kernels[0] ?? 0) % 8}`, backward: node.backward ? 1 : 0 } });
        for (const from of new Set(node.inputs.filter(x => typeof x === "number").flatMap(roots))) edge(`n${from}`, `n${i}`);
      });
    } else {
      p.kernels.forEach((kernel, i) => {
        const ops = [...new Set(kernel.nodes.filter(n => !p.nodes[n].view).map(n => opName(p.nodes[n])))];
        const label = ops.slice(0, 3).join(" · ") + (ops.length > 3 ? ` +${ops.length - 3}` : "");
        made.nodes.push({ data: { id: `k${i}`, label: kernel.name, sub: label, kernel: i, colour: { loops: "c0", product: "c1", extern: "c2" }[kernel.kind] || "c3" } });
        for (const from of new Set(kernel.reads.map(buffer => p.writer.get(buffer)).filter(k => k !== undefined && k < i))) edge(`k${from}`, `k${i}`);
      });
    }
    return made;
  }

  const width = ({ data }) => Math.max(70, 6.8 * Math.max(data.label.length, data.sub.length) + 18);

  // Edges that places are chosen by: those over many ranks (what a forward pass saves for the backward pass) are
  // drawn, but would take most of the time of a layout, and make it wide.
  function near(made) {
    const into = new Map(made.nodes.map(node => [node.data.id, []])), rank = new Map(), after = new Map();
    for (const { data } of made.edges) { into.get(data.target).push(data.source); after.set(data.source, [...(after.get(data.source) || []), data.target]); }
    for (const { data } of made.nodes) rank.set(data.id, Math.max(-1, ...into.get(data.id).map(id => rank.get(id))) + 1);
    for (const { data } of [...made.nodes].reverse()) if (after.has(data.id)) rank.set(data.id, Math.min(...after.get(data.id).map(id => rank.get(id))) - 1);
    return made.nodes.flatMap(({ data: { id } }) => into.get(id).sort((a, b) => rank.get(b) - rank.get(a))
      .filter((from, i) => i === 0 || rank.get(id) - rank.get(from) <= 3).map(from => [from, id]));
  }

  // Positions, by a worker that has dagre; where there are no workers, by this thread.
  function lay(made) {
    const nodes = made.nodes.map(node => [node.data.id, width(node), 42]), edges = near(made);
    const work = `onmessage = ({ data: { nodes, edges } }) => {
      const g = new dagre.graphlib.Graph().setGraph({ rankdir: "TB", nodesep: 14, ranksep: 34, ranker: "tight-tree" }).setDefaultEdgeLabel(() => ({}));
      for (const [id, width, height] of nodes) g.setNode(id, { width, height });
      for (const [from, to] of edges) g.setEdge(from, to);
      dagre.layout(g);
      postMessage(Object.fromEntries(g.nodes().map(id => [id, { x: g.node(id).x, y: g.node(id).y }])));
    };`;
    const library = document.querySelector("script[data-asset=dagre]").textContent;
    return new Promise((done, failed) => {
      const url = URL.createObjectURL(new Blob([library, ";\n", work], { type: "text/javascript" }));
      const worker = new Worker(url);
      worker.onmessage = event => { done(event.data); worker.terminate(); URL.revokeObjectURL(url); };
      worker.onerror = event => { failed(new Error(event.message)); worker.terminate(); };
      worker.postMessage({ nodes, edges });
    });
  }

  function style() {
    const c = rushlight.colour;
    return [
      { selector: "node", style: { shape: "round-rectangle", width: n => width({ data: n.data() }), height: 38,
        "background-color": c("card"), "border-width": 2, "border-color": n => c(n.data("colour")), label: n => `${n.data("label")}\n${n.data("sub")}`, "text-wrap": "wrap",
        "text-valign": "center", "font-size": 11, "line-height": 1.25, color: c("fg"), "min-zoomed-font-size": 6, "font-family": "ui-monospace, monospace" } },
      { selector: "node[backward = 1]", style: { "border-style": "dashed" } },
      { selector: "edge", style: { width: 1.2, "line-color": c("faint"), "target-arrow-color": c("faint"), "target-arrow-shape": "triangle", "arrow-scale": 0.7, "curve-style": "bezier", opacity: 0.7 } },
      { selector: "node.on", style: { "background-color": c("mark"), "border-width": 4, "border-color": c("mark-line") } },
      { selector: "node.found", style: { "background-color": c("accent-soft"), "border-width": 4, "border-color": c("accent") } },
      { selector: ".faded", style: { opacity: 0.18 } },
      { selector: "edge.on", style: { width: 2.4, "line-color": c("mark-line"), "target-arrow-color": c("mark-line"), opacity: 1 } },
    ];
  }

  const wantedNow = () => `${view.at} ${mode} ${$("graph-views").checked}`;
  function layout(wanted, made) {
    if (!layouts.has(wanted)) layouts.set(wanted, lay(made));
    return layouts.get(wanted);
  }

  async function draw() {
    const wanted = wantedNow();
    if (key === wanted) { if (cy) cy.resize(); return; }
    key = wanted;
    const made = elements();
    $("graph-wait").hidden = false;
    const places = await layout(wanted, made);
    if (key !== wanted) return; // something else is wanted by now
    for (const node of made.nodes) node.position = { ...places[node.data.id] };
    if (cy) cy.destroy();
    rushlight.load("cytoscape");
    cy = cytoscape({ container: $("cy"), elements: made, style: style(), layout: { name: "preset" }, minZoom: 0.02, maxZoom: 3,
      hideEdgesOnViewport: made.edges.length > 1500, textureOnViewport: made.nodes.length > 400, pixelRatio: "auto", autoungrabify: true, boxSelectionEnabled: false });
    cy.on("tap", "node", event => {
      const { node, kernel } = event.target.data();
      if (node !== undefined) choose("node", node, "graph"); else choose("kernel", kernel, "graph");
    });
    cy.on("tap", event => { if (event.target === cy) choose(null); });
    cy.on("dbltap", "node", () => showTab("stages"));
    window.graphDrawing = cy; // for tests and for the console
    $("graph-count").textContent = `${number.format(made.nodes.length)} ${mode === "before" ? "operators" : "kernels"}, ${number.format(made.edges.length)} edges`;
    $("graph-wait").hidden = true;
    if (view.chosen) mark(view.chosen); else start_view();
  }

  // All of it where that can be read, else its beginning.
  function start_view() {
    cy.fit(undefined, 30);
    if (cy.zoom() < 0.35) {
      const top = cy.nodes().min(node => node.position("y")).ele;
      cy.zoom(0.7);
      cy.center(top);
      cy.panBy({ x: 0, y: -cy.height() / 2 + 60 });
    }
  }

  function mark(chosen) {
    if (!cy) return;
    cy.batch(() => {
      cy.elements().removeClass("on faded");
      if (!chosen) return;
      const ids = mode === "before" ? [...chosen.nodes].map(i => `#n${i}`) : [...chosen.kernels].map(i => `#k${i}`);
      const found = ids.length ? cy.$(ids.join(",")) : cy.collection();
      if (!found.length) return;
      cy.elements().not(found.closedNeighborhood()).addClass("faded");
      found.addClass("on");
      found.edgesWith(found).addClass("on");
      if (chosen.from !== "graph" && view.tab === "graph") look(found);
    });
    tell(chosen);
  }

  function look(found) {
    cy.fit(found, 60);
    if (cy.zoom() > 1.1) { cy.zoom(1.1); cy.center(found); }
    if (cy.zoom() < 0.25) { cy.zoom(0.7); cy.center(found.first()); }
  }

  function tell(chosen) {
    const place = $("graph-info"), p = view.program;
    place.hidden = !chosen;
    if (!chosen) return;
    const nodes = [...chosen.nodes].slice(0, 12), kernels = [...chosen.kernels].slice(0, 8);
    place.replaceChildren(
      make("h3", {}, chosen.label),
      ...nodes.map(i => make("p", { class: "mono" }, p.nodes[i].text.replaceAll(/ strides \([^)]*\)/g, ""), make("span", { class: "soft" }, p.nodes[i].line ? `  line ${p.nodes[i].line}${p.nodes[i].backward ? ", backward" : ""}` : ""))),
      chosen.nodes.size > 12 ? make("p", { class: "soft" }, `and ${chosen.nodes.size - 12} more`) : "",
      make("p", {}, ...kernels.map(k => make("button", { class: "step", onclick: () => choose("kernel", k) }, p.kernels[k].name))),
      make("button", { onclick: () => showTab("stages") }, "its source, loops and code"));
  }

  function search(text) {
    if (!cy) return;
    const p = view.program, words = text.trim().toLowerCase();
    cy.elements().removeClass("found");
    if (!words) { $("graph-count").textContent = ""; return; }
    const matches = cy.nodes().filter(element => {
      const { node, kernel } = element.data();
      if (kernel !== undefined) return p.kernels[kernel].name.toLowerCase() === words || element.data("sub").toLowerCase().includes(words) || p.kernels[kernel].nodes.some(n => p.nodes[n].op.toLowerCase() === words);
      const it = p.nodes[node];
      return it.op.toLowerCase().includes(words) || it.name.toLowerCase() === words.replace("%", "") || `line ${it.line}` === words || it.kernels.some(k => p.kernels[k].name.toLowerCase() === words);
    });
    matches.addClass("found");
    $("graph-count").textContent = `${matches.length} found`;
    if (matches.length) look(matches.length > 40 ? matches.slice(0, 1) : matches);
  }

  function start() {
    whenShown("graph", draw);
    view.listeners.push(mark);
    rushlight.onTheme(() => { if (cy) cy.style(style()); });
    for (const button of document.querySelectorAll("#graph [data-mode]")) {
      button.addEventListener("click", () => {
        mode = button.dataset.mode;
        for (const other of document.querySelectorAll("#graph [data-mode]")) other.setAttribute("aria-checked", String(other === button));
        draw();
      });
    }
    $("graph-views").addEventListener("change", draw);
    $("graph-search").addEventListener("input", event => search(event.target.value));
    $("graph-fit").addEventListener("click", () => cy && cy.fit(undefined, 30));
    const zoom = factor => cy && cy.zoom({ level: cy.zoom() * factor, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });
    $("graph-in").addEventListener("click", () => zoom(1.4));
    $("graph-out").addEventListener("click", () => zoom(1 / 1.4));
    $("cy").addEventListener("keydown", event => {
      const step = { ArrowUp: [0, 80], ArrowDown: [0, -80], ArrowLeft: [80, 0], ArrowRight: [-80, 0] }[event.key];
      if (step && cy) { event.preventDefault(); cy.panBy({ x: step[0], y: step[1] }); }
      if (event.key === "+") zoom(1.4);
      if (event.key === "-") zoom(1 / 1.4);
    });
    new ResizeObserver(() => cy && cy.resize()).observe($("cy"));
  }
  // Lay the graph out before it is asked for.
  function prepare() {
    if (view.program.nodes.length) layout(wantedNow(), elements());
  }
  return { start, draw, prepare };
})();
