// The panels: what each is called, what it says in words, and its picture.

import { History, draw, fit } from './draw.js';
import { request, wait } from './frame.js';

const box = document.getElementById('panels'), below = box.querySelector('.below');
let panels = [];
export const chosen = { panel: 0 };

const element = (name, properties = {}, ...children) => {
  const e = Object.assign(document.createElement(name), properties);
  e.append(...children);
  return e;
};

export const title = name => name.charAt(0).toUpperCase() + name.slice(1).replaceAll('-', ' ');

const nameOf = info => info.rules.length ? info.rules.map((r, i) => i ? r.name.replaceAll('-', ' ') : title(r.name)).join(' + ') : 'No limit';

// build makes the panels of a setup. changed is told of new texts, of which null removes.
export function build(setup, changed) {
  const focus = [...box.querySelectorAll('textarea')].indexOf(document.activeElement);
  chosen.panel = Math.min(chosen.panel, setup.panels.length - 1);
  panels = setup.panels.map((info, i) => {
    const name = nameOf(info);
    const input = element('textarea', { value: info.text, rows: 1, spellcheck: false, autocapitalize: 'off' });
    input.setAttribute('aria-label', `Limit: ${name}`);
    input.addEventListener('change', () => changed(i, input.value.replace(/\s+/g, ' ')));
    input.addEventListener('keydown', e => { if (e.key === 'Enter') { e.preventDefault(); changed(i, input.value.replace(/\s+/g, ' ')); } });
    const answers = element('button', { type: 'button', textContent: name, title: 'Show its answers' });
    answers.addEventListener('click', () => choose(i, { go: true }));
    const remove = element('button', { type: 'button', textContent: '✕' });
    remove.setAttribute('aria-label', `Remove ${name}`);
    remove.addEventListener('click', () => changed(i, null));
    const canvas = element('canvas');
    canvas.addEventListener('click', () => choose(i));
    canvas.setAttribute('role', 'img');
    const states = info.rules.map(() => element('p', { className: 'state', textContent: '\u00a0' }));
    const mistake = setup.mistakes[`panel ${i}`];
    if (mistake) { states.push(element('p', { className: 'state wrong', textContent: mistake })); input.setAttribute('aria-invalid', 'true'); }
    const allowed = element('span', { className: 'key allowed', textContent: '0' }), denied = element('span', { className: 'key denied', textContent: '0' });
    const article = element('article', { className: 'panel' },
      element('div', { className: 'line' }, element('h3', {}, answers), remove),
      input, canvas, ...states, element('p', { className: 'counts' }, allowed, denied));
    canvas.hidden = info.rules.length === 0;
    return { info, name, article, input, answers, canvas, states, allowed, denied, history: new History(), span: setup.span };
  });
  box.classList.toggle('few', panels.length <= 4);
  box.classList.toggle('two', [1, 2, 4].includes(panels.length));
  box.replaceChildren(...panels.map(p => p.article), below);
  if (focus >= 0) box.querySelectorAll('textarea')[Math.min(focus, panels.length - 1)]?.focus();
  measure();
  choose(chosen.panel, { fresh: true });
}

// choose shows the answers of a panel. fresh is whether they are new ones, and go whether to
// go where they are.
export function choose(i, { fresh, go } = {}) {
  const same = !fresh && chosen.panel === i;
  chosen.panel = i;
  panels.forEach((p, j) => {
    p.article.classList.toggle('chosen', i === j);
    p.answers.setAttribute('aria-pressed', i === j);
  });
  box.dispatchEvent(new CustomEvent('chosen', { detail: { go, same } }));
}

export const chosenName = () => panels[chosen.panel]?.name ?? '';
export const names = () => panels.map(p => ({ name: p.name, text: p.info.text }));
export const texts = () => panels.map(p => p.info.text);

// measure fits pictures to the width of panels, and fields to their text.
export function measure() {
  for (const p of panels) {
    fit(p.canvas);
    p.input.rows = 1;
    while (p.input.scrollHeight > p.input.clientHeight && p.input.rows < 12) p.input.rows++;
  }
}


// say returns what a rule has left, in words.
function say(rule, g, several) {
  const name = several ? `${rule.name.replaceAll('-', ' ')}: ` : '';
  if (rule.bans && g.remaining === 0) return `${name}banned for ${wait(g.next)}`;
  const left = `${name}${g.remaining.toLocaleString('en')} of ${g.most.toLocaleString('en')} left`;
  if (g.delay > 0) return `${left}, a wait of ${wait(g.delay)}`;
  if (g.next < 0 && !several) return `${left}, more at an end`;
  if (g.next > 0 && !several) return `${left}, ${rule.bans ? 'fresh' : 'more'} in ${wait(g.next)}`;
  return left;
}

// note remembers what a frame says.
export function note(frame) {
  for (const event of frame.events) {
    const p = panels[event.panel];
    p.history.add(event);
    if (event.kind === request && p.info.rules.length === 1) for (const level of [event.before, event.level]) p.history.level(event.at, 0, [level]);
  }
  panels.forEach((p, i) => {
    const { gauges } = frame.panels[i];
    if (gauges.length) p.history.level(frame.now, p.span / 400, gauges.map(g => g.level));
  });
}

// show shows a frame. words is whether to write, too, what pictures show, for those who
// cannot see them.
export function show(frame, words) {
  note(frame);
  panels.forEach((p, i) => {
    const { gauges, allowed, denied } = frame.panels[i];
    if (!gauges.length) return;
    draw(p.canvas, p.history, p.info.rules, gauges, frame.now, p.span);
    gauges.forEach((g, j) => write(p.states[j], say(p.info.rules[j], g, gauges.length > 1)));
    write(p.allowed, String(allowed));
    write(p.denied, String(denied));
    if (words) p.canvas.setAttribute('aria-label', `${p.states.map(s => s.textContent).join('; ')}; ${allowed} allowed, ${denied} denied`);
  });
}

function write(e, text) {
  if (e.firstChild?.data !== text) e.textContent = text;
}
