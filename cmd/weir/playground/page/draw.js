// Draws a panel: on the left what is left, on the right what has happened. It decides
// nothing: levels, verdicts and instants are those of the engine.

import { request, turn, probe } from './frame.js';

const figure = 40, gap = 12;
export const ahead = 1 / 6; // how much of the future is shown, for so much of the past
const remembered = 500; // events of a panel, at least

export const colours = {};
export function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['ink', 'soft', 'edge', 'accent', 'tint', 'mild', 'denied', 'card']) colours[name] = style.getPropertyValue(`--${name}`).trim();
}

// History is what a panel has to draw.
export class History {
  marks = []; turns = []; probes = []; levels = []; passing = false; // levels: [at, level, level …], one level for each rule

  add(event) {
    if (event.kind === request) push(this.marks, event);
    else if (event.kind === turn) push(this.turns, event.at);
    else if (event.kind === probe) push(this.probes, event);
  }

  // level notes the levels of an instant. Without a step it stays; others replace each other
  // until a step of the picture has passed.
  level(at, step, levels) {
    const n = this.levels.length;
    if (step && this.passing && at - this.levels[n - 2]?.[0] < step) this.levels[n - 1] = [at, ...levels];
    else push(this.levels, [at, ...levels]);
    this.passing = step > 0;
  }
}

function push(list, item) {
  list.push(item);
  if (list.length > 2 * remembered) list.splice(0, remembered);
}

// fit makes a canvas as sharp as the screen, and returns whether it had to.
export function fit(canvas) {
  const ratio = Math.min(devicePixelRatio || 1, 3);
  const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
  if (canvas.width === width && canvas.height === height) return;
  canvas.width = width;
  canvas.height = height;
  canvas.getContext('2d').setTransform(ratio, 0, 0, ratio, 0, 0);
}

export function draw(canvas, history, rules, gauges, now, span) {
  const c = canvas.getContext('2d'), width = canvas.clientWidth, height = canvas.clientHeight;
  c.clearRect(0, 0, width, height);
  if (!gauges.length) return;
  const base = height - 6.5, top = 8;
  const each = figure / gauges.length;
  c.save();
  gauges.forEach((g, i) => drawFigure(c, rules[i], g, 1.5 + i * each, top, each - Math.min(4, each / 3), base - top));
  c.restore();

  const left = figure + gap, right = width - 2, from = now - span;
  const x = at => left + (at - from) / (span * (1 + ahead)) * (right - left);
  c.save();
  c.beginPath();
  c.rect(left, 0, right - left + 2, height);
  c.clip();

  c.strokeStyle = colours.soft;
  c.lineWidth = 1;
  c.setLineDash([2, 3]);
  c.beginPath();
  const turns = history.turns.filter(at => at > from);
  if (turns.length < (right - left) / 8) for (const at of turns) line(c, x(at), top - 4, x(at), base); // closer, they are a pattern that says nothing
  c.globalAlpha = .5;
  c.stroke();
  c.globalAlpha = 1;
  c.setLineDash([]);

  drawLevels(c, history.levels, x, now, base, base - top - 12, rules);
  c.strokeStyle = colours.soft;
  c.beginPath();
  line(c, left, base, right, base);
  c.stroke();
  drawMarks(c, history.marks, x, from, base);
  drawProbes(c, history.probes, x, from, top);
  c.strokeStyle = colours.ink;
  c.beginPath();
  line(c, x(now), top - 6, x(now), base + 5);
  c.stroke();
  c.restore();
}

function line(c, x1, y1, x2, y2) {
  c.moveTo(Math.round(x1) + .5, y1);
  c.lineTo(Math.round(x2) + .5, y2);
}

// drawLevels draws how much was left: the first rule as an area, all as lines.
function drawLevels(c, levels, x, now, base, height, rules) {
  if (!levels.length) return;
  for (let rule = 1; rule <= rules.length; rule++) {
    const flows = ['tokens', 'leak', 'queue'].includes(rules[rule - 1].picture); // what comes back does so bit by bit
    c.beginPath();
    let y = base, first = 0;
    levels.forEach((l, i) => {
      const next = base - l[rule] * height;
      if (i === 0) { first = x(l[0]); c.moveTo(first, next); } else { if (next > y || !flows) c.lineTo(x(l[0]), y); c.lineTo(x(l[0]), next); }
      y = next;
    });
    c.lineTo(x(now), y);
    c.strokeStyle = colours.accent;
    c.globalAlpha = .45;
    c.lineWidth = 1;
    c.stroke();
    c.globalAlpha = 1;
    if (rule > 1) continue;
    c.lineTo(x(now), base);
    c.lineTo(first, base);
    c.fillStyle = colours.tint;
    c.fill();
  }
}

// drawMarks stacks requests that come close to each other. A stack that is too high shows the
// shares of its verdicts. A line leads from a request in a queue to its turn. A picture is
// drawn in a few strokes, since each takes time.
function drawMarks(c, marks, x, from, base) {
  const step = 8, high = Math.floor((base - 10) / step);
  const paths = { waits: new Path2D(), discs: new Path2D(), rings: new Path2D(), crosses: new Path2D(), again: new Path2D() };
  let stack = [], at = -Infinity;
  const finish = () => drawStack(paths, shares(stack, high), at, m => x(m.at + m.delay), base - 5, step);
  for (const m of marks) {
    if (m.at + m.delay < from) continue;
    const here = x(m.at);
    if (here - at >= step - 1) { finish(); stack = []; at = here; }
    stack.push(m);
  }
  finish();
  stroke(c, paths.waits, colours.accent, 1);
  c.fillStyle = colours.accent;
  c.fill(paths.discs);
  c.fillStyle = colours.card;
  c.fill(paths.rings);
  stroke(c, paths.rings, colours.accent, 1.6);
  stroke(c, paths.crosses, colours.denied, 2);
  stroke(c, paths.again, colours.denied, 1.2);
}

// shares returns the marks of a stack: all, or so many that they show how many of them were
// allowed, and at least one of each verdict.
function shares(stack, high) {
  if (stack.length <= high) return stack;
  const allowed = stack.filter(m => m.allowed), denied = stack.filter(m => !m.allowed);
  let n = Math.round(high * allowed.length / stack.length);
  if (allowed.length) n = Math.max(n, 1);
  if (denied.length) n = Math.min(n, high - 1);
  const every = (list, n) => Array.from({ length: n }, (_, i) => list[Math.floor(i * list.length / n)]);
  return [...every(allowed, n), ...every(denied, high - n)];
}

function drawStack(paths, stack, x, turn, base, step) {
  stack.forEach((m, i) => {
    const y = base - i * step, r = Math.min(2.9 + Math.log2(Math.max(1, m.cost)), 5.5), again = m.attempt > 1;
    if (!m.allowed) return cross(again ? paths.again : paths.crosses, x, y, r);
    if (m.delay > 0) {
      const end = turn(m);
      paths.waits.moveTo(x, y); paths.waits.lineTo(end, y); paths.waits.moveTo(end, y - 3); paths.waits.lineTo(end, y + 3);
    }
    circle(again ? paths.rings : paths.discs, x, y, again ? r - .4 : r);
  });
}

function circle(path, x, y, r) {
  path.moveTo(x + r, y);
  path.arc(x, y, r, 0, 2 * Math.PI);
}

function cross(path, x, y, r) {
  path.moveTo(x - r, y - r); path.lineTo(x + r, y + r); path.moveTo(x + r, y - r); path.lineTo(x - r, y + r);
}

function stroke(c, path, colour, width) {
  c.strokeStyle = colour;
  c.lineWidth = width;
  c.stroke(path);
}

// drawProbes draws a microsecond before Retry-After on its left, and Retry-After on its
// right, where they do not hide others.
function drawProbes(c, probes, x, from, top) {
  const path = new Path2D();
  let last = Infinity;
  for (let i = probes.length - 1; i >= 0 && probes[i].at >= from; i--) {
    const p = probes[i], at = x(p.at), y = top - 2;
    if (p.allowed && last - at < 18) { i--; continue; }
    if (p.allowed) { circle(path, at + 4.5, y, 2.8); last = at; } else cross(path, at - 4.5, y, 2.5);
  }
  stroke(c, path, colours.soft, 1.3);
}

// drawFigure draws what a rule holds: a bucket with what is left or has leaked in, a queue,
// places that are taken, or a window that fills up to its lid.
function drawFigure(c, { picture, bans }, g, x, y, w, h) {
  const used = 1 - g.level, y2 = y + h;
  c.lineWidth = 1.5;
  c.strokeStyle = colours.soft;
  c.fillStyle = colours.mild;
  switch (picture) {
    case 'tokens': case 'leak': {
      const full = picture === 'tokens' ? g.level : used, slant = w * .12;
      const at = part => slant * part; // how much narrower it is so far down
      const surface = y2 - full * h;
      c.beginPath();
      c.moveTo(x + at(1 - full), surface); c.lineTo(x + w - at(1 - full), surface); c.lineTo(x + w - slant, y2); c.lineTo(x + slant, y2);
      c.fill();
      c.beginPath();
      c.moveTo(x, y); c.lineTo(x + slant, y2);
      if (picture === 'leak') { c.lineTo(x + w * .4, y2); c.moveTo(x + w * .6, y2); }
      c.lineTo(x + w - slant, y2); c.lineTo(x + w, y);
      c.stroke();
      return;
    }
    case 'queue': case 'places': {
      const n = Math.min(g.most, 10), taken = Math.round(used * n), size = h / n;
      for (let i = 0; i < n; i++) {
        const cy = y2 - size * (i + .5), r = Math.min(size / 2 - 1, w / 2 - 2, 6);
        c.beginPath();
        if (picture === 'queue') c.arc(x + w / 2, cy, r, 0, 2 * Math.PI);
        else c.rect(x + w / 2 - r - 4, cy - r, 2 * r + 8, 2 * r);
        if (i < taken) c.fill();
        c.stroke();
      }
      return;
    }
    default:
      c.fillRect(x, y2 - used * h, w, used * h);
      c.strokeRect(x, y, w, h);
      if (bans && g.level === 0) { c.beginPath(); c.strokeStyle = colours.card; c.lineWidth = 3; c.moveTo(x + 6, y + h / 2); c.lineTo(x + w - 6, y + h / 2); c.stroke(); }
  }
}
