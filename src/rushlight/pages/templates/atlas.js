"use strict";
rushlight.ready(data => {
  const {element} = rushlight;
  const at = id => document.getElementById(id);
  const withCode = text => text.split(/`([^`]+)`/).map((part, i) => (i % 2 ? element("code", {}, part) : part));
  const block = (text, language) => {
    const code = element("code", {class: `language-${language}`}, text);
    if (language !== "plaintext" && window.hljs && hljs.getLanguage(language)) hljs.highlightElement(code);
    return element("pre", {}, code);
  };
  const table = (head, rows, numbers = []) => element("div", {class: "wide"}, element("table", {},
    element("thead", {}, element("tr", {}, head.map((cell, i) => element("th", {class: numbers.includes(i) ? "number" : null}, cell)))),
    element("tbody", {}, rows.map(row => element("tr", {}, row.map((cell, i) => element("td", {class: numbers.includes(i) ? "number" : null}, cell)))))));
  const place = source => element(data.source ? "a" : "span", {class: "place", href: data.source ? `${data.source}/${source.path}` : null},
    source.line > 1 ? `${source.path}:${source.line}` : source.path);

  at("name").textContent = data.name;
  if (!data.site) at("home").removeAttribute("href");
  at("chips").append(...[...new Set([data.kind, data.family])].map(text => element("span", {class: "chip"}, text)));
  at("text").append(...withCode(data.text));
  if (data.public.length)
    at("names").append(element("h2", {}, "Public names"), element("p", {}, ...data.public.flatMap((name, i) => [i ? ", " : "", element("code", {}, name)])));
  if (data.example) at("example").append(element("h2", {}, "Example"), block(data.example, "python"));

  // The function and its derivatives.
  if (data.curve) {
    const labels = ["f(x)", "f′(x)", "f″(x)"];
    const colours = () => ["c0", "c1", "c2"].map(rushlight.colour);
    const holder = element("figure", {role: "img", "aria-label": `${data.name} and its derivatives`});
    const keys = element("p", {});
    const draw = () => {
      const all = colours();
      const lines = data.curve.rows.map((row, k) => Plot.line(row.map((y, i) => [data.curve.x[i], y === null ? NaN : y]),
        {stroke: all[k], strokeWidth: k ? 1.5 : 2.2, className: `curve${k}`}));
      const finite = data.curve.rows.flat().filter(y => y !== null).sort((a, b) => a - b);
      const low = finite[Math.floor(finite.length * 0.02)] ?? -1, high = finite[Math.ceil(finite.length * 0.98) - 1] ?? 1;
      const room = (high - low || 1) * 0.08;
      const plot = Plot.plot({width: 720, height: 360, marginLeft: 55, grid: true, style: {background: "transparent", color: rushlight.colour("fg")},
        x: {label: "x"}, y: {label: null, domain: [low - room, high + room]}, clip: true,
        marks: [Plot.ruleY([0], {stroke: rushlight.colour("faint")}), Plot.ruleX([0], {stroke: rushlight.colour("line")}), ...lines]});
      holder.replaceChildren(plot);
      keys.replaceChildren(...data.curve.rows.map((_, k) => element("span", {class: "key"}, element("i", {style: `background:${all[k]}`}), labels[k])));
    };
    at("curve").append(element("h2", {}, "The function and its derivatives"), holder, keys);
    draw();
    rushlight.onTheme(draw);
  }

  // Accuracy and speed.
  const box = at("measured");
  if (data.accuracy) {
    const ways = Object.entries(data.accuracy).filter(([way]) => way !== "points");
    box.append(element("h2", {}, "Accuracy in float32"),
      table(["", "worst, ulp", "mean, ulp", "worst at x ="], ways.map(([way, v]) => [way, v.max === null ? "not finite" : String(v.max), String(v.mean), String(v.at)]), [1, 2, 3]),
      element("p", {class: "soft"}, `Against mpmath at 50 digits, over ${data.accuracy.points} points.`));
  }
  if (data.speed) {
    box.append(element("h2", {}, "Speed"),
      table(["", "1,048,576 elements", "against torch"], Object.entries(data.speed).map(([way, us]) => [way, `${us} µs`, way === "torch" ? "1" : (us / data.speed.torch).toFixed(2)]), [1, 2]),
      element("p", {class: "soft"}, `float32, one thread, best of rounds that take turns; smaller is quicker. ${data.machine}.`));
  }

  // Declarations, as written.
  const seen = new Set();
  const order = ["definition", "derivative", "decomposition", "lowering", "kernel", "batching"];
  const titles = {definition: "Definition", derivative: "Derivative", decomposition: "Decomposition", lowering: "Lowering to loops", kernel: "Kernel", batching: "Batching"};
  const written = [];
  for (const stage of order) for (const overload of data.overloads) {
    const source = overload.sources[stage];
    if (!source || !source.code || seen.has(source.code)) continue;
    seen.add(source.code);
    written.push(element("h3", {}, `${titles[stage]} `, place(source)), block(source.code, "python"));
  }
  if (written.length) at("formulas").append(element("h2", {}, "As written"), ...written);

  // What becomes of it.
  const parts = {graph: ["Graph after decomposition", "plaintext"], loops: ["Loops", "plaintext"], assembly: ["Vector code", "x86asm"]};
  const shown = Object.entries(parts).filter(([name]) => data.case[name]);
  if (shown.length || data.case.refused) at("case").append(element("h2", {}, "Compiled"),
    element("p", {class: "soft"}, data.case.refused ? `The small case is not compiled as one graph: ${data.case.refused}` : data.curve ? "For 1,024 float32 elements." : "For the call of the example."),
    ...shown.flatMap(([name, [title, language]]) => [element("h3", {}, title), block(data.case[name], language)]));

  // Overloads and their stages.
  at("overloads").append(element("h2", {}, "Overloads"), ...data.overloads.flatMap(overload => [
    block(overload.schema, "plaintext"),
    element("p", {class: "soft"},
      [overload.promotion && `Promotion: ${overload.promotion}.`, overload.dtypes.length && `Dtypes: ${overload.dtypes.join(", ")}.`].filter(Boolean).join(" ")),
    table(["stage", "", "where"], Object.entries(overload.stages).map(([stage, there]) => {
      const source = overload.sources[{shape: "definition", eager: "kernel"}[stage] ?? stage] ?? (there ? overload.sources.definition : null);
      return [stage, element("span", {class: there ? "yes" : "no"}, there ? "yes" : "–"), there && source ? place(source) : ""];
    }))]));

  // Agreement with PyTorch.
  const panel = at("conformance");
  if (data.coverage.length) {
    const columns = Object.keys(data.coverage[0]).filter(key => key !== "overload");
    panel.append(element("h2", {}, "Measured on small samples"),
      table(["overload", ...columns], data.coverage.map(row => [element("code", {}, row.overload), ...columns.map(key => row[key])])));
  }
  const entries = Object.entries(data.conformance.entries);
  if (entries.length) {
    panel.append(element("h2", {}, "Conformance by variant and dtype"),
      element("p", {class: "soft"}, "Samples of PyTorch's OpInfo database on which results agree, of all that apply."));
    const all = [...new Set(entries.flatMap(([, variants]) => Object.values(variants).flatMap(Object.keys)))].sort();
    const cell = counts => !counts ? "" : element("span", {class: counts[1] ? "no" : "yes"}, counts[1] ? `${counts[0] - counts[1]} of ${counts[0]}` : String(counts[0]));
    for (const [entry, variants] of entries)
      panel.append(element("h3", {}, element("code", {}, entry)),
        table(["variant", ...all], Object.entries(variants).map(([variant, dtypes]) => [variant, ...all.map(dtype => cell(dtypes[dtype]))]), all.map((_, i) => i + 1)));
  }
  if (data.conformance.differs.length)
    panel.append(element("h3", {}, "Known differences"), table(["variant, dtype", "entry", "why"], data.conformance.differs));
});
