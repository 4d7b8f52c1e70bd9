// The answer that a client got, with its header fields, and what each rule said.

import { chosenName, title } from './panels.js';

const get = id => document.getElementById(id);
const reasons = { 200: 'OK', 429: 'Too Many Requests', 503: 'Service Unavailable' };

export const looking = { number: 0 }; // which answer; 0: the latest
let shown = null;

get('older').addEventListener('click', () => { looking.number = Math.max(shown.first, shown.number - 1); });
get('newer').addEventListener('click', () => { looking.number = shown.number + 1 >= shown.last ? 0 : shown.number + 1; });

// clear says that there is no answer yet.
export function clear() {
  looking.number = 0;
  shown = null;
  get('answer-title').textContent = `Answer of ${chosenName().toLowerCase()}`;
  get('which').textContent = 'No request yet.';
  get('verdict').className = 'verdict none';
  get('verdict').textContent = ' ';
  get('fields').replaceChildren();
  get('said').replaceChildren();
  get('proof').textContent = 'The next denial shows it: a microsecond early, the same request is denied; in time, it is allowed.';
  get('older').disabled = get('newer').disabled = true;
}

export function show(answer) {
  if (!answer) return;
  shown = answer;
  const text = (e, t) => { if (e.textContent !== t) e.textContent = t; };
  text(get('which'), `No. ${answer.number} at ${answer.at}, cost ${answer.cost}${answer.attempt > 1 ? `, attempt ${answer.attempt}` : ''}`);
  get('verdict').className = `verdict ${answer.verdict}`;
  text(get('verdict'), `${answer.status} ${reasons[answer.status] ?? ''}${answer.delay ? `, after ${answer.delay}` : ''}`);
  get('fields').replaceChildren(...answer.fields.flatMap(f => [node('dt', f.name), node('dd', f.value)]));
  get('said').replaceChildren(...answer.rules.map(r => {
    const name = answer.rules.length > 1 ? `${title(r.name)} ` : '';
    const verdict = r.allowed ? (answer.verdict === 'denied' ? 'would allow it, and nothing is taken' : 'allows it') : `denies it${r.retryAfter === 'no wait helps' ? ': ' : ' for '}${r.retryAfter}`;
    return node('li', `${name}${name ? verdict : title(verdict)}. ${r.remaining} left${until(r)}.`);
  }));
  if (answer.proof) text(get('proof'), answer.proof);
  get('older').disabled = answer.number <= answer.first;
  get('newer').disabled = answer.number >= answer.last;
}

// until says when all of a limit is back. Nobody knows when requests end that a concurrency limit counts.
function until(rule) {
  if (rule.resetAfter !== '0 s') return `, fresh after ${rule.resetAfter}`;
  return rule.remaining === 0 ? ' until a request ends' : '';
}

function node(name, text) {
  const e = document.createElement(name);
  e.textContent = text;
  return e;
}
