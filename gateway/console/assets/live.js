// Replaces the main part of the page by what the server sends. Without this script
// the page reloads instead.
"use strict";
const main = document.querySelector("main");
const events = new EventSource(document.body.dataset.live);
events.onmessage = (event) => {
  const open = new Set([...main.querySelectorAll("details[open]")].map((d) => d.id));
  main.innerHTML = JSON.parse(event.data);
  for (const d of main.querySelectorAll("details")) d.open = open.has(d.id);
  document.body.classList.remove("stale");
};
events.onerror = () => document.body.classList.add("stale");
