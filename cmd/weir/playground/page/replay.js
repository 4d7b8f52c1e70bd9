// Replays an access log that is dropped on the page, or chosen: the engine decides its requests by
// the limits of all panels. The log is read here, piece by piece, and sent nowhere.

import { names } from './panels.js';
import { wait } from './frame.js';

const get = id => document.getElementById(id);
let weir, file = null, through = ''; // the limits of the result
let turn = 0; // which replay is under way: an older one ends

const element = (name, properties = {}, ...children) => {
  const e = Object.assign(document.createElement(name), properties);
  e.append(...children);
  return e;
};

const texts = () => names().map(n => n.text).join('\n');

export function prepare(engine) {
  weir = engine;
  get('log').disabled = false;
  get('log').addEventListener('change', () => { if (get('log').files.length) take(get('log').files); });
  get('again').addEventListener('click', () => replay());
  get('stop').addEventListener('click', () => { end(); say('Stopped.'); });
  const isFile = e => e.dataTransfer?.types.includes('Files');
  addEventListener('dragover', e => { if (isFile(e)) { e.preventDefault(); document.body.classList.add('drop'); } });
  addEventListener('dragleave', e => { if (!e.relatedTarget) document.body.classList.remove('drop'); });
  addEventListener('drop', e => {
    document.body.classList.remove('drop');
    if (!isFile(e)) return;
    e.preventDefault();
    if (e.dataTransfer.files.length) take(e.dataTransfer.files);
  });
}

function take(files) {
  file = files[0];
  get('replay').scrollIntoView({ block: 'nearest' });
  replay(files.length > 1 ? ` One log at a time: the other ${files.length - 1} are left out.` : '');
}

// changed says that the panels are others than those of the result.
export function changed() {
  if (!file || through === texts()) return;
  end();
  get('replayed').hidden = true;
  get('again').hidden = false;
  get('again').textContent = `Replay ${file.name} through these limits`;
  say('The limits have changed.');
}

function say(text) {
  get('replay-says').classList.remove('mistake');
  get('replay-says').textContent = text;
}

function fail(text) {
  end();
  get('replay-says').classList.add('mistake');
  get('replay-says').textContent = text;
}

// end ends the replay that is under way.
function end() {
  turn++;
  weir.stopReplay();
  get('stop').hidden = get('part').hidden = true;
  get('left').textContent = '';
}

async function replay(more = '') {
  end();
  const mine = turn, log = file;
  let piece = 1 << 15; // bytes for a call of the engine. Between two the page is drawn
  through = texts();
  get('replayed').hidden = get('again').hidden = true;
  const wrong = weir.replay(log.name);
  if (wrong) return fail(wrong);
  get('stop').hidden = get('part').hidden = false;
  say(`Reading ${log.name}`);
  const begun = performance.now();
  try {
    for (let at = 0; at < log.size;) {
      const text = new Uint8Array(await log.slice(at, at + piece).arrayBuffer());
      if (mine !== turn) return;
      const started = performance.now(), wanted = weir.feed(text), took = performance.now() - started;
      if (took < 40) piece *= 2; else if (took > 100) piece = Math.max(1 << 12, piece / 2);
      at += text.length;
      const done = at / log.size, passed = (performance.now() - begun) * 1000;
      get('part').value = done;
      get('left').textContent = passed > 1e6 && done < 1 ? `${wait(Math.round(passed * (1 - done) / done))} left` : '';
      if (!wanted) break;
      await new Promise(r => setTimeout(r)); // lets the page be drawn
      if (mine !== turn) return;
    }
  } catch (error) {
    if (mine === turn) fail(`${log.name} cannot be read: ${error.message}`);
    return;
  }
  const result = weir.replayed();
  get('stop').hidden = get('part').hidden = true;
  get('left').textContent = '';
  if (result.error) return fail(`${result.error}.${result.error.includes('--') ? ' The flags are those of weir simulate.' : ''}`);
  show(log.name, result, more);
}

function show(name, result, more) {
  say(`${name}: ${result.headline}.${more}`);
  const all = names(), most = Math.max(...result.rows.map(r => Math.max(...columns(r.over))));
  const rows = result.rows.map(r => row(
    [all[r.panel].name, element('code', { textContent: all[r.panel].text }), ...r.missing.map(text => element('small', { textContent: `Not simulated: ${text}` }))],
    r.denied && picture('denied', r.over, most),
    ['denied', r.denied, r.deniedShare && `${r.deniedShare} of requests`, r.delayed && `${r.delayed} wait for their turn`],
    ['clients denied', r.clients, r.clientsShare && `${r.clientsShare} of clients`],
    ['longest wait', r.wait],
    ['first denial', r.first],
  ));
  get('replay-rows').replaceChildren(row([element('small', { textContent: `All ${result.requests} requests` })], picture('asked', result.over, Math.max(...columns(result.over)))), ...rows);
  get('replay-notes').replaceChildren(...[`${result.reading}.`, ...result.notes].map(text => element('li', { textContent: text })));
  get('replayed').hidden = false;
}

function row(head, drawn, ...cells) {
  return element('tr', {}, element('th', { scope: 'row' }, ...head), element('td', { className: 'part' }, ...(drawn ? [drawn] : [])), ...cells.map(([label, text, ...smalls]) => {
    const cell = element('td', {}, text || '–', ...smalls.filter(Boolean).map(small => element('small', { textContent: small })));
    cell.dataset.label = label;
    return cell;
  }));
}

// columns returns the numbers of stretches of time as the columns of a small picture, of which each
// stands for as many stretches.
function columns(over) {
  const each = Math.ceil(over.length / 56);
  return Array.from({ length: Math.ceil(over.length / each) }, (_, i) => over.slice(i * each, (i + 1) * each).reduce((sum, v) => sum + v, 0));
}

// picture draws numbers over time. Whoever cannot see it has the numbers of the row.
function picture(name, over, most) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg'), path = document.createElementNS('http://www.w3.org/2000/svg', 'path'), all = columns(over);
  svg.setAttribute('class', name);
  svg.setAttribute('viewBox', `0 0 ${all.length} 1`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('aria-hidden', 'true');
  path.setAttribute('d', all.map((v, i) => v && `M${i} 1h.8v${-Math.max(v / most, .06)}h-.8z`).filter(Boolean).join(''));
  svg.append(path);
  return svg;
}
