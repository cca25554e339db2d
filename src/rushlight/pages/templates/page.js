"use strict";
// What every page has: its data, the theme button (any element with data-theme-toggle) and small helpers.
const rushlight = (() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const listeners = [];
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

  async function unpack() {
    const text = document.getElementById("rushlight-data").textContent.trim();
    const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
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

  return {
    dark, toggleTheme, typing,
    // calls `start(data)` once the data is there; `document.body` then has the class "ready"
    async ready(start) {
      const data = await unpack();
      changed();
      await start(data);
      document.body.classList.add("ready");
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
