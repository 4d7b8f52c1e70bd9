// Runs the page: one call of the engine for each frame, then drawing.

import { load } from './engine.js';
import * as state from './state.js';
import * as panels from './panels.js';
import * as answer from './answer.js';
import { ahead, readColours } from './draw.js';
import { readFrame, clock, wait } from './frame.js';
import { prepare } from './guide.js';
import * as replay from './replay.js';

const get = id => document.getElementById(id);
const still = matchMedia('(prefers-reduced-motion: reduce)');

let weir, buffer, numbers;
let current = state.read(location.search);
let playing = true, speed = 1;
let ask = { by: 0, sends: 0, cost: 0 }; // for the next frame, beside the time that passes
let last = 0, rest = 0, worded = -Infinity, dirty = true;

state.show(current);
setSpeed(Number(current.speed) || 1);
readColours();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); frame(0); });

load().then(engine => {
  weir = engine;
  for (const e of document.querySelectorAll('button, #speed')) if (!['older', 'newer', 'approach'].includes(e.id)) e.disabled = false;
  prepare(engine, limit => apply({ ...current, panels: [limit] }, true));
  replay.prepare(engine);
  apply(current);
  document.documentElement.dataset.engine = 'ready';
  schedule();
}).catch(error => {
  get('now').textContent = 'no engine';
  get('mistake').textContent = `The engine did not load: ${error.message}`;
});

// apply begins anew, with another setup. Unless asked otherwise, what there is to see has
// passed already.
function apply(setup, remember, played = true) {
  current = setup;
  const started = weir.setup({ ...setup, panels: setup.panels.join('\n') });
  if (!buffer || buffer.length < started.frameSize) {
    buffer = new Uint8Array(started.frameSize);
    numbers = new Float64Array(buffer.buffer);
  }
  state.show(setup);
  state.showMistakes(started.mistakes);
  get('span').textContent = `the last ${wait(started.span)}, and the next ${wait(started.span * ahead)}`.replaceAll('.0 ', ' ').replaceAll(/ 0 (s|min|h)/g, '');
  panels.build(started, (i, text) => {
    const texts = panels.texts();
    if (text === null) texts.splice(i, 1); else texts[i] = text;
    apply({ ...current, panels: texts }, true);
  });
  replay.changed();
  if (remember) history.pushState(null, '', state.address(setup));
  ask = { by: 0, sends: 0, cost: 0 };
  rest = 0;
  if (played && setup.traffic !== 'click') play(started.span);
  frame(0);
}

// play lets a span pass at once, as far as the engine gets.
function play(span) {
  const steps = 200;
  let reply = null;
  for (let i = 0; i < steps; i++) {
    const by = Math.round(span * (i + 1) / steps) - Math.round(span * i / steps);
    reply = weir.frame(by, 0, 0, panels.chosen.panel, 0, buffer) ?? reply;
    const f = readFrame(numbers);
    panels.note(f);
    if (f.lags) break;
  }
  answer.show(reply);
}

// frame lets by microseconds pass and draws.
function frame(by) {
  if (!weir) return;
  dirty = false;
  const { sends, cost } = ask;
  const reply = weir.frame(ask.by < 0 ? -1 : Math.round(by + ask.by), sends, cost, panels.chosen.panel, answer.looking.number, buffer);
  ask = { by: 0, sends: 0, cost: 0 };
  const f = readFrame(numbers);
  const words = !playing || performance.now() - worded > 1000;
  if (words) worded = performance.now();
  panels.show(f, words);
  answer.show(reply);
  get('approach').disabled = f.armed < 1;
  const text = clock(f.now) + (f.lags ? ', slowed down' : '');
  if (get('now').textContent !== text) get('now').textContent = text;
  if (sends) {
    const verdicts = f.events.filter(e => e.kind === 0);
    const n = verdicts.filter(e => e.allowed).length;
    get('says').textContent = `Allowed by ${n}, denied by ${verdicts.length - n}`;
  }
}

// schedule draws whenever the screen does; where motion is to be reduced, twice a second.
function schedule() {
  if (still.matches) setTimeout(tick, 500, performance.now() + 500); else requestAnimationFrame(tick);
}

function tick(now) {
  const passed = Math.min(now - last, still.matches ? 1000 : 250); // a page that was hidden does not catch up
  last = now;
  rest += playing && passed > 0 ? passed * 1000 * speed : 0;
  const whole = Math.floor(rest);
  rest -= whole;
  try {
    if (playing || dirty) frame(whole); // while the clock stands, only what somebody does changes the picture
  } catch (error) {
    get('mistake').textContent = `The engine has stopped: ${error.message}. Load the page again.`;
    throw error;
  }
  schedule();
}

function setPlaying(is) {
  playing = is;
  get('pause').textContent = is ? 'Pause' : 'Play';
}

function setSpeed(value) {
  speed = Math.min(100, Math.max(.1, value));
  get('speed').value = Math.log10(speed);
  get('times').textContent = `×${Number(speed.toPrecision(2))}`;
  get('speed').setAttribute('aria-valuetext', `${Number(speed.toPrecision(2))} times as fast`);
}

const send = cost => {
  if (ask.sends && ask.cost !== cost) frame(0);
  ask.sends++;
  ask.cost = cost;
};
const step = by => { setPlaying(false); ask.by += by; };

get('send').addEventListener('click', () => send(0));
get('pause').addEventListener('click', () => setPlaying(!playing));
get('restart').addEventListener('click', () => { answer.clear(); apply(current, false, false); });
get('approach').addEventListener('click', () => { setPlaying(false); ask.by = -1; });
get('speed').addEventListener('input', () => {
  setSpeed(10 ** get('speed').value);
  current = { ...current, speed: String(Number(speed.toPrecision(2))) };
});
get('speed').addEventListener('change', () => history.replaceState(null, '', state.address(current)));
for (const button of document.querySelectorAll('[data-by]')) button.addEventListener('click', () => step(Number(button.dataset.by)));
get('add').addEventListener('click', () => {
  apply({ ...current, panels: [...panels.texts(), current.limit] }, true);
  [...document.querySelectorAll('.panel textarea')].at(-1)?.focus();
});
get('panels').addEventListener('chosen', e => {
  if (!e.detail.same) answer.clear();
  if (e.detail.go && get('answer').getBoundingClientRect().top > innerHeight / 2) get('answer').focus();
});
get('setup').addEventListener('change', () => { if (weir) apply(state.fromForm(current), true); });
get('unfold').addEventListener('click', () => state.unfold(get('unfold').getAttribute('aria-expanded') !== 'true'));
get('setup').addEventListener('submit', e => e.preventDefault());
for (const link of document.querySelectorAll('.presets a[data-about]')) {
  link.addEventListener('click', e => {
    if (!weir || e.metaKey || e.ctrlKey || e.shiftKey) return;
    e.preventDefault();
    apply(state.read(link.search), true);
    setSpeed(Number(current.speed) || 1);
  });
}
addEventListener('popstate', () => {
  const setup = state.read(location.search);
  if (!weir || state.address(setup) === state.address(current)) return; // a link within the page leads elsewhere, and changes nothing
  apply(setup);
  setSpeed(Number(current.speed) || 1);
});
addEventListener('resize', () => { panels.measure(); dirty = true; });
for (const kind of ['click', 'keydown', 'change']) addEventListener(kind, () => { dirty = true; }, true);
addEventListener('keydown', e => {
  if (!weir || e.ctrlKey || e.metaKey || e.altKey || get('guide').open || e.target.matches('input:not([type=radio], [type=range]), textarea, select')) return;
  if (e.key === ' ' && !e.target.matches('button, a, input')) { e.preventDefault(); send(0); }
  else if (/^[1-9]$/.test(e.key)) send(Number(e.key));
  else if (e.key === 'p') setPlaying(!playing);
  else if (e.key === '.') step(1);
});
