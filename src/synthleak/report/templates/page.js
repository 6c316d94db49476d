/* The page's own script: figures when they come into view, long tables, the way to a fold.
 *
 * Nothing here reads markup from data: text goes into text nodes, and nothing is evaluated. */
(function () {
  "use strict";
  const LEAF = 20;
  const kept = new Map();

  /* Data lie in the page as gzipped JSON in base64. */
  function unpack(id) {
    if (!kept.has(id)) {
      const words = atob(document.getElementById(id).textContent);
      const bytes = Uint8Array.from(words, (sign) => sign.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      kept.set(id, new Response(stream).json());
    }
    return kept.get(id);
  }

  function made(name, options, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(options || {})) {
      if (key in element) element[key] = value;
      else element.setAttribute(key, value);
    }
    element.append(...children);
    return element;
  }

  /* ---- numbers, written as report/page/numbers.py writes them ---- */
  const number = (value) => (value === "inf" ? Infinity : value);
  const fixed = (value, places) => {
    const shown = value.toFixed(places);
    return (Number(shown) === 0 ? shown.replace("-", "") : shown).replace("-", "−");
  };
  const WRITE = {
    words: (value) => value,
    figure: (value) => fixed(value, 3),
    signed: (value) => {
      const shown = fixed(value, 3);
      return value > 0 && shown !== "0.000" ? "+" + shown : shown;
    },
    chance: (value) => fixed(value, value < 0.01 ? 4 : value < 0.1 ? 3 : 2),
    budget: (value) => (value === Infinity ? "∞" : String(Number(value.toPrecision(6)))),
    count: (value) => value.toFixed(0).replace(/\B(?=(\d{3})+(?!\d))/g, ","),
  };

  function figure(table, row, column) {
    const value = column.values[row];
    const source = `${table}/${row}/${column.field}`;
    const data = made("data", { value: value === null ? "" : String(value), title: source });
    data.dataset.from = source;
    data.dataset.how = column.how;
    data.textContent = value === null ? "–" : WRITE[column.how](number(value));
    return data;
  }

  /* ---- long tables ---- */
  class Sheet {
    constructor(place, content) {
      this.place = place;
      this.content = content;
      this.label = place.dataset.label;
      this.start = Number(place.dataset.start || 0);
      this.end = Number(place.dataset.end || content.rows);
      this.columns = content.columns;
      for (const column of this.columns) this.prepare(column);
      this.filters = new Map();
      const chosen = content.chosen || {};
      for (const column of this.columns) {
        if (column.field in chosen) this.filters.set(column, column.words.indexOf(chosen[column.field]));
      }
      this.search = "";
      this.opened = new Set();
      this.leaf = 0;
      this.sorted = this.first();
      this.build();
      this.update();
    }

    /* Words are numbered; sorting needs the order of the words, found once. */
    prepare(column) {
      if (column.order) return;
      if (column.words) {
        const compare = new Intl.Collator("en", { numeric: true }).compare;
        const places = column.words.map((_, place) => place);
        places.sort((a, b) => compare(column.words[a], column.words[b]));
        column.order = new Float64Array(places.length);
        places.forEach((place, rank) => { column.order[place] = rank; });
        column.sign = Float64Array.from(column.values, (value) => column.order[value]);
      } else {
        column.sign = Float64Array.from(column.values, (value) => (value === null ? NaN : number(value)));
        column.order = true;
      }
    }

    /* V compares within a cell only, so records start in the order of q, or of their ranks. */
    first() {
      const has = (field) => this.columns.findIndex((column) => column.field === field);
      if (this.content.table === "records") {
        const place = has("q_value") >= 0 ? has("q_value") : has("v_rank");
        return { column: place, down: false };
      }
      if (this.content.table === "proxies") return { column: has("auc"), down: true };
      return { column: -1, down: false };
    }

    build() {
      const bar = made("div", { className: "bar" });
      const search = made("input", { type: "search", autocomplete: "off", spellcheck: false });
      search.addEventListener("input", () => { this.search = search.value; this.leaf = 0; this.update(); });
      bar.append(made("label", {}, "Search ", search));
      for (const column of this.columns) {
        const few = column.words || (column.how === "budget" ? this.distinct(column) : null);
        if (!few || few.length < 2 || few.length > 30 || column.field === "record") continue;
        bar.append(made("label", {}, column.title + " ", this.choice(column, few)));
      }
      this.head = made("tr");
      this.columns.forEach((column, place) => this.head.append(this.heading(column, place)));
      if (this.content.texts) this.head.append(made("th", { scope: "col" }, "Text"));
      this.body = made("tbody");
      const table = made("table", {}, made("caption", { className: "vh" }, this.label),
        made("thead", {}, this.head), this.body);
      const wide = made("div", { className: "wide", tabIndex: 0, role: "region", "aria-label": this.label }, table);
      this.status = made("span", { role: "status" });
      this.before = made("button", { type: "button" }, "Previous");
      this.after = made("button", { type: "button" }, "Next");
      this.before.addEventListener("click", () => { this.leaf -= 1; this.draw(); });
      this.after.addEventListener("click", () => { this.leaf += 1; this.draw(); });
      this.place.replaceChildren(bar, wide, made("div", { className: "pager" }, this.before, this.after, this.status));
    }

    distinct(column) {
      return [...new Set(column.values)].sort((a, b) => number(b) - number(a));
    }

    choice(column, few) {
      const list = made("select", {}, made("option", { value: "" }, "all"));
      few.forEach((value, place) => {
        const words = column.words ? value : WRITE.budget(number(value));
        list.append(made("option", { value: String(place), selected: this.filters.get(column) === place }, words || "–"));
      });
      list.addEventListener("change", () => {
        const place = Number(list.value);
        if (list.value === "") this.filters.delete(column);
        else this.filters.set(column, column.words ? place : few[place]);
        this.leaf = 0;
        this.update();
      });
      return list;
    }

    heading(column, place) {
      const button = made("button", { type: "button", title: column.note || "" }, column.title);
      button.addEventListener("click", () => {
        const same = this.sorted.column === place;
        this.sorted = { column: place, down: same ? !this.sorted.down : column.how !== "words" && column.how !== "chance" && column.field !== "v_rank" };
        this.leaf = 0;
        this.update();
      });
      return made("th", { scope: "col", className: column.how === "words" ? "" : "n" }, button);
    }

    /* Choose the rows, put them in order, draw the leaf. */
    update() {
      const wanted = this.search.trim().toLowerCase();
      const hits = wanted === "" ? [] : this.columns.filter((column) => column.words).map((column) => ({
        values: column.values,
        found: column.words.map((word) => word.toLowerCase().includes(wanted)),
      }));
      const filters = [...this.filters];
      const rows = new Uint32Array(this.end - this.start);
      let count = 0;
      for (let row = this.start; row < this.end; row += 1) {
        if (filters.some(([column, value]) => column.values[row] !== value)) continue;
        if (wanted !== "" && !hits.some((hit) => hit.found[hit.values[row]])) continue;
        rows[count] = row;
        count += 1;
      }
      this.rows = rows.subarray(0, count);
      if (this.sorted.column >= 0) this.sort();
      this.draw();
    }

    /* What is missing comes last, whichever way the others go; ties keep the table's order. */
    sort() {
      const sign = this.columns[this.sorted.column].sign;
      const turn = this.sorted.down ? -1 : 1;
      this.rows.sort((a, b) => {
        const one = sign[a], other = sign[b];
        if (one === other) return a - b;
        if (one !== one) return other !== other ? a - b : 1;
        if (other !== other) return -1;
        return one < other ? -turn : turn;
      });
    }

    draw() {
      const leaves = Math.max(1, Math.ceil(this.rows.length / LEAF));
      this.leaf = Math.min(Math.max(this.leaf, 0), leaves - 1);
      const from = this.leaf * LEAF, to = Math.min(from + LEAF, this.rows.length);
      const shown = Array.from(this.rows.subarray(from, to), (row) => [this.line(row), this.below(row)]);
      this.body.replaceChildren(...shown.flat().filter((line) => line));
      [...this.head.children].forEach((head, place) => {
        if (place === this.sorted.column) head.setAttribute("aria-sort", this.sorted.down ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
      this.before.disabled = this.leaf === 0;
      this.after.disabled = this.leaf === leaves - 1;
      const all = WRITE.count(this.rows.length);
      this.status.textContent = to === 0 ? "No row matches." : `${WRITE.count(from + 1)}–${WRITE.count(to)} of ${all}`;
    }

    line(row) {
      const cells = this.columns.map((column, place) => {
        const value = column.values[row];
        if (column.words) {
          const words = column.words[value];
          return place === 0 ? made("th", { scope: "row" }, this.name(row, words)) : made("td", {}, words);
        }
        return made("td", { className: "n" }, figure(this.content.table, row, column));
      });
      if (this.content.texts) {
        cells.push(made("td", { className: "text" }, this.content.texts[this.columns[0].values[row]]));
      }
      return made("tr", {}, ...cells);
    }

    /* A named record leads to the synthetic rows that are most like it. */
    near(row) {
      return this.content.nearest && this.content.nearest.of[row];
    }

    name(row, words) {
      if (!this.near(row)) return words;
      const button = made("button", { type: "button", className: "open", "aria-expanded": this.opened.has(row) }, words);
      button.addEventListener("click", () => {
        if (!this.opened.delete(row)) this.opened.add(row);
        this.draw();
        this.body.querySelector(`[data-row="${row}"]`).focus();
      });
      button.dataset.row = row;
      return button;
    }

    below(row) {
      if (!this.opened.has(row)) return null;
      const { columns, texts } = this.content.nearest;
      const heads = columns.map((column) => made("th", { scope: "col", title: column.note, className: column.words ? "" : "n" }, column.title));
      if (texts.length) heads.push(made("th", { scope: "col" }, "Text"));
      const lines = this.near(row).map((place) => {
        const cells = columns.map((column) => (column.words
          ? made("td", {}, column.words[column.values[place]])
          : made("td", { className: "n" }, figure("nearest", place, column))));
        if (texts.length) cells.push(made("td", { className: "text" }, texts[place]));
        return made("tr", {}, ...cells);
      });
      const table = made("table", {}, made("caption", {}, "Synthetic rows most like it"),
        made("thead", {}, made("tr", {}, ...heads)), made("tbody", {}, ...lines));
      const width = this.columns.length + (this.content.texts ? 1 : 0);
      return made("tr", { className: "nearest" }, made("td", { colSpan: width }, table));
    }
  }

  /* ---- what is drawn when it comes into view, one thing at a time, so that clicks get through ---- */
  function draw(place) {
    if (place.dataset.drawn) return null;
    place.dataset.drawn = "yes";
    seen.unobserve(place);
    if (place.dataset.sheet) {
      return unpack("sheet-" + place.dataset.sheet).then((content) => new Sheet(place, content));
    }
    return unpack("figure-" + place.dataset.figure).then((spec) => {
      place.replaceChildren();
      figures.push(globalThis.synthleakFigure(place, spec));
    });
  }
  const figures = [];
  const wanted = [];
  let busy = false;
  async function work() {
    if (busy) return;
    busy = true;
    for (let place = wanted.shift(); place; place = wanted.shift()) {
      await draw(place);
      await new Promise((done) => setTimeout(done));
    }
    busy = false;
  }
  const seen = new IntersectionObserver((entries) => {
    wanted.push(...entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target));
    work();
  }, { rootMargin: "300px" });
  const places = [...document.querySelectorAll(".sheet, .plot")];
  for (const place of places) seen.observe(place);

  /* What stands open is drawn in idle time too, so that it can be printed. */
  const large = (place) => place.dataset.sheet && document.getElementById("sheet-" + place.dataset.sheet).textContent.length > 3e6;
  const open = places.filter((place) => !place.closest("details:not([open])") && !large(place));
  const later = globalThis.requestIdleCallback || ((task) => setTimeout(task, 200));
  function next() {
    const place = open.shift();
    if (!place) return;
    Promise.resolve(draw(place)).then(() => later(next));
  }
  addEventListener("load", () => setTimeout(next, 1000));

  /* ---- the whole page at once, for paper and screenshots: report.html#print ---- */
  const root = document.documentElement;
  async function all() {
    for (const fold of document.querySelectorAll("details")) fold.open = true;
    for (const place of places) await draw(place);
    await Promise.all(figures);
    root.dataset.all = "drawn";
  }

  /* ---- the way to a fold, or to something inside one ---- */
  function follow() {
    if (location.hash === "#print") return all();
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    const fold = target && target.closest("details");
    if (!fold) return undefined;
    for (let at = fold; at; at = at.parentElement.closest("details")) at.open = true;
    target.scrollIntoView();
    fold.querySelector("summary").focus({ preventScroll: true });
    return undefined;
  }
  addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest('a[href^="#"]');
    if (link && link.getAttribute("href") === location.hash) follow();
  });
  follow();

  const cells = [...document.querySelectorAll("details.cell")];
  document.querySelectorAll("[data-all]").forEach((button) => {
    button.parentElement.hidden = false;
    button.addEventListener("click", () => {
      for (const cell of cells) cell.open = button.dataset.all === "open";
    });
  });

  /* ---- paper: every cell shows its numbers, and its figures if it was open ---- */
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.cell:not([open])")];
    for (const section of opened) {
      section.open = true;
      section.classList.add("folded");
    }
  });
  addEventListener("afterprint", () => {
    for (const section of opened) {
      section.open = false;
      section.classList.remove("folded");
    }
    opened = [];
  });

  /* ---- the index shows which section is in view ---- */
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const inView = new Set();
  const reading = new IntersectionObserver((entries) => {
    for (const entry of entries) inView[entry.isIntersecting ? "add" : "delete"](entry.target.id);
    const first = [...links.keys()].find((id) => inView.has(id));
    for (const [id, link] of links) {
      if (id === first) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }, { rootMargin: "-25% 0px -60% 0px" });
  for (const part of document.querySelectorAll("main > [id]")) reading.observe(part);

  /* ---- where a number stands, on demand ---- */
  document.addEventListener("pointerover", (event) => {
    const data = event.target.closest && event.target.closest("data[data-from]");
    if (data && !data.title) data.title = `${data.value} in ${data.dataset.from}`;
  });

  /* ---- the tip of a square goes away on Escape ---- */
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    document.body.classList.add("no-tips");
  });
  for (const kind of ["pointerover", "focusin"]) {
    document.addEventListener(kind, (event) => {
      if (event.target.closest && event.target.closest(".map td")) document.body.classList.remove("no-tips");
    });
  }

  /* ---- light and dark ---- */
  const theme = document.getElementById("theme");
  const themes = ["as the system", "light", "dark"];
  let chosen = 0;
  theme.hidden = false;
  theme.addEventListener("click", () => {
    chosen = (chosen + 1) % themes.length;
    theme.textContent = "Theme: " + themes[chosen];
    if (chosen === 0) delete root.dataset.theme;
    else root.dataset.theme = themes[chosen];
  });
  root.dataset.ready = "yes";
})();
