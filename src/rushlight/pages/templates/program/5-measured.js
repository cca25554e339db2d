"use strict";
// How it ran: a timeline by thread, a roofline, memory over the stages, and the kernels by time.
const measured = (() => {
  const width = place => Math.max(320, Math.min(1500, place.clientWidth - 2));

  function kernelsByTime() {
    const d = view.data, m = d.measured, found = [];
    d.programs.forEach((p, program) => p.kernels.forEach((kernel, k) => {
      const busy = m.busy[program][k];
      if (!busy) return;
      const threads = kernel.parallel ? m.pool : 1, seconds = busy / threads;
      found.push({ program, k, name: (d.programs.length > 1 ? `${p.name} ` : "") + kernel.name, kind: kernel.kind, ops: [...new Set(kernel.nodes.filter(n => !p.nodes[n].view).map(n => opName(p.nodes[n])))].join(", "),
        busy, seconds, flops: kernel.flops, bytes: kernel.bytes, rate: kernel.flops / seconds, intensity: kernel.flops / Math.max(1, kernel.bytes), threads });
    }));
    return found.sort((a, b) => b.busy - a.busy);
  }

  function go(row) {
    if (row.program !== view.at) pickProgram(row.program);
    choose("kernel", row.k);
    showTab("stages");
  }

  // Timeline. Wheel zooms, dragging moves; the plot is made anew for the range.
  function timeline(place) {
    const d = view.data, m = d.measured, spans = m.spans.map(([program, k, thread, start, end, work]) => ({ program, k, thread: thread ? `worker ${thread}` : "main", start, end, work, kernel: d.programs[program].kernels[k] }));
    const whole = [0, m.seconds * 1e6];
    const large = whole[1] > 5000;
    let range = [...whole];
    const figure = make("div", { class: "plot", id: "timeline", tabindex: "0", "aria-label": "timeline of kernels by thread" });
    const threads = [...new Set(spans.map(s => s.thread))].sort((a, b) => (a === "main" ? -1 : b === "main" ? 1 : a.localeCompare(b)));
    const kinds = ["loops", "product", "extern", "other"];
    function draw() {
      const shown = spans.filter(s => s.end >= range[0] && s.start <= range[1]);
      const plot = Plot.plot({
        width: width(place), height: 70 + 46 * threads.length, marginLeft: 70, marginBottom: 34,
        x: { domain: range, label: `${large ? "ms" : "µs"} from the beginning of the call`, tickFormat: large ? t => number.format(t / 1000) : undefined, grid: true, clamp: true }, fy: { domain: threads, label: null, padding: 0.15 }, y: { axis: null },
        color: { domain: kinds, range: [0, 1, 2, 3].map(i => `var(--c${i})`), legend: true },
        marks: [
          Plot.rect(shown, { x1: "start", x2: "end", fy: "thread", y1: 0, y2: 1, fill: s => (kinds.includes(s.kernel.kind) ? s.kernel.kind : "other"), stroke: "var(--bg)", strokeWidth: 0.4, inset: 0.2, className: "spans" }),
          Plot.tip(shown, Plot.pointerX({ x1: "start", x2: "end", fy: "thread", y: 0.5, title: s => `${s.kernel.name}\n${(s.end - s.start).toFixed(1)} µs, of which it worked ${s.work.toFixed(1)}\n${d.programs[s.program].kernels[s.k].nodes.slice(0, 4).map(n => d.programs[s.program].nodes[n].op).join(", ")}`, fill: "var(--card)" })),
        ],
      });
      plot.addEventListener("click", () => { if (plot.value) go(plot.value); });
      figure.replaceChildren(plot);
    }
    function zoom(factor, at) {
      const length = Math.min(whole[1], Math.max(2, (range[1] - range[0]) * factor)), share = (at - range[0]) / (range[1] - range[0]);
      const first = Math.max(0, Math.min(whole[1] - length, at - share * length));
      range = [first, first + length];
      draw();
    }
    const at = event => { const box = figure.getBoundingClientRect(); return range[0] + (range[1] - range[0]) * Math.min(1, Math.max(0, (event.clientX - box.left - 70) / (box.width - 90))); };
    figure.addEventListener("wheel", event => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.3 : 1 / 1.3, at(event)); }, { passive: false });
    let held = null;
    figure.addEventListener("pointerdown", event => { held = { x: event.clientX, range: [...range] }; });
    addEventListener("pointerup", () => { held = null; });
    figure.addEventListener("pointermove", event => {
      if (!held || Math.abs(event.clientX - held.x) < 4) return;
      const moved = (held.x - event.clientX) / (figure.clientWidth - 90) * (held.range[1] - held.range[0]);
      const first = Math.max(0, Math.min(whole[1] - (held.range[1] - held.range[0]), held.range[0] + moved));
      range = [first, first + held.range[1] - held.range[0]];
      draw();
    });
    figure.addEventListener("keydown", event => {
      const middle = (range[0] + range[1]) / 2, by = (range[1] - range[0]) / 4;
      if (event.key === "+") zoom(1 / 1.5, middle); else if (event.key === "-") zoom(1.5, middle);
      else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
        const first = Math.max(0, Math.min(whole[1] - (range[1] - range[0]), range[0] + (event.key === "ArrowRight" ? by : -by)));
        range = [first, first + range[1] - range[0]]; draw();
      } else if (event.key === "0") { range = [...whole]; draw(); }
    });
    draw();
    return figure;
  }

  function roofline(place, kernels) {
    const m = view.data.measured, peaks = m.peaks, all = kernels.reduce((sum, k) => sum + k.busy, 0), points = kernels.filter(k => k.flops > 0 && k.busy > 5e-5 * all); // others are of no weight
    const least = Math.max(0.01, Math.min(...points.map(k => k.intensity), 0.05) / 1.5), most = Math.max(...points.map(k => k.intensity), 100) * 2;
    const low = Math.max(1e6, Math.min(...points.map(k => k.rate), peaks.memory * least) / 2), high = Math.max(peaks.flops, ...points.map(k => k.rate)) * 2;
    const plain = value => (value >= 1 ? number.format(value) : String(Number(value.toPrecision(2))));
    const roof = (rate, top, name) => ({ name, line: [{ x: least, y: Math.min(top, rate * least) }, { x: top / rate, y: top }, { x: most, y: top }].sort((a, b) => a.x - b.x) });
    const roofs = [roof(peaks.memory, peaks.flops, "memory"), roof(peaks.cache, peaks.flops, "cache")];
    const giga = 1e9;
    const plot = Plot.plot({
      width: width(place), height: 420, marginLeft: 62, marginBottom: 40, grid: true,
      x: { type: "log", label: "flop per byte moved →", domain: [least, most], tickFormat: plain, ticks: 8 }, y: { type: "log", label: "↑ Gflop/s", domain: [low / giga, high / giga], tickFormat: plain, ticks: 6 },
      r: { range: [2.5, 16] }, color: { domain: ["loops", "product", "scan", "scatter"], range: [0, 1, 3, 4].map(i => `var(--c${i})`), legend: true },
      marks: [
        ...roofs.map(({ name, line }) => Plot.line(line.map(q => ({ x: q.x, y: q.y / giga })), { x: "x", y: "y", stroke: "var(--soft)", strokeWidth: 1.6, strokeDasharray: name === "cache" ? "5 4" : null, clip: true })),
        Plot.text([{ x: most, y: peaks.flops / giga, t: `${(peaks.flops / giga).toFixed(0)} Gflop/s` }], { x: "x", y: "y", text: "t", dy: -9, textAnchor: "end", fill: "var(--soft)" }),
        Plot.text(roofs.map(({ name, line }, i) => ({ x: least * 1.15, y: Math.max(low * 1.6, [peaks.memory, peaks.cache][i] * least * 1.15) / giga, t: `${name} ${([peaks.memory, peaks.cache][i] / giga).toFixed(0)} GB/s` })), { x: "x", y: "y", text: "t", dy: -10, textAnchor: "start", fill: "var(--soft)" }),
        Plot.dot(points, { x: "intensity", y: k => k.rate / giga, r: "busy", fill: "kind", fillOpacity: 0.65, stroke: "kind", clip: true, className: "kernel-points",
          ariaLabel: k => `${k.name}: ${(k.rate / giga).toFixed(2)} Gflop/s at ${k.intensity.toPrecision(3)} flop per byte`, tabindex: 0 }),
        Plot.tip(points, Plot.pointer({ x: "intensity", y: k => k.rate / giga, title: k => `${k.name}  ${k.ops.slice(0, 60)}\n${(k.rate / giga).toFixed(2)} Gflop/s, ${(k.bytes / k.seconds / giga).toFixed(2)} GB/s\n${short.format(k.flops)}flop, ${bytes(k.bytes)}, ${time(k.seconds)}\n${Math.round(100 * k.rate / Math.min(peaks.flops, peaks.cache * k.intensity))} % of the roof`, fill: "var(--card)" })),
      ],
    });
    plot.id = "roofline";
    plot.addEventListener("input", () => { if (plot.value) reading.textContent = `${plot.value.name}: ${(plot.value.rate / giga).toFixed(2)} Gflop/s at ${plot.value.intensity.toPrecision(3)} flop per byte, ${Math.round(100 * plot.value.rate / Math.min(peaks.flops, peaks.cache * plot.value.intensity))} % of the roof`; });
    plot.addEventListener("click", () => { if (plot.value) go(plot.value); });
    const reading = make("p", { class: "soft", id: "roofline-reading", "aria-live": "polite" }, "Point at a kernel; click to see its loops and code.");
    return [make("div", { class: "plot" }, plot), reading];
  }

  function memory(place) {
    const p = view.program, space = p.workspace, live = new Array(space.stages).fill(0), top = new Array(space.stages).fill(0);
    for (const b of space.buffers) for (let s = b.life[0]; s <= b.life[1]; s++) { live[s] += b.bytes; top[s] = Math.max(top[s], b.offset + b.bytes); }
    const mib = 2 ** 20;
    return Plot.plot({
      width: width(place), height: 220, marginLeft: 62, x: { label: "stage →" }, y: { label: "↑ MiB of workspace", grid: true, zero: true },
      marks: [
        Plot.areaY(top.map((y, x) => ({ x, y: y / mib })), { x: "x", y: "y", fill: "var(--c0)", fillOpacity: 0.15, curve: "step-after" }),
        Plot.lineY(live.map((y, x) => ({ x, y: y / mib })), { x: "x", y: "y", stroke: "var(--c0)", strokeWidth: 1.8, curve: "step-after" }),
        Plot.ruleY([space.bytes / mib], { stroke: "var(--c2)", strokeDasharray: "4 4" }),
        Plot.tip(live.map((y, x) => ({ x, y: y / mib })), Plot.pointerX({ x: "x", y: "y", title: q => `stage ${q.x}\n${q.y.toPrecision(3)} MiB in use`, fill: "var(--card)" })),
      ],
    });
  }

  function table(kernels) {
    const total = kernels.reduce((sum, k) => sum + k.busy, 0);
    const rows = kernels.slice(0, 60).map(k => make("tr", { tabindex: "0", onclick: () => go(k), onkeydown: event => { if (event.key === "Enter") go(k); } },
      make("td", {}, make("b", {}, k.name), make("div", { class: "soft" }, k.ops)), make("td", { class: "number" }, time(k.busy)), make("td", { class: "number" }, `${(100 * k.busy / total).toFixed(1)} %`),
      make("td", { class: "number" }, k.flops ? `${(k.rate / 1e9).toPrecision(3)}` : ""), make("td", { class: "number" }, (k.bytes / k.seconds / 1e9).toPrecision(3)), make("td", { class: "number" }, bytes(k.bytes))));
    return make("table", { class: "kernels-table" }, make("thead", {}, make("tr", {}, ...["kernel", "time, all threads", "share", "Gflop/s", "GB/s", "bytes"].map((h, i) => make("th", { class: i ? "number" : "" }, h)))), make("tbody", {}, rows));
  }

  function draw() {
    const place = $("measured"), d = view.data, m = d.measured;
    rushlight.load("plot");
    if (!d.programs.length) { place.replaceChildren(make("p", { class: "pad" }, "There is no program to run.")); return; }
    const peak = make("article", { class: "card" }, make("h3", {}, "Memory of the workspace over time"),
      make("p", { class: "soft" }, `${bytes(view.program.workspace.bytes)} are reserved (dashed); the line is what is in use in each stage, the area how far it reaches.`), make("div", { class: "plot" }, memory(place)));
    if (!m) {
      place.replaceChildren(make("article", { class: "card" }, make("h3", {}, "Not measured"), make("p", {}, "explain() does not run the function. ", make("code", {}, "rushlight.explain(f, x).measured().save(\"page.html\")"), " calls it a few times and shows a timeline, a roofline and times of the kernels.")), peak);
      return;
    }
    const kernels = kernelsByTime(), all = kernels.reduce((sum, k) => sum + k.busy, 0);
    const fact = (value, words) => make("div", { class: "figure" }, make("b", {}, value), make("small", {}, words));
    place.replaceChildren(
      make("div", { class: "figures" }, fact(time(m.seconds), `the quickest of ${m.calls} calls`), fact(`${(100 * m.launched / m.seconds).toFixed(1)} %`, "of it in kernels"), fact(time(all), "of work on all threads"), fact(String(m.launches.length), "launches"),
        fact(`${(m.peaks.flops / 1e9).toFixed(0)} Gflop/s`, `peak of ${m.pool} threads`), fact(`${(m.peaks.memory / 1e9).toFixed(1)} GB/s`, "from memory")),
      make("article", { class: "card" }, make("h3", {}, "Timeline"), make("p", { class: "soft" }, "Wheel or + and − zoom, dragging or the arrows move, 0 shows all; a click leads to the kernel."), timeline(place)),
      make("article", { class: "card" }, make("h3", {}, "Roofline"), make("p", { class: "soft" }, "Each kernel against what this machine reached in two small loops: multiply-adds alone, and sums of arrays from memory (line) and from cache (dashes). The area is the time spent."), ...roofline(place, kernels)),
      peak,
      make("article", { class: "card wide" }, make("h3", {}, "Kernels by time"), table(kernels)));
  }

  function start() {
    let seen = "";
    whenShown("measured", () => { const now = `${view.at} ${$("measured").clientWidth}`; if (now !== seen) { seen = now; draw(); } });
    addEventListener("resize", () => { if (view.tab === "measured") showTab("measured"); });
  }
  return { start };
})();
