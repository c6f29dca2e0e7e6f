"use strict";
const base = document.body.dataset.base;
const notice = document.getElementById("notice");
const box = document.getElementById("question");
const soon = 300; // ms after a question is shown: a second click of what was a double click
let busy = false, since = performance.now(), ranked = [];

async function send(path, body, accept) {
  const language = document.documentElement.lang;
  const options = { headers: { Accept: accept || "text/html", "Accept-Language": language } };
  if (body) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  return fetch(base + path, options);
}

// An answer is sent until the server has it: it counts once, however often it arrives.
async function show(path, body) {
  if (busy) return;
  busy = true;
  for (;;) {
    try {
      const response = await send(path, body);
      if (response.status === 403) return location.reload();
      if (response.status < 500 && response.status !== 429) {
        if (response.ok) put(await response.text());
        break;
      }
    } catch (error) { /* the server is away */ }
    notice.textContent = document.body.dataset.lost;
    await new Promise((go) => setTimeout(go, 1000));
  }
  notice.textContent = "";
  busy = false;
}

function put(text) {
  const before = box.querySelector("[data-state]")?.dataset.state;
  box.innerHTML = text;
  const now = box.querySelector("[data-state]")?.dataset.state;
  if (!now || now !== before) {
    document.getElementById("prompt").focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  begin();
}

function begin() {
  since = performance.now();
  ranked = [];
  const volume = document.getElementById("volume");
  if (volume) volume.value = localStorage.volume || 50;
  loud();
  shortcuts();
  const state = box.querySelector("[data-state]")?.dataset.state;
  if (state === "waiting" || state === "paused")
    setTimeout(() => show("api/question"), state === "waiting" ? 150 : 3000);
}

function answer(word) {
  const items = box.querySelector("[data-query]");
  if (!items || busy) return;
  if (items.dataset.kind === "ranking" && word !== "skip") {
    const place = ranked.indexOf(word);
    place < 0 ? ranked.push(word) : ranked.splice(place, 1);
    const all = [...items.querySelectorAll(".choose")];
    all.forEach((button) => {
      const number = ranked.indexOf(button.dataset.answer) + 1;
      button.closest(".item").classList.toggle("picked", number > 0);
      button.dataset.text ||= button.textContent;
      button.textContent = number ? `${number}.` : button.dataset.text;
    });
    if (ranked.length < all.length - 1) return;
    word = [...ranked, ...all.map((b) => b.dataset.answer).filter((a) => !ranked.includes(a))].join(" ");
  }
  const seconds = (performance.now() - since) / 1000;
  show("api/answer", { query: +items.dataset.query, answer: word === "skip" ? null : word, seconds });
}

// All sounds run at once and one is heard, so that a switch has no gap.
function play(button) {
  const sounds = [...box.querySelectorAll("audio")], buttons = [...box.querySelectorAll(".play")];
  const stops = button.getAttribute("aria-pressed") === "true";
  if (!buttons.some((one) => one.getAttribute("aria-pressed") === "true"))
    sounds.forEach((sound) => { sound.currentTime = 0; });
  buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === button && !stops)));
  loud();
  sounds.forEach((sound) => (stops ? sound.pause() : sound.play()));
}

function loud() {
  const volume = document.getElementById("volume");
  if (!volume) return;
  box.querySelectorAll("audio").forEach((sound) => {
    sound.volume = volume.value / 100;
    sound.muted = sound.parentElement.querySelector(".play").getAttribute("aria-pressed") !== "true";
  });
}

// Who dictates, or rests a hand on the keys, can turn them off.
function shortcuts() {
  const keys = document.getElementById("keys");
  keys.checked = localStorage.keys !== "off";
  box.querySelectorAll("[data-keys]").forEach((button) => {
    if (keys.checked) button.setAttribute("aria-keyshortcuts", button.dataset.keys);
    else button.removeAttribute("aria-keyshortcuts");
  });
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (event.target.matches(".item img")) event.target.closest(".item").querySelector(".choose")?.click();
  else if (!button) return;
  else if ((button.dataset.answer || "undo" in button.dataset) && performance.now() - since < soon) return;
  else if (button.matches(".play")) play(button);
  else if ("switch" in button.dataset) {
    const all = [...box.querySelectorAll(".play")];
    play(all[(all.findIndex((one) => one.matches("[aria-pressed=true]")) + 1) % all.length]);
  }
  else if (button.dataset.answer) answer(button.dataset.answer);
  else if ("undo" in button.dataset) show("api/undo", {});
  else if (button.dataset.state) send("api/state", { state: button.dataset.state }).then(refresh);
});

document.addEventListener("input", (event) => {
  if (event.target.id === "volume") {
    localStorage.volume = event.target.value;
    loud();
  } else if (event.target.id === "keys") {
    localStorage.keys = event.target.checked ? "on" : "off";
    shortcuts();
  }
});

// Sounds that did not start together are brought together while they are not heard.
document.addEventListener("timeupdate", (event) => {
  const heard = event.target, at = heard.currentTime;
  if (!heard.matches("audio") || heard.muted || heard.paused) return;
  box.querySelectorAll("audio").forEach((other) => {
    const apart = Math.abs(other.currentTime - at) > 0.05;
    if (other !== heard && apart && at < other.duration - 0.3) other.currentTime = at;
  });
}, true);

document.addEventListener("play", (event) => {
  if (event.target.matches("video"))
    document.querySelectorAll("video").forEach((one) => one !== event.target && one.pause());
}, true);

document.addEventListener("keydown", (event) => {
  if (!box || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target.matches("input, video")) return;
  // What a keyboard of another script types is told by the place of the key.
  const place = event.code.replace(/^(Key|Digit|Numpad)/, "");
  const key = (/^[ -~]$/.test(event.key) ? event.key : place).toUpperCase();
  box.querySelector(`[aria-keyshortcuts~="${CSS.escape(key)}"]:not(:disabled)`)?.click();
});

document.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target, said = Object.fromEntries(new FormData(form));
  if (form.dataset.invitation) said.invitation = form.dataset.invitation;
  const response = await send("api/join", said, "application/json").catch(() => null);
  if (response?.ok) location.href = base + location.search;
  else notice.textContent = (await response?.json().catch(() => null))?.error || document.body.dataset.lost;
});

async function refresh() {
  const response = await send("owner?part").catch(() => null);
  if (!response?.ok) return;
  const results = document.getElementById("results");
  results.innerHTML = await response.text();
  const now = results.querySelector("[data-now]").dataset.now;
  document.querySelectorAll("button[data-state]").forEach((button) => {
    button.setAttribute("aria-pressed", String(button.dataset.state === now));
  });
}

if (box) begin();
if (document.getElementById("results")) setInterval(refresh, 5000);
