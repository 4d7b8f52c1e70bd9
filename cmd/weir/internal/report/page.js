'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const svgSpace = 'http://www.w3.org/2000/svg';
  const group = n => n.toLocaleString('en-US', {maximumFractionDigits: 0});
  const range = r => r.low === r.high ? group(r.low) : group(r.low) + '–' + group(r.high);
  const plural = (n, thing) => n === 1 ? '1 ' + thing : group(n) + ' ' + thing + 's';

  function add(parent, name, attributes, text) {
    const e = document.createElementNS(svgSpace, name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (text !== undefined) e.textContent = text;
    parent.append(e);
    return e;
  }

  // chart draws into an element whenever its size changes.
  function chart(element, draw) {
    const again = () => {
      const {width, height} = element.getBoundingClientRect();
      if (width < 50) return;
      element.replaceChildren();
      draw(add(element, 'svg', {viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true'}), width, height);
    };
    new ResizeObserver(again).observe(element);
    return again;
  }

  // steps returns round numbers up to the first that is not below most.
  function steps(most, about) {
    const raw = Math.max(most, 1) / about, unit = 10 ** Math.floor(Math.log10(raw));
    const step = Math.max(1, [1, 2, 5, 10].find(f => f * unit >= raw) * unit);
    const result = [];
    for (let v = 0; v < most + step; v += step) result.push(v);
    return result;
  }

  const short = n => n >= 1e9 ? +(n / 1e9).toPrecision(3) + 'G' : n >= 1e6 ? +(n / 1e6).toPrecision(3) + 'M' : n >= 1e4 ? +(n / 1e3).toPrecision(3) + 'k' : group(n);

  // --- over time ---
  const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
  const two = n => String(n).padStart(2, '0');
  const day = d => d.getUTCDate() + ' ' + months[d.getUTCMonth()];
  const clock = d => two(d.getUTCHours()) + ':' + two(d.getUTCMinutes());

  function timeChart() {
    const element = document.getElementById('time'), readout = document.getElementById('time-readout');
    const bars = data.bars.map(b => ({...b, at: new Date(b.at)}));
    if (bars.length === 0) return;
    const width = data.barSeconds;
    const stamp = d => width >= 86400 ? day(d) + ' ' + d.getUTCFullYear() : day(d) + ' ' + clock(d) + (width < 60 ? ':' + two(d.getUTCSeconds()) : '');
    const lasting = width % 86400 === 0 ? plural(width / 86400, 'day') : width % 3600 === 0 ? plural(width / 3600, 'hour') : width % 60 === 0 ? plural(width / 60, 'minute') : plural(width, 'second');
    let at = bars.reduce((best, b, i) => b.denied.high > bars[best].denied.high ? i : best, 0);
    let place, cursor;
    const show = i => {
      at = Math.min(bars.length - 1, Math.max(0, i));
      const b = bars[at];
      readout.textContent = `${lasting} from ${stamp(b.at)}: ${group(b.asked)} asked, ${range(b.denied)} denied` + (data.compared ? `, ${range(b.deniedBefore)} by the other policy` : '');
      if (cursor) cursor.setAttribute('x', place(at));
    };
    chart(element, (svg, w, h) => {
      const left = 44, bottom = 22, top = 6, plotWidth = w - left, plotHeight = h - bottom - top;
      const most = Math.max(...bars.map(b => b.asked));
      const ticks = steps(most, 4), full = ticks[ticks.length - 1];
      const y = n => top + plotHeight * (1 - n / full);
      for (const t of ticks) {
        add(svg, 'line', {class: 'grid', x1: left, x2: w, y1: y(t), y2: y(t)});
        add(svg, 'text', {x: left - 8, y: y(t) + 4, 'text-anchor': 'end'}, short(t));
      }
      const each = plotWidth / bars.length, gap = each > 5 ? 1 : 0;
      place = i => left + i * each;
      const column = (name, i, from, to) => {
        if (to > from) add(svg, 'rect', {class: name, x: place(i), width: Math.max(each - gap, .5), y: y(to), height: Math.max(y(from) - y(to), 1)});
      };
      bars.forEach((b, i) => {
        column('asked', i, b.denied.high, b.asked);
        column('maybe', i, b.denied.low, b.denied.high);
        column('denied', i, 0, b.denied.low);
      });
      if (data.compared) {
        let d = '';
        bars.forEach((b, i) => { d += `${i ? 'L' : 'M'}${place(i)} ${y(b.deniedBefore.high)}L${place(i) + each} ${y(b.deniedBefore.high)}`; });
        add(svg, 'path', {class: 'before', d});
      }
      const labels = Math.max(2, Math.floor(plotWidth / 110)), days = bars.length * width > 2 * 86400;
      let last = '';
      for (let k = 0; k < labels; k++) {
        const i = Math.floor(k * bars.length / labels), d = bars[i].at;
        const text = days ? day(d) : clock(d) + (width < 60 && bars.length * width < 600 ? ':' + two(d.getUTCSeconds()) : '');
        if (text !== last) {
          add(svg, 'line', {class: 'grid', x1: place(i), x2: place(i), y1: h - bottom, y2: h - bottom + 5});
          add(svg, 'text', {x: place(i), y: h - 4}, text);
        }
        last = text;
      }
      cursor = add(svg, 'rect', {class: 'cursor', x: place(at), y: top, width: Math.max(each, 2), height: plotHeight});
      svg.addEventListener('pointermove', e => show(Math.floor((e.clientX - svg.getBoundingClientRect().left - left) / each)));
      svg.addEventListener('pointerdown', e => show(Math.floor((e.clientX - svg.getBoundingClientRect().left - left) / each)));
    });
    element.addEventListener('keydown', e => {
      const to = {ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - 10, PageDown: at + 10, Home: 0, End: bars.length - 1}[e.key];
      if (to === undefined) return;
      e.preventDefault();
      show(to);
    });
    show(at);
  }

  // --- clients by peak demand ---
  function peaksChart() {
    const rules = data.rules.filter(r => r.busiest && r.busiest.length > 0);
    if (rules.length === 0) return;
    const section = document.getElementById('demand'), element = document.getElementById('peaks');
    const number = document.getElementById('number'), slider = document.getElementById('slider');
    const readout = document.getElementById('peaks-readout'), select = document.getElementById('rule');
    section.hidden = false;
    let rule, most, line, redraw = () => {};
    const position = v => Math.round(1000 * Math.log(Math.max(v, 1)) / Math.log(Math.max(most, 2)));
    const valueAt = p => Math.max(1, Math.round(Math.exp(p / 1000 * Math.log(Math.max(most, 2)))));
    const things = () => rule.askedUnits === rule.asked ? 'request' : 'unit';

    const over = v => {
      let keys = 0, units = 0;
      for (const s of rule.busiest) if (s.units > v) keys += s.count;
      for (const s of rule.periods) if (s.units > v) units += (s.units - v) * s.count;
      return {keys, units};
    };
    const set = (v, from) => {
      line = Math.max(0, Math.min(Math.round(v), 1e12));
      if (from !== number) number.value = line;
      if (from !== slider) slider.value = position(line);
      slider.setAttribute('aria-valuetext', `${line} per ${rule.period}`);
      const o = over(line);
      readout.textContent = `Above ${group(line)} per ${rule.period}: ${plural(o.keys, 'key')} of ${group(rule.keys)}, and ${plural(o.units, things())} of ${group(rule.askedUnits)}.`;
      redraw();
    };
    const choose = r => {
      rule = r;
      most = Math.max(rule.units, rule.busiest[rule.busiest.length - 1].units) * 1.25;
      document.getElementById('per').textContent = 'per ' + rule.period;
      document.getElementById('peaks-hint').textContent =
        `Each key of ${rule.name} stands at what it asked for in its busiest ${rule.period}, by the clock. The readout counts demand above the line. ` +
        (rule.limit && !rule.limit.startsWith('fixed-window') ? 'The limit counts in another way, so what it denies differs: see the tables.' : 'A fixed window would deny just that.');
      set(rule.units || valueAt(500));
    };
    if (rules.length > 1) {
      document.getElementById('demand-rule').hidden = false;
      rules.forEach((r, i) => select.append(new Option(r.name, i)));
      select.addEventListener('change', () => choose(rules[select.value]));
    }
    number.addEventListener('input', () => { if (number.value !== '') set(+number.value, number); });
    slider.addEventListener('input', () => set(valueAt(+slider.value), slider));

    const draw = chart(element, (svg, w, h) => {
      const left = 56, bottom = 36, top = 12, right = 12, plotWidth = w - left - right, plotHeight = h - bottom - top;
      const keys = Math.max(rule.keys, 1) + 1; // the last key has a width, too
      const x = rank => left + plotWidth * Math.log(rank) / Math.log(keys);
      const y = v => top + plotHeight * (1 - Math.log(Math.max(v, .8) / .8) / Math.log(Math.max(most, 2) / .8));
      for (let t = 1; t <= most; t *= 10) {
        add(svg, 'line', {class: 'grid', x1: left, x2: w - right, y1: y(t), y2: y(t)});
        add(svg, 'text', {x: left - 8, y: y(t) + 4, 'text-anchor': 'end'}, short(t));
      }
      for (let t = 1; t < keys; t *= 10) {
        for (const f of keys < 100 ? [1, 2, 5] : [1]) {
          if (f * t < keys) add(svg, 'text', {x: x(f * t), y: h - bottom + 16, 'text-anchor': 'start'}, short(f * t));
        }
      }
      add(svg, 'text', {x: w - right, y: h - 2, 'text-anchor': 'end'}, 'keys, those that ask for most first');
      // The curve, from the key that asks for most.
      let rank = 1, d = `M${left} ${y(0)}`, points = [];
      for (let i = rule.busiest.length - 1; i >= 0; i--) {
        const s = rule.busiest[i];
        points.push([rank, rank + s.count, s.units]);
        rank += s.count;
      }
      for (const [from, to, units] of points) d += `L${x(from)} ${y(units)}L${x(Math.min(to, keys))} ${y(units)}`;
      d += `L${x(keys)} ${y(0)}Z`;
      add(svg, 'path', {class: 'curve', d});
      const clip = add(svg, 'clipPath', {id: 'above'});
      const above = add(clip, 'rect', {x: left, width: Math.max(plotWidth, 0), y: 0, height: 0});
      add(svg, 'path', {class: 'over', d, 'clip-path': 'url(#above)'});
      const limit = add(svg, 'line', {class: 'limit', x1: left, x2: w - right});
      const grip = add(svg, 'circle', {class: 'grip', cx: w - right - 8, r: 7});
      const label = add(svg, 'text', {class: 'label', x: w - right - 22, 'text-anchor': 'end'});
      const hold = add(svg, 'rect', {class: 'hold', x: left, width: Math.max(plotWidth, 0), height: 44});
      redraw = () => {
        const at = y(line);
        above.setAttribute('height', Math.max(at, 0));
        for (const [e, a, b] of [[limit, 'y1', 'y2'], [grip, 'cy', 'cy']]) { e.setAttribute(a, at); e.setAttribute(b, at); }
        label.setAttribute('y', at > 30 ? at - 8 : at + 18);
        label.textContent = group(line) + ' per ' + rule.period;
        hold.setAttribute('y', at - 22);
      };
      const drag = e => {
        const part = 1 - (e.clientY - svg.getBoundingClientRect().top - top) / plotHeight;
        set(Math.min(most, Math.max(1, .8 * Math.exp(part * Math.log(Math.max(most, 2) / .8)))));
      };
      let held = false;
      hold.addEventListener('pointerdown', e => {
        held = true;
        e.preventDefault();
        if (e.isTrusted) hold.setPointerCapture(e.pointerId);
      });
      hold.addEventListener('pointermove', e => { if (held) drag(e); });
      for (const end of ['pointerup', 'pointercancel']) hold.addEventListener(end, () => { held = false; });
      redraw();
    });
    const first = rules.reduce((best, r) => r.keys > best.keys ? r : best, rules[0]); // it has most to show
    select.value = rules.indexOf(first);
    choose(first);
    select.addEventListener('change', draw);
    draw();
  }

  timeChart();
  peaksChart();
})();
