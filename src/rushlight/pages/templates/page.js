"use strict";
// What every page has: its data, the theme button (any element with data-theme-toggle) and small helpers.
const rushlight = (() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const listeners = [];
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

  async function unpack(id) {
    const text = atob(document.getElementById(id).textContent.trim()), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  function changed() {
    for (const button of document.querySelectorAll("[data-theme-toggle]")) {
      button.textContent = dark() ? "☀" : "☾";
      button.setAttribute("aria-label", dark() ? "light theme" : "dark theme");
      button.title = dark() ? "Light theme (t)" : "Dark theme (t)";
    }
    for (const listener of listeners) listener(dark());
  }

  function toggleTheme() {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("rushlight-theme", root.dataset.theme); } catch (error) { /* for this visit only */ }
    changed();
  }

  system.addEventListener("change", changed);
  document.addEventListener("click", event => { if (event.target.closest("[data-theme-toggle]")) toggleTheme(); });
  document.addEventListener("keydown", event => {
    if (event.key === "t" && !event.ctrlKey && !event.metaKey && !event.altKey && !typing(event)) toggleTheme();
  });
  const typing = event => /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.target.isContentEditable;

  let rest = null;
  // runs a library that the page holds as text, after those that it needs
  function load(...names) {
    for (const name of names) {
      const held = document.querySelector(`script[type="text/plain"][data-asset="${name}"]`);
      if (!held || held.dataset.loaded) continue;
      load(...held.dataset.needs.split(" ").filter(Boolean));
      held.dataset.loaded = "1";
      const script = document.createElement("script");
      script.textContent = held.textContent;
      document.head.append(script);
    }
  }

  return {
    load,
    // what was given to `render` as `later`
    later: () => (rest ||= unpack("rushlight-later")),
    dark, toggleTheme, typing,
    // calls `start(data)` once the data is there; `document.body` then has the class "ready". What `start` returns, if
    // anything, is called after the first frame, for what can wait; then the body has the class "complete"
    async ready(start) {
      const data = await unpack("rushlight-data");
      changed();
      const rest = await start(data);
      document.body.classList.add("ready");
      if (rest) { await new Promise(done => requestAnimationFrame(() => setTimeout(done))); await rest(); }
      document.body.classList.add("complete");
    },
    // calls `listener(dark)` whenever the theme changes
    onTheme(listener) { listeners.push(listener); },
    // the value of a colour of the theme, for drawings on a canvas
    colour: name => getComputedStyle(root).getPropertyValue(`--${name}`).trim(),
    // an element: element("div", {class: "x", onclick: f}, "text", child, ...)
    element(tag, attributes = {}, ...children) {
      const made = document.createElement(tag);
      for (const [name, value] of Object.entries(attributes)) {
        if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
        else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
      }
      made.append(...children.flat().filter(child => child !== null && child !== undefined));
      return made;
    },
  };
})();
