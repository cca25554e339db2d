"use strict";
// Fusion, guards and passes.
const texts = (() => {
  // Operators of a buffer, in words: "softmax and 2 more (line 64)"
  function named(nodes, buffer) {
    const p = view.program, real = nodes.filter(i => !p.nodes[i].view), shown = real.length ? real : nodes;
    if (!shown.length) return [make("code", {}, buffer)];
    const last = shown[shown.length - 1], node = p.nodes[last];
    const rest = new Set(shown.map(i => p.nodes[i].op)).size - 1;
    const button = make("button", { class: "step", onclick: () => { choose("node", last); showTab("stages"); } }, opName(node) + (node.backward ? " backward" : ""));
    return [button, rest > 0 ? ` with ${rest} more ` : " ", node.line ? make("span", { class: "soft" }, `line ${node.line}`) : "", make("code", { class: "soft" }, ` ${buffer}`)];
  }

  function drawFusion() {
    const p = view.program, place = $("fusion"), byKernel = new Map(), others = [];
    for (const note of p.notes) {
      if (note.text) others.push(note.text);
      else if (note.kernel !== null) { if (!byKernel.has(note.kernel)) byKernel.set(note.kernel, []); byKernel.get(note.kernel).push(note); }
    }
    const joined = p.notes.filter(note => note.joined).length, apart = p.notes.filter(note => note.joined === false).length;
    const filter = make("input", { type: "search", placeholder: "an operator, a kernel, a reason", "aria-label": "filter", id: "fusion-filter" });
    const cards = [...byKernel].sort((a, b) => a[0] - b[0]).map(([k, notes]) => {
      const kernel = p.kernels[k], ops = [...new Set(kernel.nodes.filter(n => !p.nodes[n].view).map(n => opName(p.nodes[n])))];
      const card = make("article", { class: "card" },
        make("h3", {}, make("button", { class: "step", onclick: () => { choose("kernel", k); showTab("stages"); } }, kernel.name), " runs ", make("b", {}, ops.join(", ")), ops.length > 1 ? " together" : ""),
        make("ul", {}, notes.map(note => make("li", { class: note.joined ? "joined" : "apart" },
          ...named(note.nodes, note.buffer), note.joined ? " joined it: " : " stays apart from it: ", sentence(note.reason)))));
      card.dataset.text = card.textContent.toLowerCase();
      return card;
    });
    filter.addEventListener("input", () => { for (const card of cards) card.hidden = !card.dataset.text.includes(filter.value.toLowerCase()); });
    place.replaceChildren(
      make("div", { class: "bar" }, make("h2", {}, "What joined what, and why not"), filter),
      make("p", { class: "soft" }, `${number.format(p.nodes.length)} operators became ${number.format(p.kernels.length)} kernels in ${number.format(p.stages.length)} stages: ${number.format(joined)} definitions joined a kernel, ${number.format(apart)} times one stayed apart.`),
      make("div", { class: "cards" }, cards),
      others.length ? make("details", {}, make("summary", {}, `${others.length} decisions about memory and rows`), make("ul", {}, others.map(text => make("li", {}, make("code", {}, text))))) : "");
  }

  function sentence(reason) {
    const p = view.program;
    const shares = /^shares (.*)$/.exec(reason);
    if (shares) return `both read or write ${shares[1]}, which stays in cache.`;
    return `${reason.replace(/\bbuf\d+\b/g, buffer => { const k = p.writer.get(buffer); return k === undefined ? buffer : `${buffer} of ${p.kernels[k].name}`; })}.`;
  }

  // Equal texts once, each with how often it is there.
  function counted(list) {
    const counts = new Map();
    for (const text of list) counts.set(text, (counts.get(text) || 0) + 1);
    return [...counts];
  }

  function drawGuards({ guards }) {
    const d = view.data, place = $("guards"), parts = [];
    const part = (title, ...content) => parts.push(make("article", { class: "card" }, make("h3", {}, title), ...content));
    for (const found of d.breaks) {
      part("Graph break", make("p", {}, make("b", {}, found.what)),
        make("p", { class: "soft" }, `${found.file}:${found.line}`),
        make("p", {}, "What to do: ", found.remedy, "."), make("pre", {}, coloured(found.example, "python")));
    }
    if (!d.breaks.length) part("Graph breaks", make("p", {}, "None: the whole function is one graph."));
    if (d.call) part("How a call runs", make("p", {}, `${d.call[0].toUpperCase()}${d.call.slice(1)}.`));
    part("Why it was compiled", d.reasons.length
      ? make("ol", {}, d.reasons.map(reason => make("li", {}, reason)))
      : make("p", { class: "soft" }, "Explained from a plain function: give explain() a compiled function that has run to see why it was compiled, each time."));
    part(`Sizes that change (${d.symbols.length})`, d.symbols.length ? make("ul", {}, d.symbols.map(s => make("li", {}, make("code", {}, s)))) : make("p", { class: "soft" }, "None: it serves calls with these sizes."));
    part(`Guards (${guards.length})`, make("p", { class: "soft" }, "What must hold for a call to be served by this code; for others it is compiled again."),
      make("ul", { class: "guards" }, counted(guards).map(([guard, count]) => {
        const at = guard.indexOf(": ");
        return make("li", {}, make("b", {}, guard.slice(0, at) + (count > 1 ? ` ×${count}` : "")), make("code", {}, guard.slice(at + 2)));
      })));
    place.replaceChildren(...parts);
  }

  function drawPasses({ passes }) {
    const d = view.data, place = $("passes");
    const total = d.passes.reduce((sum, one) => sum + one.seconds, 0), most = Math.max(...d.passes.map(one => one.seconds), 1e-9);
    const text = make("pre", { class: "pass-text", tabindex: "0" }, "Choose a pass to see what it made.");
    const title = make("h3", {}, "");
    const rows = d.passes.map((one, i) => make("button", { class: "pass", onclick: event => {
      for (const other of place.querySelectorAll(".pass.on")) other.classList.remove("on");
      event.currentTarget.classList.add("on");
      let at = i;
      while (at > 0 && !passes[at] && d.passes[at].program === d.passes[at - 1].program) at--;
      title.textContent = `${one.program} ${one.name}`;
      text.textContent = one.name === "emit" || one.name === "assemble" ? "See LLVM IR and assembly under Stages, by function." : passes[at] || "It made no text.";
    } },
      make("span", { class: "name" }, one.program ? make("span", { class: "soft" }, `${one.program} `) : "", one.name, one.changed ? "" : make("span", { class: "soft" }, "  no change")),
      make("span", { class: "meter" }, make("i", { style: `width:${(100 * one.seconds / most).toFixed(2)}%` })), make("span", { class: "fact" }, time(one.seconds))));
    place.replaceChildren(
      make("div", { class: "bar" }, make("h2", {}, "Passes of the compiler"), make("span", { class: "soft" }, `${d.passes.length} passes, ${time(total)}`)),
      make("div", { class: "split" }, make("div", { class: "list" }, rows), make("div", { class: "shown" }, title, text)));
  }

  function start() {
    const once = (name, draw) => { let done = -1; whenShown(name, () => { if (done !== view.at) { done = view.at; draw(); } }); };
    once("fusion", drawFusion); once("guards", () => withTexts(drawGuards)); once("passes", () => withTexts(drawPasses));
  }
  return { start };
})();
