/* Draws a figure into an element: synthleakFigure(element, spec) -> Promise of Vega's view.
 *
 * Expressions are interpreted, never compiled, so that a page may forbid eval. Colours are CSS
 * variables: light, dark and print are the style sheet's matter. An element without a width, inside
 * a closed section for one, is drawn once it gets one, and again when its width changes. */
(function () {
  "use strict";
  const results = new WeakMap();
  const config = CONFIG;

  /* "$ink" becomes a CSS variable; what starts with any other sign is left as it is. */
  function coloured(value) {
    if (typeof value === "string") {
      return /^\$[a-z0-9]+$/.test(value) ? "var(--sl-" + value.slice(1) + ")" : value;
    }
    if (Array.isArray(value)) return value.map(coloured);
    if (value === null || typeof value !== "object") return value;
    /* Data are left alone: a record may well be called "$ink". */
    return Object.fromEntries(
      Object.entries(value).map(([k, v]) => [k, k === "values" || k === "datasets" ? v : coloured(v)])
    );
  }

  /* A figure of several panels gets as many columns as fit; any other takes the whole width. */
  function sized(spec, width) {
    const panels = (spec.usermeta || {}).panels;
    if (!panels) return { ...spec, width: width };
    const room = width - panels.margin;
    const fit = Math.max(1, Math.min(panels.count, Math.floor(room / panels.least)));
    const columns = Math.ceil(panels.count / Math.ceil(panels.count / fit));
    const inner = Math.floor(room / columns) - panels.gutter;
    return { ...spec, columns: columns, spec: { ...spec.spec, width: Math.max(80, inner) } };
  }

  /* The width that a figure without panels is given includes its axes. Vega gets told, and not
   * Vega-Lite, which would warn about every figure whose height follows its rows. */
  function fitted(compiled) {
    const panels = (compiled.usermeta || {}).panels;
    return panels ? compiled : { ...compiled, autosize: { type: "fit-x", contains: "padding" } };
  }

  /* On a narrow page legends take fewer columns, and titles end where their axis does. */
  function fitting(width) {
    if (width >= 520) return config;
    const legend = { ...config.legend, columns: Math.max(1, Math.floor(width / 190)) };
    return { ...config, legend: legend, axisX: { ...config.axisX, titleAnchor: "end" } };
  }

  function tip() {
    let box = document.querySelector(".sl-tip");
    if (!box) {
      box = document.createElement("div");
      box.className = "sl-tip";
      box.setAttribute("role", "tooltip");
      box.hidden = true;
      document.body.append(box);
    }
    return box;
  }

  /* Text nodes only: what data hold is never read as markup. */
  function show(handler, event, item, value) {
    const box = tip();
    box.hidden = value === null || value === undefined || value === "";
    if (box.hidden) return;
    box.textContent = "";
    if (typeof value === "object") {
      const list = document.createElement("dl");
      for (const [key, text] of Object.entries(value)) {
        const name = document.createElement("dt"), says = document.createElement("dd");
        name.textContent = key;
        says.textContent = String(text);
        list.append(name, says);
      }
      box.append(list);
    } else {
      box.textContent = String(value);
    }
    const gap = 12, room = document.documentElement;
    const left = Math.min(event.clientX + gap, room.clientWidth - box.offsetWidth - gap);
    const below = event.clientY + gap;
    const top = below + box.offsetHeight > room.clientHeight
      ? event.clientY - box.offsetHeight - gap : below;
    box.style.left = Math.max(0, left) + "px";
    box.style.top = Math.max(0, top) + "px";
  }

  function draw(element, spec, width) {
    const old = results.get(element);
    if (old) old.finalize();
    const whole = coloured({ config: fitting(width), ...spec });
    /* `ast`: expressions are interpreted. Log level 1: errors only. */
    return vegaEmbed(element, sized(whole, width), {
      mode: "vega-lite",
      patch: fitted,
      ast: true,
      actions: false,
      defaultStyle: false,
      renderer: "svg",
      hover: true,
      logLevel: 1,
      tooltip: show,
      loader: { load: () => Promise.reject(new Error("figures load nothing")) },
    }).then((result) => {
      results.set(element, result);
      return result.view;
    });
  }

  globalThis.synthleakFigure = function (element, spec) {
    element.classList.add("sl-figure");
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", spec.description || "");
    /* Vega gives its container a role of its own, under which each mark would be read out. */
    const inside = document.createElement("div");
    element.replaceChildren(inside);
    return new Promise((resolve, reject) => {
      let drawn = 0;
      const watch = new ResizeObserver(() => {
        const width = Math.floor(element.clientWidth);
        if (width === 0 || width === drawn) return;
        drawn = width;
        draw(inside, spec, width).then(resolve, reject);
      });
      watch.observe(element);
    });
  };
})();
