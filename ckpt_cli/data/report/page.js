"use strict";
(() => {
  const { start, checkpoints } = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);

  // States. Each is told by what differs from that of an earlier checkpoint; some are kept, so that
  // a step in either direction rebuilds only a few.
  const KEPT_EVERY = 50;
  const kept = new Map();

  function changed(before, [kind, first, gone, items]) {
    if (kind === 0) return first;
    if (kind === 1) return before.slice(0, first).concat(items, before.slice(first + gone));
    const fields = new Map(Object.entries(before));
    for (const [key, value] of Object.entries(first)) fields.set(key, value);
    for (const key of gone) fields.delete(key);
    return Object.fromEntries(fields);
  }

  function stateAt(place) {
    const chain = [];
    let at = place;
    while (!kept.has(at)) {
      chain.push(at);
      if (checkpoints[at].base === undefined) break;
      at = checkpoints[at].base;
    }
    let state = kept.get(at);
    for (let n = chain.length - 1; n >= 0; n--) {
      const one = checkpoints[chain[n]];
      if (one.state === undefined) return undefined;
      const next = new Map(one.base === undefined ? [] : state);
      for (const name of one.gone || []) next.delete(name);
      for (const [name, change] of Object.entries(one.state)) {
        next.set(name, changed(next.get(name), change));
      }
      state = next;
      if (n % KEPT_EVERY === KEPT_EVERY - 1) kept.set(chain[n], state);
    }
    return state;
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
    const facts = [
      ["Checkpoint", one.id],
      ["Namespace", one.ns],
      ["Made from", one.parent_ref],
      ["Saved", one.at],
      ["Input", one.given],
      ["Next", one.next],
      ["Status", one.status.join(", ")],
      ["Writes", one.writes ? String(one.writes) : ""],
      ["Operation", one.operation],
      ["Cannot be read", one.problem],
      ["Warning", one.plaintext ? "stored unencrypted, in a thread with encrypted checkpoints" : ""],
    ];
    const list = $("facts");
    list.replaceChildren();
    for (const [name, text] of facts) {
      if (text) list.append(element("dt", "", name), element("dd", "value", text));
    }
    const metadata = $("metadata");
    metadata.replaceChildren(field("metadata", one.metadata, opened.has("metadata"), remember("metadata")));
  }

  function drawTroubles(one) {
    const found = $("troubles");
    found.replaceChildren();
    for (const error of one.errors) {
      const became = error.became ? ` (${error.became})` : "";
      found.append(trouble("error", `${error.node} failed${became}`, error.text));
    }
    for (const question of one.questions) {
      const became = question.answered ? " (answered)" : "";
      found.append(trouble("question", `${question.node} asks${became}`, question.text));
    }
  }

  function trouble(kind, title, text) {
    const found = element("div", `trouble ${kind}`);
    found.append(element("h4", "", title), element("pre", "", text));
    return found;
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
    if (state.size === 0) box.append(element("p", "dim", "No channel has a value."));
    for (const name of [...state.keys()].sort()) {
      const found = field(name, state.get(name), opened.has(`.${name}`), remember(`.${name}`));
      if (one.base !== undefined && Object.hasOwn(one.state, name)) found.classList.add("changed");
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
  window.ckpt = { checkpoints, state: (place) => stateAt(place) && Object.fromEntries(stateAt(place)) };

  $("stepper").hidden = false;
  show(start);
})();
