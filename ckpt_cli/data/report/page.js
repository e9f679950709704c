"use strict";
(async () => {
  const $ = (id) => document.getElementById(id);
  if (typeof DecompressionStream === "undefined") {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = "This browser is too old to show the state at each checkpoint.";
    document.querySelector(".split").append(note);
    return;
  }
  const packed = Uint8Array.from(atob($("data").textContent), (one) => one.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const { start, checkpoints, values } = await new Response(unpacked).json();

  // States. Each value is kept once; a channel is the place of one, runs of places, or an object of them.
  function channel(form) {
    if (typeof form === "number") return values[form];
    if (Array.isArray(form)) return form.flatMap(([first, count]) => values.slice(first, first + count));
    return Object.fromEntries(Object.entries(form).map(([key, place]) => [key, values[place]]));
  }

  function stateAt(place) {
    const state = checkpoints[place].state;
    return state && Object.fromEntries(Object.entries(state).map(([name, form]) => [name, channel(form)]));
  }

  // Text. All that a store holds goes through `safe` and `textContent`; nothing becomes a tag.
  const HIDDEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Co}\p{Cs}\u2028\u2029\u115f\u1160\u3164\uffa0]/gu;

  function safe(text) {
    return text.replace(HIDDEN, (one, at) => {
      const isEmoji = one === "\u200d" && /\p{Extended_Pictographic}\ufe0f?$/u.test(text.slice(Math.max(at - 3, 0), at));
      if (isEmoji) return one;
      const code = one.codePointAt(0);
      if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
      return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
    });
  }

  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = safe(text);
    return made;
  }

  const counted = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
  const cut = (text, most) => (text.length > most ? `${text.slice(0, most)}…` : text);

  // Values.
  const MOST_ITEMS = 500;

  function brief(value) {
    if (typeof value === "string") return JSON.stringify(cut(value, 100));
    if (value === null || typeof value !== "object") return String(value);
    if (Array.isArray(value)) return counted(value.length, "item");
    const type = value.$type;
    if (type === "ckpt.redacted") return `(${value.$value})`;
    if (value.$cut) return `${brief(value.$cut.kept)} (cut, ${value.$cut.reason})`;
    const content = typeof value.content === "string" ? value.content : undefined;
    const role = value.role || value.type;
    if (content !== undefined && typeof role === "string") {
      const calls = Array.isArray(value.tool_calls) ? value.tool_calls.map((call) => String(call?.name)) : [];
      return `${role}: ${cut(content || calls.join(", "), 100)}`;
    }
    const keys = Object.keys(value).filter((key) => key !== "$type");
    const short = typeof type === "string" ? `${type.split(".").pop()} ` : "";
    if (Array.isArray(value.$args)) return `${short}(${cut(value.$args.map(brief).join(", "), 100)})`;
    if (keys.length === 1 && typeof value[keys[0]] !== "object") return `${short}${brief(value[keys[0]])}`;
    return `${short}{${cut(keys.join(", "), 100)}}`;
  }

  const isLeaf = (value) =>
    value === null || typeof value !== "object" || Object.keys(value).length === 0 || value.$type === "ckpt.redacted";

  function leaf(value) {
    const isText = typeof value === "string";
    const text = isText ? value : value !== null && typeof value === "object" && !value.$type ? JSON.stringify(value) : brief(value);
    return element("span", isText ? "value text" : "value", text);
  }

  function field(name, value, isOpen, onToggle) {
    const isLong = typeof value === "string" && (value.length > 200 || value.includes("\n"));
    if (isLeaf(value) && !isLong) {
      const item = element("div", "item");
      item.append(element("span", "name value", name), ": ", leaf(value));
      return item;
    }
    const details = element("details", "item");
    const summary = element("summary");
    summary.append(element("span", "name value", name), " ", element("span", "dim value", brief(value)));
    details.append(summary);
    let isFilled = false;
    const fill = () => {
      if (isFilled || !details.open) return;
      isFilled = true;
      fillWith(details, value);
    };
    details.addEventListener("toggle", () => {
      fill();
      if (onToggle) onToggle(details.open);
    });
    details.open = isOpen;
    fill();
    return details;
  }

  function fillWith(details, value) {
    if (isLeaf(value)) {
      const item = element("div", "item");
      item.append(leaf(value));
      details.append(item);
      return;
    }
    const entries = Object.entries(value);
    const add = (from) => {
      for (const [key, one] of entries.slice(from, from + MOST_ITEMS)) details.append(field(key, one, false));
      const left = entries.length - from - MOST_ITEMS;
      if (left > 0) {
        const more = element("button", "", `Show ${left > MOST_ITEMS ? MOST_ITEMS : left} of ${left} more`);
        more.addEventListener("click", () => {
          more.remove();
          add(from + MOST_ITEMS);
        });
        details.append(more);
      }
    };
    add(0);
  }

  // The checkpoint that is shown.
  const slider = $("slider");
  const rows = new Map();
  for (const row of document.querySelectorAll("#tree .row")) rows.set(Number(row.dataset.row), row);
  const firstOfRow = new Map();
  checkpoints.forEach((one, place) => {
    if (one.row !== null && !firstOfRow.has(one.row)) firstOfRow.set(one.row, place);
  });
  const opened = new Set();
  let shown = -1;
  let isWaiting = false;

  function show(place) {
    shown = Math.min(Math.max(place, 0), checkpoints.length - 1);
    const one = checkpoints[shown];
    slider.value = String(shown);
    const words = [`Checkpoint ${shown + 1} of ${checkpoints.length}`, `step ${one.step ?? "?"}`, one.made];
    slider.setAttribute("aria-valuetext", safe(words.join(", ")));
    $("position").textContent = safe(words.join(" · "));
    $("first").disabled = $("previous").disabled = shown === 0;
    $("next").disabled = $("last").disabled = shown === checkpoints.length - 1;
    // Holding a key asks for many checkpoints in a frame; one of them is drawn.
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => {
      isWaiting = false;
      draw(checkpoints[shown], shown);
    });
  }

  function draw(one, place) {
    drawRow(one.row);
    drawFacts(one);
    drawTroubles(one);
    drawChanges(one);
    drawState(one, place);
    document.body.dataset.shown = String(place);
  }

  function drawRow(row) {
    for (const other of document.querySelectorAll("#tree .row.shown")) other.classList.remove("shown");
    const found = rows.get(row);
    if (found === undefined) return;
    found.classList.add("shown");
    const box = $("tree");
    const [outer, inner] = [box.getBoundingClientRect(), found.getBoundingClientRect()];
    if (inner.top < outer.top || inner.bottom > outer.bottom) {
      box.scrollTop += inner.top - outer.top - outer.height / 2;
    }
  }

  function drawFacts(one) {
    const list = $("facts");
    list.replaceChildren();
    for (const [name, text] of one.facts) list.append(element("dt", "", name), element("dd", "value", text));
    const metadata = $("metadata");
    metadata.replaceChildren(field("metadata", one.metadata, opened.has("metadata"), remember("metadata")));
  }

  function drawTroubles(one) {
    const found = $("troubles");
    found.replaceChildren();
    for (const [kind, title, text] of one.troubles) {
      const trouble = element("div", `trouble ${kind}`);
      trouble.append(element("h4", "", title), element("pre", "", text));
      found.append(trouble);
    }
  }

  function drawChanges(one) {
    const changes = $("changes");
    changes.replaceChildren();
    if (one.changes === undefined) {
      const why = one.state === undefined ? "It does not fit into this page." : "It has no parent that is stored.";
      changes.append(element("p", "dim", why));
    } else if (one.changes.length === 0) {
      changes.append(element("p", "dim", "No value changed."));
    } else {
      const lines = element("div", "lines");
      for (const pieces of one.changes) {
        const line = element("div");
        for (const [style, text] of pieces) line.append(element("span", style, text));
        lines.append(line);
      }
      changes.append(lines);
    }
  }

  function drawState(one, place) {
    const box = $("state");
    box.replaceChildren();
    const state = stateAt(place);
    if (state === undefined) {
      box.append(element("p", "dim", "It does not fit into this page."));
      return;
    }
    const names = Object.keys(state).sort();
    if (names.length === 0) box.append(element("p", "dim", "No channel has a value."));
    for (const name of names) {
      const found = field(name, state[name], opened.has(`.${name}`), remember(`.${name}`));
      if (one.changed?.includes(name)) found.classList.add("changed");
      if (Object.hasOwn(one.rebuilt, name)) found.append(element("p", "dim", one.rebuilt[name]));
      box.append(found);
    }
  }

  const remember = (name) => (isOpen) => (isOpen ? opened.add(name) : opened.delete(name));

  // Moving.
  const last = checkpoints.length - 1;
  slider.max = String(last);
  slider.addEventListener("input", () => show(Number(slider.value)));
  $("first").addEventListener("click", () => show(0));
  $("previous").addEventListener("click", () => show(shown - 1));
  $("next").addEventListener("click", () => show(shown + 1));
  $("last").addEventListener("click", () => show(last));
  const MOVES = { ArrowLeft: () => shown - 1, ArrowRight: () => shown + 1, Home: () => 0, End: () => last };
  document.addEventListener("keydown", (event) => {
    const isChord = event.ctrlKey || event.altKey || event.metaKey || event.shiftKey;
    const move = Object.hasOwn(MOVES, event.key) ? MOVES[event.key] : undefined;
    // A wide table scrolls with these keys while it has the focus.
    if (isChord || move === undefined || event.target.closest(".scrolls")) return;
    event.preventDefault();
    show(move());
  });
  $("tree").addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    const place = row === null ? undefined : firstOfRow.get(Number(row.dataset.row));
    if (place !== undefined) show(place);
  });
  for (const link of document.querySelectorAll("a[data-place]")) {
    link.addEventListener("click", () => show(Number(link.dataset.place)));
  }

  // What is folded is printed, too.
  let unfolded = [];
  window.addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("#state > details:not([open]), .turn details:not([open])")];
    for (const one of unfolded) one.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const one of unfolded) one.open = false;
  });

  // For the console of the browser: `ckpt.state(3)`.
  window.ckpt = { checkpoints, state: stateAt };

  $("stepper").hidden = false;
  show(start);
})();
