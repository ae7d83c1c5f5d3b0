/* What a page does beyond what it says without a script: pointer, keys, zoom and switches. It reads the numbers of
   each chart from the JSON beside it, and writes texts as texts, never as markup. */
"use strict";
(() => {
  const TONES = 12;
  const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /* ---- texts ---- */

  const count = n => n.toLocaleString("en-US");
  /* As the program writes them: GiB begin at ten of them. */
  const unitText = n => {
    const x = Math.abs(n), k = x < 1024 ? 0 : x < 2 ** 20 ? 1 : x < 10 * 2 ** 30 ? 2 : 3;
    return k ? `${(n / 1024 ** k).toFixed(k === 3 ? 2 : 1)} ${["", "KiB", "MiB", "GiB"][k]}` : `${n} bytes`;
  };
  const bytesText = n => (Math.abs(n) < 1024 ? `${n} bytes` : `${unitText(n)} (${count(n)} bytes)`);
  const secondsText = s => {
    const x = Math.abs(s);
    if (x >= 1) return `${s.toFixed(2)} s`;
    return x >= 1e-3 ? `${(s * 1e3).toFixed(2)} ms` : `${(s * 1e6).toFixed(1)} µs`;
  };
  const numberText = x => String(+x.toPrecision(6));
  const valueText = (unit, x) =>
    x === null || x === undefined ? "-" : unit === "bytes" ? bytesText(x) : unit === "seconds" ? secondsText(x) : numberText(x);
  const shortBytes = n => {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let k = 0;
    for (; k < 4 && n >= 1024; k++) n /= 1024;
    return `${+n.toPrecision(4)} ${units[k]}`;
  };

  /* ---- elements ---- */

  const make = (name, attributes, ...inside) => {
    const e = document.createElement(name);
    for (const key in attributes) e.setAttribute(key, attributes[key]);
    e.append(...inside);
    return e;
  };
  const strong = text => make("b", {}, text);

  /* A row of buttons of which one is pressed. */
  const choice = (title, words, chosen, act) => {
    const set = make("fieldset", {}, make("legend", {}, title));
    const press = word => {
      for (const b of set.querySelectorAll("button")) b.setAttribute("aria-pressed", b.textContent === word);
      act(word);
    };
    for (const word of words) {
      const b = make("button", { type: "button", "aria-pressed": word === chosen }, word);
      b.addEventListener("click", () => press(word));
      set.append(b);
    }
    return set;
  };
  const buttons = (title, acts) => {
    const set = make("fieldset", {}, make("legend", {}, title));
    for (const [word, label, act] of acts) {
      const b = make("button", { type: "button", "aria-label": label }, word);
      b.addEventListener("click", act);
      set.append(b);
    }
    return set;
  };

  /* A plot that keys reach, and the place where it says what is pointed at. */
  const prepare = (figure, keys) => {
    const plot = figure.querySelector(".plot"), caption = figure.querySelector("figcaption");
    const said = make("output", { id: `${figure.id}-said`, "aria-live": "polite" });
    plot.tabIndex = 0;
    plot.setAttribute("role", "application");
    plot.setAttribute("aria-label", `${caption.textContent}. ${keys}`);
    plot.setAttribute("aria-describedby", said.id);
    plot.after(said);
    return { plot, said, caption };
  };

  /* ---- bands ---- */

  /* Bands as columns of numbers, in the order of the data; what is gathered becomes a band for each stair, which has
     bytes either as planned or as observed. */
  const readBands = d => {
    const list = [], n = d.moments.length, w = d.words;
    const add = (x, first, last, base, seen) =>
      list.push({ name: w[x[0]], form: w[x[1]], from: w[x[2]], category: x[3], phase: x[4], group: x[5], bytes: x[6], first, last, base, seen });
    for (const x of d.base) add(x, 0, n - 1, true, null);
    for (const x of d.bands) add(x, x[7], x[8], false, x.length > 9 ? { bytes: x[9], first: x[10], last: x[11] } : null);
    const gathers = d.gathered.some(g => g.seen);
    for (const g of d.gathered)
      for (let i = 0; i < g.stairs.length; i += 3) {
        const end = i + 3 < g.stairs.length ? g.stairs[i + 3] : n, bytes = g.stairs[i + 1];
        if (bytes > 0)
          list.push({ name: `${count(g.stairs[i + 2])} small ones`, form: "", from: "", category: g.category, phase: -1, group: g.group,
                      first: g.stairs[i], last: end - 1, base: false, gathered: bytes,
                      bytes: g.seen ? 0 : bytes,
                      seen: gathers ? { bytes: g.seen ? bytes : 0, first: g.stairs[i], last: end - 1 } : null });
      }
    return list;
  };

  /* Bands in the order of the stack: what stays first, then by `key`, then by birth. As numbers, which sort fastest. */
  const stackOrder = (list, n, key, life) => {
    const L = list.length, keys = new Float64Array(L), order = new Uint32Array(L);
    let most = 0;
    for (let i = 0; i < L; i++) most = Math.max(most, key(list[i]));
    for (let i = 0; i < L; i++) {
      const b = list[i], k = b.base ? key(b) : most + 1 + key(b);
      keys[i] = (k * (n + 1) + life(b).first) * L + i;
    }
    keys.sort();
    for (let r = 0; r < L; r++) order[r] = keys[r] - Math.floor(keys[r] / L) * L;
    return order;
  };

  /* Who is alive at a moment, without looking at all: the axis is cut into stretches, and each has a list of those who
     live in it, in the order of the stack. What stays has ranks below `stays` and is in no list; `below` are its sums. */
  const makeIndex = (list, n, key, life) => {
    const L = list.length, order = stackOrder(list, n, key, life);
    const span = Math.max(8, Math.ceil(n / 128)), stretches = Math.ceil(n / span);
    const start = new Uint32Array(stretches + 1), first = new Int32Array(L), last = new Int32Array(L);
    const bytes = new Float64Array(L), tone = new Uint8Array(L), rank = new Uint32Array(L), all = new Float64Array(n + 1);
    let stays = 0;
    while (stays < L && list[order[stays]].base) stays++;
    const below = new Float64Array(stays + 1);
    for (let r = 0; r < L; r++) {
      const i = order[r], b = list[i], l = life(b);
      rank[i] = r, first[r] = l.first, last[r] = l.last, bytes[r] = l.bytes, tone[r] = key(b) % TONES;
      if (r < stays) below[r + 1] = below[r] + l.bytes;
      if (!l.bytes) continue;
      all[l.first] += l.bytes, all[l.last + 1] -= l.bytes;
      if (r >= stays) for (let s = Math.floor(l.first / span); s <= Math.floor(l.last / span); s++) start[s + 1]++;
    }
    for (let s = 0; s < stretches; s++) start[s + 1] += start[s];
    for (let m = 1; m < n; m++) all[m] += all[m - 1];
    const at = start.slice(), members = new Uint32Array(start[stretches]);
    for (let r = stays; r < L; r++) {
      if (!bytes[r]) continue;
      for (let s = Math.floor(first[r] / span); s <= Math.floor(last[r] / span); s++) members[at[s]++] = r;
    }
    return { order, rank, first, last, bytes, tone, stays, below, span, start, members, all };
  };

  /* The last of sorted[low … high - 1] that is at most v. */
  const lastAtMost = (sorted, v, low, high) => {
    for (; high - low > 1;) {
      const middle = (low + high) >> 1;
      sorted[middle] <= v ? (low = middle) : (high = middle);
    }
    return low;
  };

  /* The rank of the band that has byte `y` of the stack at moment m; null: none. */
  const bandAt = (x, m, y) => {
    const s = Math.floor(m / x.span);
    let sum = x.below[x.stays];
    if (y < sum) return lastAtMost(x.below, y, 0, x.stays);
    for (let i = x.start[s]; i < x.start[s + 1]; i++) {
      const r = x.members[i];
      if (x.first[r] > m || x.last[r] < m) continue;
      sum += x.bytes[r];
      if (y < sum) return r;
    }
    return null;
  };

  const aliveAt = (x, m) => {
    const s = Math.floor(m / x.span), list = [];
    for (let r = 0; r < x.stays; r++) if (x.bytes[r]) list.push(r);
    for (let i = x.start[s]; i < x.start[s + 1]; i++) {
      const r = x.members[i];
      if (x.first[r] <= m && x.last[r] >= m) list.push(r);
    }
    return list;
  };

  /* Fills of the tones: a colour, and a pattern over it. */
  const makeFills = context => {
    const tile = document.createElement("canvas"), fills = [], over = [null];
    const shade = style("--hatch");
    for (let kind = 1; kind < 4; kind++) {
      tile.width = tile.height = 8;
      const t = tile.getContext("2d");
      t.clearRect(0, 0, 8, 8);
      t.strokeStyle = t.fillStyle = shade, t.lineWidth = 2;
      t.beginPath();
      if (kind < 3) {
        for (const k of [-8, 0, 8]) kind === 1 ? (t.moveTo(k - 1, 9), t.lineTo(k + 9, -1)) : (t.moveTo(k - 1, -1), t.lineTo(k + 9, 9));
        t.stroke();
      } else {
        t.arc(4, 4, 1.2, 0, 7), t.fill();
      }
      over.push(context.createPattern(tile, "repeat"));
    }
    for (let k = 0; k < TONES; k++) fills.push([style(`--t${k}`), over[k % 4]]);
    return fills;
  };

  const bandsChart = (figure, d) => {
    const { plot, said } = prepare(figure, "Arrow keys move along the axis and through the stack; plus and minus zoom, 0 shows all, P goes to the peak.");
    const n = d.moments.length, list = readBands(d);
    const back = make("canvas", { "aria-hidden": "true" }), front = make("canvas", { "aria-hidden": "true", class: "over" });
    const held = m => (d.held ? d.held[d.held_varies ? m : 0] : 0);
    const by = { category: x => x.category, [d.group_word]: x => x.group + 1 };
    const indexes = {};
    const state = { stack: "category", along: d.times && !d.by_moment ? "time" : d.moment_word, life: "planned", from: 0, to: 1, moment: d.peak, band: null };
    let x, box, pixel, marks, ratio, most, marked = [];

    const lives = { planned: b => b, observed: b => b.seen || b };
    const isObserved = m => d.observed && d.observed[d.moments[m][3]];
    const bytesOf = b => b.gathered || b.bytes;
    const index = () => {
      const name = `${state.stack} ${state.life}`;
      if (!indexes[name]) indexes[name] = makeIndex(list, n, by[state.stack], lives[state.life]);
      return indexes[name];
    };

    /* Along the axis, from 0 to 1. */
    const end = d.times ? d.times[n] : 1;
    const place = m => (state.along === "time" && end > 0 ? (m && d.times[m] / end) : m / n);
    const momentAt = u => {
      if (state.along !== "time") return Math.min(n - 1, Math.max(0, Math.floor(u * n)));
      return lastAtMost(d.times, u * end, 0, n);
    };
    const toX = u => box.left + ((u - state.from) / (state.to - state.from)) * box.width;
    const toU = px => state.from + ((px - box.left) / box.width) * (state.to - state.from);
    const toY = bytes => box.top + box.height * (1 - bytes / most);
    const toBytes = py => (1 - (py - box.top) / box.height) * most;

    /* Of each pixel of the axis the moment with the most bytes, so that no peak is lost; of two together where very many
       are alive. */
    const choosePixels = () => {
      const step = x.members.length > 4000 * (x.start.length - 1) ? 2 : 1;
      pixel = new Int32Array(box.width);
      for (let i = 0; i < box.width; i += step) {
        const a = momentAt(toU(box.left + i)), b = momentAt(toU(box.left + i + step) - 1e-12);
        let m = a;
        for (let k = a + 1; k <= b; k++) if (x.all[k] > x.all[m]) m = k;
        pixel.fill(m, i, i + step);
      }
    };

    const STRIDE = 64; /* so often the sum of the stack is kept, for the outline of a band */

    /* Bands of one tone that lie on each other are one rectangle; each that is high enough has an edge. */
    const drawPile = (c, fills, place, ranks, from, to, moment) => {
      const { first, last, bytes, tone } = x, [left, wide, bottom, edge] = place, enough = 3 * most / box.height;
      const edges = [], sums = [];
      let sum = bottom, begun = bottom, now = -1;
      const fill = () => {
        const y = toY(sum), h = toY(begun) - y;
        c.fillStyle = fills[now][0], c.fillRect(left, y, wide, h);
        if (fills[now][1]) c.fillStyle = fills[now][1], c.fillRect(left, y, wide, h);
      };
      for (let k = from; k < to; k++) {
        if ((k - from) % STRIDE === 0) sums.push(sum);
        const r = ranks ? ranks[k] : k;
        if (first[r] > moment || last[r] < moment) continue;
        if (tone[r] !== now) {
          if (sum > begun) fill();
          now = tone[r], begun = sum;
        }
        sum += bytes[r];
        if (bytes[r] > enough) edges.push(sum);
      }
      if (sum > begun) fill();
      c.fillStyle = edge, c.globalAlpha = .55;
      for (const e of edges) c.fillRect(left, toY(e), wide, .7);
      c.globalAlpha = 1;
      return { sum, sums };
    };

    const drawStack = (c, fills) => {
      const edge = style("--card"), bottom = drawPile(c, fills, [box.left, box.width, 0, edge], null, 0, x.stays, 0).sum;
      marks = [];
      for (let i = 0; i < box.width;) {
        const m = pixel[i], s = Math.floor(m / x.span), left = box.left + i;
        let wide = 1;
        while (i + wide < box.width && pixel[i + wide] === m) wide++;
        const { sum, sums } = drawPile(c, fills, [left, wide, bottom, edge], x.members, x.start[s], x.start[s + 1], m);
        const free = held(m) - sum;
        if (free > 0) {
          c.globalAlpha = .35, c.fillStyle = fills[d.free % TONES][0];
          c.fillRect(left, toY(sum + free), wide, toY(sum) - toY(sum + free)), (c.globalAlpha = 1);
        }
        for (let k = 0; k < wide; k++) marks.push(sums);
        i += wide;
      }
    };

    /* Where the bands would end as they were observed: a dashed line over the planned ones. */
    let ends = null;
    const drawObserved = c => {
      if (!d.observed) return;
      if (!ends) {
        ends = new Float64Array(n + 1);
        for (const b of list) {
          const l = lives.observed(b);
          ends[l.first] += l.bytes, ends[l.last + 1] -= l.bytes;
        }
        for (let m = 1; m < n; m++) ends[m] += ends[m - 1];
      }
      c.strokeStyle = style("--ink"), c.lineWidth = 1.2, c.setLineDash([5, 4]), c.beginPath();
      for (let i = 0, drawn = false; i < box.width; i++) {
        const y = toY(ends[pixel[i]]), known = isObserved(pixel[i]);
        if (known) drawn ? c.lineTo(box.left + i, y) : c.moveTo(box.left + i, y), c.lineTo(box.left + i + 1, y);
        drawn = known;
      }
      c.stroke(), c.setLineDash([]);
    };

    const drawAxes = c => {
      c.font = `12px ${getComputedStyle(document.body).fontFamily}`;
      c.textBaseline = "middle", c.textAlign = "right";
      const step = 2 ** Math.ceil(Math.log2(most / 6));
      for (let v = 0; v <= most; v += step) {
        c.fillStyle = style("--rule"), c.fillRect(box.left, Math.round(toY(v)), box.width, 1);
        c.fillStyle = style("--dim"), c.fillText(v ? shortBytes(v) : "0", box.left - 8, toY(v));
      }
      const stretch = (a, b, key) => {
        for (let m = a, from = a; m <= b; m++)
          if (m === b || key(d.moments[m + 1]) !== key(d.moments[from]))
            mark(from, m, key), (from = m + 1);
      };
      const mark = (a, b, key) => {
        const from = Math.max(box.left, toX(place(a))), to = Math.min(box.left + box.width, toX(place(b + 1)));
        const phase = key === byPhase, text = phase ? d.phases[d.moments[a][2]] : d.parts[d.moments[a][3]];
        const y = box.top + box.height + (phase ? 6 : 36);
        if (to <= from) return;
        if (phase) c.fillStyle = style(["--t1", "--t3", "--t5", "--t2"][d.moments[a][2] % 4]), c.fillRect(from, y, to - from, 5);
        c.fillStyle = style("--dim"), c.textAlign = "center";
        if (c.measureText(text).width < to - from - 4) c.fillText(text, (from + to) / 2, y + (phase ? 16 : 4));
        if (!phase && a > 0 && from > box.left) {
          for (let k = box.top; k < y; k += 5) c.fillRect(from, k, 1, 2);
        }
      };
      const byPhase = m => m[2] * 256 + m[3], byPart = m => m[3];
      stretch(momentAt(state.from), momentAt(state.to - 1e-12), byPhase);
      if (d.parts.length > 1) stretch(momentAt(state.from), momentAt(state.to - 1e-12), byPart);
    };

    const drawMarks = c => {
      const at = toX((place(d.peak) + place(d.peak + 1)) / 2);
      c.textBaseline = "alphabetic";
      if (at >= box.left && at <= box.left + box.width) {
        const right = at > box.left + box.width * .75;
        c.fillStyle = style("--ink"), c.fillRect(at - .75, box.top, 1.5, box.height);
        c.font = `600 12.5px ${getComputedStyle(document.body).fontFamily}`, c.textAlign = right ? "right" : "left";
        c.fillText(`peak ${unitText((d.held && !d.held_varies && held(d.peak)) || x.all[d.peak])}`, at + (right ? -6 : 6), box.top - 14);
      }
      if (!d.budget || d.budget > most) return;
      c.strokeStyle = c.fillStyle = style("--bad"), c.setLineDash([7, 4]), c.lineWidth = 1.5;
      c.beginPath(), c.moveTo(box.left, toY(d.budget)), c.lineTo(box.left + box.width, toY(d.budget)), c.stroke(), c.setLineDash([]);
      c.textAlign = "left", c.font = `12px ${getComputedStyle(document.body).fontFamily}`;
      c.fillText(`budget ${unitText(d.budget)}`, box.left + 6, toY(d.budget) - 5);
    };

    const draw = () => {
      const width = Math.max(280, Math.floor(plot.clientWidth)), height = width < 560 ? 320 : 420;
      ratio = window.devicePixelRatio || 1;
      const left = width < 560 ? 62 : 84;
      box = { left, top: 32, width: width - left - 10, height: height - 32 - 56 };
      for (const canvas of [back, front]) {
        canvas.width = Math.round(width * ratio), canvas.height = Math.round(height * ratio);
        canvas.style.height = `${height}px`, canvas.style.width = `${width}px`;
      }
      x = index();
      most = 1;
      for (let m = 0; m < n; m++) most = Math.max(most, x.all[m], held(m));
      if (d.budget > most && d.budget < 1.6 * most) most = d.budget;
      most *= 1.04;
      const c = back.getContext("2d");
      c.scale(ratio, ratio), c.clearRect(0, 0, width, height);
      choosePixels();
      drawAxes(c);
      drawStack(c, makeFills(c)), drawObserved(c);
      drawMarks(c);
      outline();
    };

    /* Where a band lies at a pixel: from the nearest sum that was kept. */
    const bottomAt = (i, r) => {
      const m = pixel[i], s = Math.floor(m / x.span);
      if (r < x.stays) return x.below[r];
      if (x.first[r] > m || x.last[r] < m) return null;
      const low = lastAtMost(x.members, r, x.start[s], x.start[s + 1]);
      if (x.members[low] !== r) return null;
      const mark = Math.floor((low - x.start[s]) / STRIDE);
      let sum = marks[i][mark];
      for (let k = x.start[s] + mark * STRIDE; k < low; k++) {
        const q = x.members[k];
        if (x.first[q] <= m && x.last[q] >= m) sum += x.bytes[q];
      }
      return sum;
    };

    const outline = () => {
      const c = front.getContext("2d");
      c.setTransform(ratio, 0, 0, ratio, 0, 0), c.clearRect(0, 0, front.width, front.height);
      const at = toX((place(state.moment) + place(state.moment + 1)) / 2);
      if (at >= box.left && at <= box.left + box.width) {
        c.fillStyle = style("--accent"), c.globalAlpha = .8, c.fillRect(at - .5, box.top, 1, box.height), (c.globalAlpha = 1);
      }
      for (const i of marked) if (i !== state.band) trace(c, x.rank[i], .45, .8);
      if (state.band !== null) trace(c, x.rank[state.band], .3, 2);
    };
    const trace = (c, r, shade, line) => {
      c.strokeStyle = style("--ink"), c.lineWidth = line, c.fillStyle = style("--accent");
      const above = [], under = [];
      for (let i = 0; i < box.width; i++) {
        const bottom = bottomAt(i, r);
        if (bottom === null) continue;
        const y0 = toY(bottom), y1 = Math.min(toY(bottom + x.bytes[r]), y0 - 1);
        under.push([box.left + i, y0], [box.left + i + 1, y0]), above.push([box.left + i, y1], [box.left + i + 1, y1]);
      }
      if (!above.length) return;
      c.beginPath();
      above.concat(under.reverse()).forEach(([px, py], k) => (k ? c.lineTo(px, py) : c.moveTo(px, py)));
      c.closePath(), (c.globalAlpha = shade), c.fill(), (c.globalAlpha = 1), c.stroke();
    };

    /* ---- what is said ---- */

    const where = m => {
      const [what, group, phase, part] = d.moments[m];
      const words = [`${d.moment_word} ${count(m + 1)} of ${count(n)}`];
      if (d.parts.length > 1) words.push(d.parts[part]);
      if (d.words[what]) words.push(d.words[what]);
      words.push(d.phases[phase]);
      if (group >= 0) words.push(`${d.group_word} ${group}`);
      return words.join(", ");
    };
    const sayBand = b => {
      const words = [d.categories[b.category]];
      if (b.from) words.push(`from ${b.from}`);
      if (b.phase >= 0 && !b.base) words.push(d.phases[b.phase]);
      words.push(b.group >= 0 ? `${d.group_word} ${b.group}` : `outside of ${d.group_word}s`);
      words.push(b.base ? "stays all the time" : `${d.moment_word}s ${count(b.first + 1)} to ${count(b.last + 1)}`);
      if (b.seen && !b.gathered)
        words.push(b.seen.bytes === b.bytes && b.seen.first === b.first && b.seen.last === b.last
          ? "observed the same"
          : b.seen.bytes ? `observed ${bytesText(b.seen.bytes)}, ${d.moment_word}s ${count(b.seen.first + 1)} to ${count(b.seen.last + 1)}` : "not observed");
      return [strong(b.name || b.from || "without a name"), b.form ? ` ${b.form}` : "", ", ", strong(bytesText(bytesOf(b))), make("br", {}), words.join(", ")];
    };
    const say = () => {
      const m = state.moment, parts = [];
      if (state.band !== null) parts.push(...sayBand(list[state.band]), make("br", {}));
      else if (marked.length)
        parts.push(strong(`${count(marked.length)} marked`), `, ${bytesText(marked.reduce((sum, i) => sum + list[i].bytes, 0))} together`, make("br", {}));
      parts.push(`${m === d.peak ? "The peak. " : ""}At ${where(m)}: ${bytesText(x.all[m])} in use`);
      const free = held(m) - x.all[m];
      if (free > 0) parts.push(`, ${d.categories[d.free]} ${bytesText(free)}`);
      if (state.life === "observed" && !isObserved(m)) parts.push(", as planned, since this did not run");
      if (d.times) parts.push(`; ${secondsText(d.times[m] / 1e9)} from the beginning`);
      said.replaceChildren(...parts);
      plot.dataset.moment = m, plot.dataset.used = x.all[m];
      plot.dataset.band = state.band === null ? "" : list[state.band].name;
      plot.dataset.bytes = state.band === null ? "" : bytesOf(list[state.band]);
    };
    const show = () => (outline(), say());

    /* ---- moving ---- */

    const zoom = (from, to) => {
      const least = Math.min(1, 4 / n);
      if (to - from < least) { const middle = (from + to) / 2; from = middle - least / 2, to = middle + least / 2; }
      if (from < 0) to -= from, from = 0;
      if (to > 1) from -= to - 1, to = 1;
      state.from = Math.max(0, from), state.to = Math.min(1, to);
      draw(), say();
    };
    const scale = by => {
      const middle = Math.min(state.to, Math.max(state.from, place(state.moment))), w = (state.to - state.from) * by;
      const share = (middle - state.from) / (state.to - state.from);
      zoom(middle - share * w, middle + (1 - share) * w);
    };
    const goTo = m => {
      state.moment = Math.min(n - 1, Math.max(0, m));
      const r = state.band === null ? -1 : x.rank[state.band];
      if (r >= 0 && (x.first[r] > state.moment || x.last[r] < state.moment)) state.band = null;
      const u = place(state.moment), w = state.to - state.from;
      if (u < state.from || u >= state.to) zoom(u - w / 2, u + w / 2);
      else show();
    };
    const climb = by => {
      const alive = aliveAt(x, state.moment);
      let k = state.band === null ? (by > 0 ? -1 : alive.length) : alive.indexOf(x.rank[state.band]);
      k = Math.min(alive.length - 1, Math.max(0, k + by));
      if (alive.length) state.band = x.order[alive[k]];
      show();
    };
    const keys = {
      ArrowLeft: e => goTo(state.moment - (e.shiftKey ? 10 : 1)), ArrowRight: e => goTo(state.moment + (e.shiftKey ? 10 : 1)),
      ArrowUp: e => climb(e.shiftKey ? 10 : 1), ArrowDown: e => climb(e.shiftKey ? -10 : -1),
      Home: () => goTo(0), End: () => goTo(n - 1), "+": () => scale(.5), "=": () => scale(.5), "-": () => scale(2),
      0: () => zoom(0, 1), p: () => goTo(d.peak), P: () => goTo(d.peak), Escape: () => ((state.band = null), (marked = []), show()),
    };
    plot.addEventListener("keydown", e => {
      if (e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) return;
      e.preventDefault(), keys[e.key](e);
    });

    const point = e => {
      const r = front.getBoundingClientRect(), px = e.clientX - r.left, py = e.clientY - r.top;
      if (px < box.left || px >= box.left + box.width) return;
      const m = pixel[Math.floor(px - box.left)], y = toBytes(py), found = y >= 0 ? bandAt(x, m, y) : null;
      state.moment = m, state.band = found === null ? null : x.order[found];
      show();
    };
    let dragged = null;
    front.addEventListener("pointermove", e => {
      if (dragged === null || Math.abs(e.offsetX - dragged) < 6) return point(e);
      outline();
      const c = front.getContext("2d");
      c.globalAlpha = .2, c.fillStyle = style("--accent"), c.fillRect(dragged, box.top, e.offsetX - dragged, box.height), (c.globalAlpha = 1);
    });
    front.addEventListener("pointerdown", e => { if (e.pointerType === "mouse") dragged = e.offsetX; point(e); });
    front.addEventListener("pointerup", e => {
      const a = dragged;
      dragged = null;
      if (a !== null && Math.abs(e.offsetX - a) >= 6) zoom(toU(Math.max(box.left, Math.min(a, e.offsetX))), toU(Math.min(box.left + box.width, Math.max(a, e.offsetX))));
    });
    front.addEventListener("pointerleave", () => (dragged = null));
    front.addEventListener("dblclick", () => zoom(0, 1));

    /* Rows of who is alive at the peak mark their bands. */
    const rows = figure === document.querySelector("figure[data-kind=bands]") ? [...document.querySelectorAll("tr[data-category]")] : [];
    const mark = row => {
      const { category, from, form } = row.dataset;
      marked = aliveAt(x, d.peak).map(r => x.order[r]).filter(i => {
        const b = list[i];
        return b.category === +category && (from === undefined ? b.base : !b.base && b.from === from && b.form === form);
      });
      for (const other of rows) other.classList.toggle("on", other === row), (other.tabIndex = other === row ? 0 : -1);
      state.band = null, state.moment = d.peak;
      show();
    };
    rows.forEach((row, i) => {
      row.tabIndex = i ? -1 : 0;
      row.addEventListener("click", () => mark(row));
      row.addEventListener("focus", () => mark(row));
      row.addEventListener("keydown", e => {
        const to = rows[i + ({ ArrowDown: 1, ArrowUp: -1 }[e.key] || 0)];
        if (to && to !== row) e.preventDefault(), to.focus();
        if (e.key === "Escape") (marked = []), row.classList.remove("on"), show();
      });
    });

    /* ---- switches ---- */

    const again = () => (draw(), say());
    const legend = figure.querySelector(".legend"), key = make("p", { hidden: "" }, `Colours change from ${d.group_word} to ${d.group_word}; what is outside of ${d.group_word}s lies lowest.`);
    const explain = () => ((legend.hidden = state.stack !== "category"), (key.hidden = !legend.hidden));
    legend.after(key);
    const row = make("div", { class: "switches" });
    if (list.some(b => b.group >= 0)) row.append(choice("by", ["category", d.group_word], "category", w => ((state.stack = w), again(), explain())));
    if (d.times) row.append(choice("along", ["time", d.moment_word], state.along, w => ((state.along = w), zoom(0, 1))));
    if (list.some(b => b.seen)) row.append(choice("as", ["planned", "observed"], "planned", w => ((state.life = w), state.band !== null && list[state.band].gathered && (state.band = null), again())));
    row.append(buttons("zoom", [["+", "zoom in", () => scale(.5)], ["-", "zoom out", () => scale(2)], ["all", "show all", () => zoom(0, 1)], ["peak", "go to the peak", () => goTo(d.peak)]]));
    plot.before(row);
    plot.classList.add("drawn");
    plot.append(back, front);
    draw(), say();
    new ResizeObserver(() => { if (Math.abs(back.getBoundingClientRect().width - plot.clientWidth) > 1) again(); }).observe(plot);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  };

  /* ---- curves ---- */

  const linesChart = (figure, d) => {
    const { plot, said } = prepare(figure, "Arrow keys move from point to point.");
    const svg = plot.querySelector("svg"), [left, right, top, bottom, low, high] = d.scale;
    const cross = document.createElementNS("http://www.w3.org/2000/svg", "path");
    cross.setAttribute("class", "cross");
    svg.append(cross);
    const xs = [...new Set(d.lines.flatMap(l => l.points.filter((v, i) => i % 2 === 0)))].sort((a, b) => a - b);
    let at = xs.length - 1;
    const nearest = v => {
      let a = 0, b = xs.length - 1;
      for (; b - a > 1;) { const m = (a + b) >> 1; xs[m] <= v ? (a = m) : (b = m); }
      return v - xs[a] <= xs[b] - v ? a : b;
    };
    const show = () => {
      const px = left + ((xs[at] - low) / (high - low)) * (right - left), words = [];
      cross.setAttribute("d", `M${px} ${top}V${bottom}`);
      for (const l of d.lines) {
        const values = [];
        for (let i = 0; i < l.points.length; i += 2) if (l.points[i] === xs[at]) values.push(valueText(d.unit, l.points[i + 1]));
        if (values.length) words.push(d.lines.length > 1 ? `${l.name} ${values[0]}` : values[0]);
      }
      said.replaceChildren(strong(`${d.x_word} ${count(xs[at])}`), `: ${words.join(", ")}`);
      plot.dataset.x = xs[at], plot.dataset.value = words.join(", ");
    };
    plot.addEventListener("keydown", e => {
      const to = { ArrowLeft: at - (e.shiftKey ? 10 : 1), ArrowRight: at + (e.shiftKey ? 10 : 1), Home: 0, End: xs.length - 1 }[e.key];
      if (to === undefined) return;
      e.preventDefault(), (at = Math.min(xs.length - 1, Math.max(0, to))), show();
    });
    svg.addEventListener("pointermove", e => {
      const r = svg.getBoundingClientRect(), px = ((e.clientX - r.left) / r.width) * svg.viewBox.baseVal.width;
      at = nearest(low + ((px - left) / (right - left)) * (high - low)), show();
    });
    show();
  };

  /* ---- bars and points: marks that are pointed at one by one ---- */

  const picks = (figure, items, describe) => {
    const { plot, said } = prepare(figure, "Arrow keys move from one to the next.");
    const marks = [...plot.querySelectorAll("[data-i]")];
    let at = -1;
    const show = i => {
      at = Math.min(items.length - 1, Math.max(0, i));
      for (const m of marks) m.classList.toggle("on", +m.dataset.i === at);
      said.replaceChildren(...describe(items[at]));
      plot.dataset.item = at;
    };
    plot.addEventListener("keydown", e => {
      const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[e.key];
      if (by) e.preventDefault(), show(at + by);
      if (e.key === "Home" || e.key === "End") e.preventDefault(), show(e.key === "Home" ? 0 : items.length - 1);
    });
    for (const m of marks) m.addEventListener("pointerenter", () => show(+m.dataset.i));
    return show;
  };

  const barsChart = (figure, d) => {
    const show = picks(figure, d.bars, b => {
      const words = [`${d.value} ${valueText(d.unit, b.value)}`];
      b.marks.forEach((v, i) => words.push(`${d.marks[i]} ${valueText(d.unit, v)}`));
      b.pieces.forEach((v, i) => { if (v) words.push(`${d.pieces[i]} ${valueText(d.unit, v)}`); });
      return [strong(b.label), b.note ? `, ${b.note}` : "", `: ${words.join(", ")}`];
    });
    if (d.bars.length) show(0);
  };

  const pointsChart = (figure, d) => {
    const names = ["", "chosen: ", "plain: "];
    const show = picks(figure, d.points, p => [
      strong(`${names[p.kind]}${valueText(d.x_unit, p.x)}, ${valueText(d.y_unit, p.y)}`), make("br", {}), p.label || "",
    ]);
    const chosen = d.points.findIndex(p => p.kind === 1);
    if (d.points.length) show(Math.max(0, chosen));
  };

  const charts = { bands: bandsChart, lines: linesChart, bars: barsChart, points: pointsChart };
  for (const figure of document.querySelectorAll("figure.chart")) {
    const data = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
    if (charts[figure.dataset.kind] && data) charts[figure.dataset.kind](figure, data);
  }
  document.documentElement.dataset.ready = "yes";
})();
