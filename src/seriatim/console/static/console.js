// What makes pages live. They work without it: then they are as they were when they were loaded.
(() => {
  "use strict";
  const pages = document.body.dataset.live;
  // Times are told from now, and go on while the page is open; their titles have the time itself, also by the reader's clock.
  const period = (seconds) => {
    for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
      if (seconds >= 2 * size) return `${Math.round(seconds / size).toLocaleString("en")} ${unit}`;
    }
    return `${Math.max(Math.round(seconds), 0)} s`;
  };
  let loaded = performance.now();
  const local = (root) => {
    for (const one of root.querySelectorAll("time[datetime]")) {
      const here = new Date(one.dateTime).toLocaleString(undefined, { timeZoneName: "short" });
      if (!one.title.endsWith(here)) one.title = `${one.title} · ${here}`;
    }
  };
  const tick = () => {
    const selected = document.getSelection();
    if (document.hidden || (selected && !selected.isCollapsed)) return;
    for (const one of document.querySelectorAll("time[data-age]:not([data-open])")) {
      const age = Number(one.dataset.age) + (performance.now() - loaded) / 1000;
      const plain = "plain" in one.dataset;
      const text = plain ? period(age) : age >= 0 ? `${period(age)} ago` : `in ${period(-age)}`;
      if (one.textContent !== text) one.textContent = text;
    }
  };
  local(document);
  setInterval(tick, 5000);
  // Where nothing points, as on a telephone, a touch shows the time itself.
  document.addEventListener("click", (event) => {
    const one = event.target.closest("time[data-age]");
    if (!one || event.target.closest("a, summary")) return;
    if (one.toggleAttribute("data-open")) one.textContent = one.title; else tick();
  });
  // On a narrow screen the menu is folded.
  const narrow = matchMedia("(max-width: 760px)"), menu = document.querySelector("nav details");
  const fold = () => { if (menu) menu.open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  fold();
  if (!pages || !window.EventSource) return;

  const told = () => document.getElementById("live");
  const button = () => document.getElementById("pause");
  let paused = false, due = false, timer = null, state = "live", next = 0;
  // In a busy box something changes all the time: a page that is costly is loaded anew more rarely, every five seconds at least.
  const share = 100, longest = 5000;

  const show = () => {
    const text = paused ? "paused" : state;
    if (told() && told().textContent !== text) told().textContent = text;
    const pause = button();
    if (pause) {
      pause.hidden = false;
      pause.textContent = paused ? "Resume" : "Pause";
    }
  };
  // A page isn't changed under the hands of somebody who types, selects, or has the page in the background.
  const busy = () => {
    if (paused || document.hidden) return true;
    const at = document.activeElement;
    if (at && at.closest("form") && at.closest("main")) return true;
    for (const one of document.querySelectorAll("main form input:not([type=hidden]), main form textarea:not([hidden])")) {
      if (one.value !== one.defaultValue) return true;
    }
    const selected = document.getSelection();
    return Boolean(selected && !selected.isCollapsed && String(selected));
  };
  const open = () => [...document.querySelectorAll("main details")].map((one) => one.open);
  const refresh = async () => {
    timer = null;
    if (busy()) { due = true; return; }
    due = false;
    const opened = open(), began = performance.now();
    try {
      await window.htmx.ajax("GET", location.href, { target: "#main", select: "#main", swap: "outerMorph" });
    } catch { due = true; return; } finally {
      const now = performance.now();
      next = now + Math.min((now - began) * share, longest);
    }
    [...document.querySelectorAll("main details")].forEach((one, at) => { if (at < opened.length) one.open = opened[at]; });
    loaded = performance.now();
    local(document.getElementById("main"));
    show();
  };
  const soon = () => {
    due = true;
    if (timer === null) timer = setTimeout(refresh, Math.max(250, next - performance.now()));
  };

  // A browser has six connections to a server, for all its tabs: one that nobody sees leaves its own to others.
  let source = null;
  const listen = () => {
    source = new EventSource(pages);
    source.onopen = () => { state = "live"; show(); };
    source.onerror = () => { state = "not live: the console doesn't answer"; show(); };
    source.addEventListener("changed", () => { state = "live"; soon(); });
    source.addEventListener("away", (event) => { state = `not live: ${event.data}`; show(); });
  };
  const leave = () => { if (source) source.close(); source = null; };
  if (!document.hidden) listen();
  document.addEventListener("visibilitychange", () => {
    leave();
    if (!document.hidden) { listen(); soon(); }
  });
  document.addEventListener("click", (event) => {
    if (event.target.id !== "pause") return;
    paused = !paused;
    show();
    if (!paused && due) soon();
  });
  for (const kind of ["focusout", "selectionchange"]) {
    document.addEventListener(kind, () => { if (due && timer === null) timer = setTimeout(refresh, 400); });
  }
  window.addEventListener("pagehide", leave);
})();
