// The console works without this script. It keeps lists up to date, and adds what the keyboard can do.
"use strict";

// --- lists that follow what happens ---------------------------------------------------------------------------------

// Rows on the page change where they are. New ones come to the top, unless the reader would lose the place: then they wait
// until the reader asks for them.
for (const body of document.querySelectorAll("tbody[data-live]")) follow(body);

function follow(body) {
  const bar = document.querySelector("[data-live-bar]");
  const control = bar.querySelector("[data-live-switch]");
  const more = bar.querySelector("[data-live-more]");
  const row = document.querySelector("template[data-live-row]").content.firstElementChild;
  const rows = new Map(Array.from(body.rows, (each) => [each.dataset.run, each]));
  const waiting = new Map();
  let last = body.dataset.liveAfter;
  let source = null;

  const losesPlace = () => body.getBoundingClientRect().top < 0 || body.contains(document.activeElement);
  const field = (element, name) => element.querySelector(`[data-field="${name}"]`);
  const write = (element, name, text) => {
    const place = field(element, name);
    if (place && place.textContent !== text) place.textContent = text;
  };

  function writeTools(place, run) {
    const texts = run.more_tools ? [...run.tools, `+${run.more_tools}`] : run.tools;
    if (place.textContent.trim() === texts.join(" ")) return;
    const names = texts.map((text, number) => {
      const element = document.createElement(number < run.tools.length ? "code" : "small");
      element.textContent = text;
      return element;
    });
    place.replaceChildren(...names.flatMap((each) => [each, " "]));
  }

  function fill(element, run) {
    write(element, "message", run.message || run.run_id);
    write(element, "status", run.status);
    field(element, "status").className = `badge ${run.status}`;
    write(element, "principal", run.principal);
    write(element, "tenant", run.tenant === "default" ? "" : run.tenant);
    write(element, "bot", run.bot);
    writeTools(field(element, "tools"), run);
    write(element, "calls", String(run.calls));
    write(element, "seconds", run.seconds === null ? "" : run.seconds.toFixed(2));
  }

  function made(run) {
    const element = document.importNode(row, true);
    const time = field(element, "started");
    const iso = new Date(run.started * 1000).toISOString();
    element.dataset.run = run.run_id;
    field(element, "message").setAttribute("href", body.dataset.livePath + encodeURIComponent(run.run_id));
    time.setAttribute("datetime", iso);
    time.textContent = `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`;
    fill(element, run);
    return element;
  }

  function show() {
    const arrived = Array.from(waiting.values()).sort((one, other) => one.started - other.started);
    waiting.clear();
    for (const run of arrived.slice(-body.dataset.liveMost)) {
      const element = made(run);
      rows.set(run.run_id, element);
      body.prepend(element);
    }
    while (body.rows.length > body.dataset.liveMost) {
      rows.delete(body.rows[body.rows.length - 1].dataset.run);
      body.deleteRow(-1);
    }
    document.querySelector("[data-live-box]").hidden = body.rows.length === 0;
    const empty = document.querySelector("[data-live-empty]");
    if (empty) empty.hidden = body.rows.length > 0;
    more.hidden = true;
  }

  function take(event) {
    const data = JSON.parse(event.data);
    last = event.lastEventId || last;
    if (data.reload) return location.reload();
    const oldest = body.rows.length ? oldestStart() : 0;
    for (const run of data.runs) {
      if (rows.has(run.run_id)) fill(rows.get(run.run_id), run);
      else if (run.joins && run.started >= oldest) waiting.set(run.run_id, run);
      else if (waiting.has(run.run_id)) waiting.delete(run.run_id);
    }
    // Only the newest fit on the page.
    const isFull = waiting.size > body.dataset.liveMost;
    while (waiting.size > body.dataset.liveMost) waiting.delete(waiting.keys().next().value);
    if (!losesPlace()) show();
    more.querySelector("[data-live-count]").textContent = `${waiting.size}${isFull ? "+" : ""}`;
    more.hidden = waiting.size === 0;
  }

  function oldestStart() {
    return Date.parse(body.rows[body.rows.length - 1].querySelector("time").getAttribute("datetime")) / 1000;
  }

  function start() {
    const join = body.dataset.live.includes("?") ? "&" : "?";
    source = new EventSource(`${body.dataset.live}${join}after=${last}`);
    source.addEventListener("message", take);
  }

  function stop() {
    if (source) source.close();
    source = null;
  }

  control.addEventListener("change", () => (control.checked ? start() : stop()));
  more.addEventListener("click", show);
  bar.hidden = false;
  start();
}
// --- playground: an answer is shown while it is written; without this, the page comes with the whole answer ---

(() => {
  const form = document.querySelector("form[data-talk]");
  const live = document.querySelector("[data-live]");
  if (!form || !live) return;

  const part = (name) => live.querySelector(`[data-${name}]`);
  const words = document.querySelector("template[data-words]").content;
  const word = (name) => words.querySelector(`[data-word="${name}"]`)?.textContent ?? name;
  const badges = { done: "approved", failed: "rejected", waits: "pending" };
  const steps = new Map();

  const stepOf = (id) => {
    if (!steps.has(id)) {
      const node = document.querySelector("template[data-step]").content.firstElementChild.cloneNode(true);
      steps.set(id, part("steps").appendChild(node));
    }
    return steps.get(id);
  };

  let page = location.pathname;
  let answer = "";
  const shows = {
    begin: (piece) => { page = piece.path; },
    tools: (piece) => {
      part("tools").hidden = false;
      part("names").textContent = `${piece.sent} / ${piece.visible} · ${piece.names.join(", ")}`;
    },
    asked: () => { part("state").textContent = word("asked"); answer = ""; },
    text: (piece) => { answer += piece.text; part("answer").textContent = answer; },
    progress: (piece) => { stepOf(piece.id).querySelector("[data-text]").textContent = piece.text; },
    step: (piece) => {
      const node = stepOf(piece.id);
      node.querySelector("[data-tool]").textContent = piece.tool;
      node.querySelector("[data-arguments]").textContent = piece.arguments;
      node.querySelector("[data-text]").textContent = piece.text.slice(0, 600);
      const badge = node.querySelector("[data-outcome]");
      badge.textContent = word(piece.outcome);
      badge.className = `badge ${badges[piece.outcome] ?? ""}`;
    },
    end: () => { open(); },
  };

  // The page that the server makes shows everything, so it takes the place of what the script has shown.
  const open = () => {
    if (page === location.pathname) {
      history.replaceState(null, "", "#last");
      location.reload();
    } else {
      location.assign(`${page}#last`);
    }
  };

  const read = async (answered) => {
    const reader = answered.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      for (const event of events) {
        if (!event.startsWith("data: ")) continue;
        const piece = JSON.parse(event.slice(6));
        shows[piece.kind]?.(piece);
      }
    }
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    if (button.disabled) return;
    button.disabled = true;
    const stopping = new AbortController();
    part("message").textContent = form.elements.message.value;
    live.hidden = false;
    part("stop").addEventListener("click", () => { stopping.abort(); setTimeout(open, 500); }, { once: true });
    try {
      const answered = await fetch(form.action, {
        method: "POST",
        body: new URLSearchParams(new FormData(form)),
        headers: { accept: "text/event-stream" },
        signal: stopping.signal,
      });
      if (!answered.headers.get("content-type")?.startsWith("text/event-stream")) {
        form.submit(); // nothing was done, and the page that comes says why
        return;
      }
      form.reset();
      await read(answered);
    } catch (error) {
      if (!stopping.signal.aborted) part("state").textContent = word("lost");
    }
  });

  form.elements.message.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
})();
// --- evaluation: the progress of a long task, and a file that is read into a field ---

for (const place of document.querySelectorAll("[data-follows]")) {
  const bar = place.querySelector("progress");
  const look = async () => {
    let task = null;
    try {
      const answer = await fetch(place.dataset.follows, { headers: { accept: "application/json" } });
      if (answer.ok) task = (await answer.json()).evaluation;
    } catch {
      // The server may be back at the next look.
    }
    if (task && task.status !== "running" && task.status !== "queued") {
      location.reload();
      return;
    }
    if (task) {
      bar.max = task.total || 1;
      bar.value = task.completed;
      place.querySelector("[data-stage]").textContent = task.stage;
      place.querySelector("[data-number]").textContent = `${task.completed} / ${task.total}`;
    }
    setTimeout(look, 1500);
  };
  setTimeout(look, 1500);
}

for (const input of document.querySelectorAll("input[type=file][data-fills]")) {
  input.parentElement.hidden = false;
  input.addEventListener("change", async () => {
    const file = input.files[0];
    if (!file) return;
    const tooLarge = file.size > Number(input.dataset.most);
    input.setCustomValidity(tooLarge ? `${file.size} > ${input.dataset.most} bytes` : "");
    input.reportValidity();
    if (tooLarge) return;
    document.getElementById(input.dataset.fills).value = await file.text();
    const [field, value] = input.dataset.chooses.split(":");
    document.getElementById(field).value = value;
  });
}
