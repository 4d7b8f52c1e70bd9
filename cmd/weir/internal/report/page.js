'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const svgSpace = 'http://www.w3.org/2000/svg';
  const group = n => n.toLocaleString('en-US', {maximumFractionDigits: 0});
  const range = r => r.low === r.high ? group(r.low) : group(r.low) + '–' + group(r.high);
  const article = text => (/^(hour|8|11|18)/.test(text) ? 'an ' : 'a ') + text;
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

  // ticks returns round instants from one to another, at most so many, each with its text. Days
  // begin at midnight, weeks on Monday.
  function ticks(from, to, most) {
    const minute = 60e3, hour = 3600e3, whole = 864e5, week = 7 * whole;
    const step = [1e3, 5e3, 15e3, 30e3, minute, 5 * minute, 15 * minute, 30 * minute, hour, 3 * hour, 6 * hour, 12 * hour, whole, 2 * whole, week].find(s => (to - from) / s <= most);
    const found = [];
    if (step) {
      const monday = step === week ? 4 * whole : 0; // 1970 began on a Thursday
      for (let t = Math.ceil((from - monday) / step) * step + monday; t <= to; t += step) {
        const d = new Date(t);
        found.push({at: t, text: t % whole === 0 ? day(d) : clock(d) + (step < minute ? ':' + two(d.getUTCSeconds()) : '')});
      }
      return found;
    }
    const start = new Date(from), every = [1, 3, 6, 12].find(n => (to - from) / (n * 30 * whole) <= most) || 60;
    for (let m = 0; ; m++) {
      const d = new Date(Date.UTC(start.getUTCFullYear(), m));
      if (d.getTime() > to) return found;
      if (m % every === 0 && d.getTime() >= from) found.push({at: d.getTime(), text: d.getUTCMonth() === 0 ? String(d.getUTCFullYear()) : months[d.getUTCMonth()]});
    }
  }

  function timeChart() {
    const element = document.getElementById('time'), readout = document.getElementById('time-readout');
    const bars = data.bars.map(b => ({...b, at: new Date(b.at)}));
    if (bars.length === 0) return;
    const width = data.barSeconds;
    const stamp = d => width >= 86400 ? day(d) + ' ' + d.getUTCFullYear() : day(d) + ' ' + clock(d) + (width < 60 ? ':' + two(d.getUTCSeconds()) : '');
    const lasting = width % 86400 === 0 ? plural(width / 86400, 'day') : width % 3600 === 0 ? plural(width / 3600, 'hour') : width % 60 === 0 ? plural(width / 60, 'minute') : plural(width, 'second');
    let at = bars.reduce((best, b, i) => b.denied.high + b.wouldBeDenied.high > bars[best].denied.high + bars[best].wouldBeDenied.high ? i : best, 0);
    let place, cursor;
    const show = i => {
      at = Math.min(bars.length - 1, Math.max(0, i));
      const b = bars[at];
      readout.textContent = `${lasting} from ${stamp(b.at)}: ${group(b.asked)} asked, ${range(b.denied)} denied` + (b.wouldBeDenied.high ? `, ${range(b.wouldBeDenied)} would be denied` : '') + (data.compared ? `, ${range(b.deniedBefore)} by the other policy` : '');
      if (cursor) cursor.setAttribute('x', place(at));
    };
    chart(element, (svg, w, h) => {
      const left = 44, right = 16, bottom = 22, top = 6, plotWidth = w - left - right;
      const most = Math.max(...bars.map(b => b.asked)), mostDenied = Math.max(...bars.map(b => Math.max(b.denied.high + b.wouldBeDenied.high, b.deniedBefore.high)));
      // What is denied has a scale of its own, below: beside all that is asked, little of it is seen.
      const alone = mostDenied > 0 ? 64 : 0, apart = alone ? 26 : 0, foot = h - bottom - alone - apart;
      const each = plotWidth / bars.length, gap = each > 5 ? 1 : 0;
      place = i => left + i * each;
      const plot = (head, foot, most, about, draw) => {
        const marks = steps(most, about), full = marks[marks.length - 1];
        const y = n => head + (foot - head) * (1 - n / full);
        for (const t of marks) {
          add(svg, 'line', {class: 'grid', x1: left, x2: w - right, y1: y(t), y2: y(t)});
          add(svg, 'text', {x: left - 8, y: y(t) + 4, 'text-anchor': 'end'}, short(t));
        }
        const column = (name, i, from, to) => {
          if (to > from) add(svg, 'rect', {class: name, x: place(i), width: Math.max(each - gap, .5), y: y(to), height: Math.max(y(from) - y(to), 1)});
        };
        bars.forEach((b, i) => {
          column('maybe', i, b.denied.low, b.denied.high);
          column('denied', i, 0, b.denied.low);
          column('would', i, b.denied.high, b.denied.high + b.wouldBeDenied.high);
          draw(column, b, i);
        });
        if (!data.compared) return;
        let d = '';
        bars.forEach((b, i) => { d += `${i ? 'L' : 'M'}${place(i)} ${y(b.deniedBefore.high)}L${place(i) + each} ${y(b.deniedBefore.high)}`; });
        add(svg, 'path', {class: 'before', d});
      };
      plot(top, foot, most, 4, (column, b, i) => column('asked', i, b.denied.high + b.wouldBeDenied.high, b.asked));
      if (alone) plot(h - bottom - alone, h - bottom, mostDenied, 2, () => {});
      const from = bars[0].at.getTime(), to = from + bars.length * width * 1000;
      for (const t of ticks(from, to, Math.max(2, Math.floor(plotWidth / 56)))) {
        const x = left + (t.at - from) / (to - from) * plotWidth;
        add(svg, 'line', {class: 'grid', x1: x, x2: x, y1: top, y2: h - bottom + 5});
        add(svg, 'text', {class: 'tick', x, y: h - 4, 'text-anchor': 'middle', 'data-at': new Date(t.at).toISOString()}, t.text);
      }
      if (alone) add(svg, 'text', {class: 'aside', x: left, y: h - bottom - alone - 8}, bars.some(b => b.wouldBeDenied.high) ? 'denied, or would be, alone' : 'denied alone');
      cursor = add(svg, 'rect', {class: 'cursor', x: place(at), y: top, width: Math.max(each, 2), height: h - bottom - top});
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
    let rule, most, line, slid, redraw = () => {};
    const position = v => Math.round(1000 * Math.log(Math.max(v, 1)) / Math.log(Math.max(most, 2)));
    const valueAt = p => Math.max(1, Math.round(Math.exp(p / 1000 * Math.log(Math.max(most, 2)))));
    const over = v => {
      let keys = 0, requests = 0;
      for (const s of rule.busiest) if (s.units > v) keys += s.count;
      for (const s of rule.periods) if (s.units > v) requests += (s.units - v) * s.count;
      return {keys, requests};
    };
    // What is denied is told only where it is what the engine counts: for the limit itself and those
    // of the ladder, and for fixed windows, which count by the clock as the curve does.
    const denial = (v, requests) => {
      const shadow = rule.mode === 'shadow';
      if (v === rule.units && rule.limit) return ` ${rule.limit} ${shadow ? 'would deny' : 'denies'} ${range(shadow ? rule.wouldBeDenied : rule.denied)} of ${plural(rule.asked, 'request')}, of ${range(rule.keysDenied)} ${rule.keysDenied.high === 1 ? 'key' : 'keys'}.`;
      const rung = (rule.ladder || []).find(r => r.limit.split(' ')[1]?.split('/')[0] === String(v));
      if (rung) return ` ${rung.limit} alone would deny ${range(rung.denied)} of ${plural(rule.asked, 'request')}.`;
      if (rule.byClock && rule.askedUnits === rule.asked) return ` As a fixed window alone it would deny ${group(requests)} of ${plural(rule.asked, 'request')}.`;
      return '';
    };
    const set = (v, from) => {
      line = Math.max(0, Math.min(Math.round(v), 1e12));
      if (from !== number) number.value = line;
      slider.value = slid = position(line);
      slider.setAttribute('aria-valuetext', `${line} per ${rule.period}`);
      const o = over(line);
      readout.textContent = `${group(o.keys)} of ${plural(rule.keys, 'key')} ${o.keys === 1 ? 'asks' : 'ask'} for more than ${group(line)} in ${article(rule.period)}.` + denial(line, o.requests);
      redraw();
    };
    const choose = r => {
      rule = r;
      element.classList.toggle('shadow', rule.mode === 'shadow');
      most = Math.max(rule.units, rule.busiest[rule.busiest.length - 1].units) * 1.25;
      document.getElementById('per').textContent = 'per ' + rule.period;
      document.getElementById('peaks-hint').textContent =
        `Each key of ${rule.name} stands at what it asked for in its busiest ${rule.period}, by the clock. ` +
        (rule.limit && !rule.byClock ? `The limit counts in another way. What another limit denies is found by weir simulate --ladder.` : '');
      set(rule.units || valueAt(500));
    };
    if (rules.length > 1) {
      document.getElementById('demand-rule').hidden = false;
      rules.forEach((r, i) => select.append(new Option(r.name, i)));
      select.addEventListener('change', () => choose(rules[select.value]));
    }
    number.addEventListener('input', () => { if (number.value !== '') set(+number.value, number); });
    slider.addEventListener('input', () => { // an arrow key moves the line by one at least
      const v = valueAt(+slider.value);
      set(+slider.value > slid ? Math.max(v, line + 1) : Math.min(v, line - 1));
    });

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
          const at = x(f * t), text = short(f * t), end = at + 7 * text.length > w; // within the picture, however narrow
          if (f * t < keys) add(svg, 'text', {x: end ? w : at, y: h - bottom + 16, 'text-anchor': end ? 'end' : 'start'}, text);
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
