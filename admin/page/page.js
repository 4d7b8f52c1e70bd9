'use strict';
// The operator's page of weir. It never writes HTML: every text of a rule or a key goes
// into the document as text. It asks its own origin alone, by relative links.

const $ = id => document.getElementById(id);

// el returns an element with attributes and children. An attribute of null is left out.
function el(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) e.setAttribute(name, value);
  }
  e.append(...children.filter(c => c !== null && c !== ''));
  return e;
}

// say sets a text, if it is another: what reads the page aloud would repeat it.
function say(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

/* Numbers */

function count(n) { return n.toLocaleString('en').replaceAll(',', '\u202f'); }

function rate(n) {
  if (n === null) return '–';
  if (n === 0) return '0';
  if (n < 0.05) return '<0.1';
  return n < 9.95 ? n.toFixed(1) : count(Math.round(n));
}

function wait(us) {
  if (us < 0) return 'never';
  if (us === 0) return '0';
  if (us < 1e3) return us + ' µs';
  if (us < 1e6) return +(us / 1e3).toPrecision(3) + ' ms';
  const s = us / 1e6;
  if (s < 60) return +s.toPrecision(3) + ' s';
  return span(s);
}

// waitInTable is wait with one decimal, so that waits stand below each other.
function waitInTable(us) { return us >= 1e3 && us < 60e6 ? (us < 1e6 ? (us / 1e3).toFixed(1) + ' ms' : (us / 1e6).toFixed(1) + ' s') : wait(us); }

function span(s) {
  const units = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const at = units.findIndex(([size]) => s >= size);
  if (at < 0) return '0 s';
  const [size, name] = units[at];
  const whole = Math.floor(s / size);
  const rest = at < 3 ? Math.floor((s - whole * size) / units[at + 1][0]) : 0;
  return whole + ' ' + name + (rest ? ' ' + rest + ' ' + units[at + 1][1] : '');
}

function clock(ms) {
  const d = new Date(ms);
  const time = d.toLocaleTimeString('en-GB');
  return Math.abs(Date.now() - ms) < 43200e3 ? time : d.toLocaleDateString('en-CA') + ' ' + time;
}

/* State */

const kept = [];      // snapshots of the last seconds, oldest first
const keptTime = 5000;
let past = {Times: [], Marks: [], All: {}}; // of ten minutes
const pastOf = new Map(); // of each rule
let session = null;
const all = {top: false, denials: false, single: false}; // what is shown whole
let denials = [];
let denialsOf = '';   // what the denials were read for

const nameOf = r => JSON.stringify([r.Limiter, r.Name]);
const classOf = c => JSON.stringify([c.Of.Name, c.Name]);
const latest = () => kept[kept.length - 1];

// perSecond returns how fast a counter rose, null if that is not known yet.
function perSecond(find) {
  const from = kept[0], to = latest();
  if (!from || to.At <= from.At) return null;
  return Math.max(0, (find(to) ?? 0) - (find(from) ?? 0)) * 1000 / (to.At - from.At);
}

function keep(snapshot) {
  for (const list of ['Limiters', 'Shedders', 'Rules', 'Top', 'Memories', 'Backends', 'Breakers', 'Leases']) snapshot[list] ??= [];
  snapshot.byName = new Map(snapshot.Rules.map(r => [nameOf(r), r]));
  snapshot.byLimiter = new Map(snapshot.Limiters.map(l => [l.Name, l]));
  snapshot.classes = snapshot.Shedders.flatMap(s => s.Classes.map(c => ({...c, Of: s})));
  snapshot.byClass = new Map(snapshot.classes.map(c => [classOf(c), c]));
  if (kept.length && (snapshot.Since !== latest().Since || snapshot.At < latest().At)) kept.length = 0; // another process, or its clock was set back
  if (kept.length && snapshot.At === latest().At) return;
  kept.push(snapshot);
  while (kept.length > 2 && kept[1].At <= snapshot.At - keptTime) kept.shift();
}

function remember(history) {
  past = history;
  pastOf.clear();
  for (const line of past.Rules) pastOf.set(JSON.stringify([line.Limiter, line.Rule]), line);
}

/* Talking to the server */

async function ask(place, body) {
  const answer = await fetch(place, {
    method: body === undefined ? 'GET' : 'POST', cache: 'no-store', credentials: 'same-origin', redirect: 'error',
    headers: body === undefined ? {} : {'Content-Type': 'application/json'},
    body: body === undefined ? undefined : JSON.stringify(body), signal: AbortSignal.timeout(10000),
  });
  let content;
  try { content = await answer.json(); } catch { content = {Error: 'the answer cannot be read'}; }
  if (!answer.ok) throw new Error(content.Error || 'status ' + answer.status);
  return content;
}

let timer = 0, running = false, failures = 0;

function stop() {
  clearTimeout(timer);
  timer = 0;
}

async function poll() {
  stop();
  if (document.hidden || running) return;
  running = true;
  try {
    session ??= begin(await ask('api/session'));
    const now = await ask('api/snapshot');
    if (!kept.length || now.At - latest().At > keptTime) { // a rate over a pause would be none of now
      const earlier = await ask('api/earlier');
      kept.length = 0;
      if (earlier && earlier.At < now.At) keep(earlier);
    }
    keep(now);
    const changed = JSON.stringify(latest().Limiters.map(l => [l.Name, l.Denied])) + JSON.stringify(latest().Rules.map(r => r.WouldDeny));
    if (changed !== denialsOf) {
      denials = await ask('api/denials');
      denialsOf = changed;
    }
    if (latest().At - (past.Times.at(-1) ?? 0) >= 5000 || latest().At < past.Times[0]) remember(await ask('api/history'));
    failures = 0;
    show();
  } catch (e) {
    failures++;
    lost(e);
  } finally {
    running = false;
    if (!document.hidden) timer = setTimeout(poll, Math.min(1000 * Math.max(1, failures), 5000));
  }
}

function lost(e) {
  const since = kept.length ? 'The numbers below are of ' + clock(latest().At) + '.' : '';
  say($('lost'), 'No news from this instance: ' + e.message + '. ' + since);
  $('lost').hidden = false;
  $('dot').className = 'dot off';
  say($('live'), 'not live');
}

document.addEventListener('visibilitychange', () => {
  if (document.hidden) {
    stop();
    $('dot').className = 'dot';
    say($('live'), 'paused');
    return;
  }
  poll();
});

// begin shows what does not change, and returns the session.
function begin(s) {
  document.title = s.Instance + ' – weir';
  say($('instance'), s.Instance);
  $('masked').hidden = !s.Masked;
  say($('who'), s.Name + (s.MayChange ? ', may change' : ', read-only'));
  return s;
}

/* Showing */

// rows makes the rows of a table those of list. A row that stays keeps its elements, and
// so its focus. The row that is chosen is open: below it is what open makes, and fills.
function rows(table, list, keyOf, make, fill, open) {
  const body = table.tBodies[0], focused = document.activeElement;
  table.made ??= new Map();
  const made = new Map(), wanted = [];
  for (const item of list) {
    const key = keyOf(item);
    if (made.has(key)) continue;
    let row = table.made.get(key);
    if (!row) {
      row = el('tr', {role: 'row'});
      row.cells_ = {};
      row.key_ = key;
      make(row, item);
    }
    made.set(key, row);
    fill(row, item);
    wanted.push(row);
    const isOpen = open !== undefined && table.chosen === key;
    row.toggleAttribute('data-open', isOpen);
    row.picker?.setAttribute('aria-expanded', isOpen);
    if (!isOpen) {
      if (row.below) row.plot?.end();
      row.below = null;
      continue;
    }
    if (!row.below) {
      row.inside = el('td', {role: 'cell', colspan: row.children.length});
      row.below = el('tr', {role: 'row', class: 'below'}, row.inside);
      open.make(row, item);
    }
    open.fill(row, item);
    wanted.push(row.below);
  }
  let at = body.firstChild;
  for (const row of wanted) {
    if (row === at) at = at.nextSibling;
    else body.insertBefore(row, at);
  }
  while (at) {
    const next = at.nextSibling;
    if (at.key_ !== undefined && at.below) at.plot?.end();
    at.remove();
    at = next;
  }
  table.made = made;
  if (focused !== document.activeElement && focused.isConnected) focused.focus({preventScroll: true}); // its row has moved
}

// picker makes a button of a row that opens and closes the row.
function picker(row, table, draw) {
  const b = el('button', {type: 'button', class: 'pick', 'aria-expanded': 'false'});
  b.addEventListener('click', () => {
    table.chosen = table.chosen === row.key_ ? undefined : row.key_;
    draw();
  });
  row.picker = b;
  return b;
}

// cell adds a cell to a row, with a label for narrow screens.
function cell(row, name, label, kind = '', tag = 'td') {
  const c = el(tag, {class: kind || null, 'data-label': tag === 'td' ? label : null, role: tag === 'td' ? 'cell' : 'rowheader', scope: tag === 'th' ? 'row' : null});
  row.cells_[name] = c;
  row.append(c);
  return c;
}

function button(text, label, act) {
  const b = el('button', {type: 'button', 'aria-label': label}, text);
  b.addEventListener('click', () => act(b));
  return b;
}

function show() {
  $('lost').hidden = true;
  $('dot').className = 'dot on';
  say($('live'), 'live ' + clock(latest().At));
  for (const part of document.querySelectorAll('.of-rules')) part.hidden = !limits();
  showHeadline();
  showVerdicts();
  showPast();
  showFacts();
  showShedders();
  showRules();
  showTop();
  showDenials();
  showForm();
}

// limits says whether there are limiters: a program may only have shedders.
const limits = () => latest().Limiters.length + latest().Rules.length > 0;
const several = () => latest().Limiters.length > 1 || session.Explains === null || session.Explains.length > 1;
const ruleName = (limiter, rule) => several() ? limiter + ' / ' + rule : rule;

// named returns the first three names after what they name, and how many more there are.
function named(what, names) {
  const many = names.length > 1 ? (what.endsWith('s') ? 'es ' : 's ') : ' ';
  return what + many + names.slice(0, 3).join(', ') + (names.length > 3 ? ' and ' + (names.length - 3) + ' more' : '');
}

// showHeadline says in one sentence what whoever was woken up has to know.
function showHeadline() {
  const s = latest(), parts = [];
  let kind = '';
  for (const b of s.Breakers) if (b.Open) parts.push('Backend ' + b.Name + ' does not answer: its breaker has been open since ' + clock(b.Since) + '.');
  if (s.Policy && s.Policy.Failure) parts.push('The policy file is not in force as it is: the rules are those of ' + clock(s.Policy.Applied) + '.');
  const unavailable = s.Limiters.filter(l => perSecond(t => t.byLimiter.get(l.Name)?.Unavailable) > 0);
  if (unavailable.length) parts.push('Requests are answered 503, because rules cannot be decided.');
  if (parts.length) kind = 'broken';
  const deny = s.Rules.map(r => [r, perSecond(t => t.byName.get(nameOf(r))?.Binding)]).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  if (deny.length) {
    kind ||= 'denies';
    parts.push(named('Rule', deny.map(([r]) => ruleName(r.Limiter, r.Name))) + (deny.length > 1 ? ' deny.' : ' denies.'));
  }
  const sheds = s.classes.filter(c => shedPerSecond(c, 'Shed') > 0);
  if (sheds.length) {
    kind ||= 'sheds';
    parts.push('The service is full: ' + named('class', sheds.map(className)) + (sheds.length > 1 ? ' are' : ' is') + ' shed, with a 503.');
  }
  const would = s.Rules.filter(r => perSecond(t => t.byName.get(nameOf(r))?.WouldDeny) > 0);
  const wouldShed = s.classes.filter(c => shedPerSecond(c, 'Shadowed') > 0);
  const nothing = limits() ? 'Nothing is denied.' : 'Nothing is shed.';
  if (would.length || wouldShed.length) {
    kind ||= 'would';
    if (!parts.length) parts.push(nothing);
    const alone = would.filter(r => !deny.some(([d]) => d === r)), more = would.filter(r => !alone.includes(r));
    const name = r => ruleName(r.Limiter, r.Name);
    if (alone.length) parts.push(named('Rule', alone.map(name)) + ' would deny.');
    if (more.length) parts.push(named('Rule', more.map(name)) + ' would deny more, if enforced for all keys.');
    if (wouldShed.length) parts.push(named('Class', wouldShed.map(className)) + ' would be shed.');
  }
  if (!parts.length) parts.push(kept.length > 1 ? nothing : 'Counting…');
  const changed = s.Rules.filter(r => r.Until).length;
  if (changed) parts.push(changed === 1 ? 'One rule is changed for a time.' : changed + ' rules are changed for a time.');
  say($('headline'), parts.join(' '));
  $('headline').className = 'headline ' + kind;
}

function showVerdicts() {
  const list = $('verdicts'), tiles = list.made ??= new Map();
  const sum = f => perSecond(s => s.Limiters.reduce((n, l) => n + f(l), 0));
  const total = f => latest().Limiters.reduce((n, l) => n + f(l), 0);
  const tilesOf = !limits() ? [] : [
    ['Allowed', rate(sum(l => l.Allowed)), '/s', ''],
    ['Denied', rate(sum(l => l.Denied)), '/s', sum(l => l.Denied) > 0 ? 'denied' : ''],
    ['Unavailable', rate(sum(l => l.Unavailable)), '/s', sum(l => l.Unavailable) > 0 ? 'bad' : ''],
    ['Abandoned', rate(sum(l => l.Abandoned)), '/s', ''],
  ];
  if (latest().classes.length) {
    const shed = perSecond(s => s.classes.reduce((n, c) => n + c.Shed, 0));
    if (!limits()) tilesOf.push(['Admitted', rate(perSecond(s => s.classes.reduce((n, c) => n + c.Admitted, 0))), '/s', '']);
    tilesOf.push(['Shed', rate(shed), '/s', shed > 0 ? 'shed' : '']);
  }
  if (total(l => l.Held)) tilesOf.push(['Held', count(total(l => l.Held)), ' now', '']);
  if (total(l => l.Waiting)) tilesOf.push(['In queues', count(total(l => l.Waiting)), ' now', '']);
  if (total(l => l.QueueFull)) tilesOf.push(['Queue full', rate(sum(l => l.QueueFull)), '/s', '']);
  if (total(l => l.Preflights)) tilesOf.push(['Preflights', rate(sum(l => l.Preflights)), '/s', '']);
  for (const [name, value, unit, kind] of tilesOf) {
    let tile = tiles.get(name);
    if (!tile) {
      const number = el('span');
      tile = {box: el('div', {}, el('dt', {}, name), el('dd', {}, number, el('small', {}, unit))), number};
      tiles.set(name, tile);
      list.append(tile.box);
    }
    say(tile.number, value);
    tile.box.className = kind;
  }
}

function fact(name, text, kind = '') { return [name, text, kind]; }

function factsOf(s) {
  const facts = [];
  const p = s.Policy;
  if (p) {
    facts.push(fact('Policy', p.Source + ', digest ' + p.Digest.slice(0, 12) + ', in force for ' + span((s.At - p.Applied) / 1000)));
    if (p.Differences && p.Differences.length) facts.push(fact('Its last changes', p.Differences.slice(0, 8).join('; ') + (p.Differences.length > 8 ? '; and ' + (p.Differences.length - 8) + ' more' : ''), 'soft'));
    if (p.Failure) facts.push(fact('Policy not applied', 'since ' + clock(p.FailingSince) + ': ' + p.Failure, 'bad'));
  } else if (limits()) facts.push(fact('Policy', 'the rules are part of the program', 'soft'));
  for (const b of s.Breakers) {
    facts.push(fact('Breaker ' + b.Name, b.State + (b.Since ? ' since ' + clock(b.Since) : '') + (b.Opened ? ', has opened ' + count(b.Opened) + (b.Opened === 1 ? ' time' : ' times') : ', has never opened'), b.Open ? 'bad' : ''));
  }
  const backends = new Map();
  for (const o of s.Backends) {
    const errors = [['timed out', o.Timeout], ['canceled', o.Canceled], ['unsupported', o.Unsupported], ['other', o.Other]].filter(([, n]) => n).map(([t, n]) => count(n) + ' ' + t);
    const text = o.Operation + ': ' + count(o.Succeeded) + ' answered' + (o.Succeeded ? ' (median ≤ ' + wait(o.Median) + ', 99% of calls ≤ ' + wait(o.P99) + ')' : '') + (o.Failed ? ', ' + count(o.Failed) + ' failed (' + errors.join(', ') + ')' : '');
    backends.set(o.Backend, [...(backends.get(o.Backend) ?? []), text]);
  }
  for (const [name, texts] of backends) facts.push(fact('Backend ' + name, texts.join('; ')));
  for (const m of s.Memories) {
    facts.push(fact('Memory ' + m.Name, count(m.Keys) + ' of ' + count(m.MaxKeys) + ' keys (' + Math.round(100 * m.Keys / Math.max(1, m.MaxKeys)) + '%)' + (m.Displaced ? ', ' + count(m.Displaced) + ' displaced' : ''), m.Displaced ? 'bad' : ''));
  }
  for (const l of s.Leases) {
    if (!l.BlocksTaken && !l.BlocksFailed) continue;
    const gone = [['returned', l.UnitsReturned], ['void', l.UnitsVoid]].filter(([, n]) => n).map(([t, n]) => count(n) + ' ' + t);
    facts.push(fact('Leases of ' + l.Name, count(l.Held) + ' units held of ' + count(l.Keys) + (l.Keys === 1 ? ' key, ' : ' keys, ') + count(l.UnitsTaken) + ' taken in ' + count(l.BlocksTaken) + ' blocks' + (gone.length ? ' (' + gone.join(', ') + ')' : '') + (l.BlocksFailed ? ', ' + count(l.BlocksFailed) + ' blocks failed' : '')));
  }
  for (const l of s.Limiters) {
    if (l.Instances) facts.push(fact('Instances of ' + l.Name, count(l.Instances) + (l.Instances > 1 ? ': without the backend each process admits its share' : ': without the backend this process admits the whole limit')));
  }
  facts.push(fact('Counting', 'for ' + span((s.At - s.Since) / 1000), 'soft'));
  return facts;
}

function showFacts() {
  showList($('facts'), factsOf(latest()));
}

// showList makes the items of a list those of facts.
function showList(list, facts) {
  while (list.children.length > facts.length) list.lastChild.remove();
  facts.forEach(([name, text, kind], i) => {
    let item = list.children[i];
    if (!item) {
      item = el('li', {}, el('b'), el('span'));
      list.append(item);
    }
    say(item.children[0], name + ': ');
    say(item.children[1], text);
    item.children[1].className = kind;
  });
}

/* Shedding */

const className = c => latest().Shedders.length > 1 ? c.Of.Name + ' / ' + c.Name : c.Name;
const shedPerSecond = (c, field) => perSecond(s => s.byClass.get(classOf(c))?.[field]);

// shedderText says what a shedder does now.
function shedderText(s) {
  if (s.Mode === 'disabled') return 'disabled: everything is let in and nothing is counted';
  const also = [['waiting', s.Waiting], ['streams', s.Streams], ['exempt', s.Exempt], ['let in by shadow alone', s.Shadowed]].filter(([, n]) => n).map(([t, n]) => count(n) + ' ' + t);
  return s.Mode + ', limit ' + count(s.Limit) + ' (at most ' + count(s.MaxInFlight) + '), ' + count(s.InFlight) + ' in flight' + (s.InFlight ? ', the oldest for ' + wait(s.Oldest) : '') + (also.length ? '; besides ' + also.join(', ') : '') +
    (s.ExemptTotal ? '; ' + count(s.ExemptTotal) + ' exempt so far' : '') + (s.Panics ? '; its algorithm has panicked ' + count(s.Panics) + (s.Panics === 1 ? ' time' : ' times') : '');
}

function showShedders() {
  const s = latest();
  $('shedding').hidden = s.Shedders.length === 0;
  showList($('shedders'), s.Shedders.map(d => fact(d.Name, shedderText(d), d.Panics ? 'bad' : d.Mode === 'disabled' ? 'soft' : '')));
  rows($('shed-table'), s.classes, classOf, (row, c) => {
    cell(row, 'name', '', '', 'th');
    for (const [field, label] of [['share', 'Share of limit'], ['entry', 'Enters below'], ['flight', 'In flight'], ['waiting', 'Waiting'], ['admitted', 'Admitted/s'], ['shed', 'Shed/s'], ['would', 'Would shed/s'], ['left', 'Left/s'], ['total', 'Shed so far']]) cell(row, field, label, 'n');
  }, (row, c) => {
    const e = row.cells_;
    row.className = c.Of.Mode === 'disabled' ? 'off' : '';
    say(e.name, className(c));
    say(e.share, c.Share + '%');
    say(e.entry, count(c.Entry));
    say(e.flight, count(c.InFlight));
    say(e.waiting, count(c.Waiting));
    number(e.admitted, shedPerSecond(c, 'Admitted'));
    number(e.shed, shedPerSecond(c, 'Shed'), 'shed');
    number(e.would, shedPerSecond(c, 'Shadowed'), 'warm');
    number(e.left, shedPerSecond(c, 'Left'));
    say(e.total, count(c.Shed));
  });
}

function showRules() {
  rows($('rule-table'), latest().Rules, r => nameOf(r) + r.InForce, makeRule, fillRule, {make: openRule, fill: fillOpenRule});
}

function makeRule(row, r) {
  const name = cell(row, 'name', '', '', 'th');
  row.label = picker(row, $('rule-table'), showRules);
  row.differs = el('div', {class: 'differs', hidden: ''}, el('p'), el('details', {}, el('summary', {}, 'what to write to make it last'), el('pre', {tabindex: '0'})));
  name.append(row.label, row.differs);
  row.limit = el('span');
  row.per = el('span', {class: 'kind'});
  cell(row, 'limit', 'Limit', 'limit').append(row.limit, row.per);
  cell(row, 'mode', 'Mode');
  for (const [field, label] of [['allowed', 'Allowed/s'], ['denied', 'Denied/s'], ['would', 'Would deny/s']]) cell(row, field, label, 'n');
  row.line = sparkline();
  cell(row, 'line', 'Over time').append(row.line.svg);
  for (const [field, label] of [['binding', 'Binds/s'], ['near', 'Near/s'], ['units', 'Units/s']]) cell(row, field, label, 'n');
  cell(row, 'source', 'Decided by');
}

function fillRule(row, r) {
  const c = row.cells_;
  const of = field => perSecond(s => s.byName.get(nameOf(r))?.[field]);
  row.className = !r.InForce ? 'gone' : r.Mode === 'disabled' ? 'off' : '';
  say(row.label, ruleName(r.Limiter, r.Name) + (r.Local ? ' (local)' : '') + (r.Capacity ? ' (capacity)' : '') + (r.Hidden ? ' (hidden)' : ''));
  say(row.limit, r.InForce ? r.Limit || 'by request' : 'gone');
  say(row.per, r.KeyName ? (r.KeyName === 'everybody' ? 'for ' : 'by ') + r.KeyName : '');
  say(c.mode, r.InForce ? r.Mode + (r.Percent > 0 && r.Percent < 100 ? ' of keys' : '') : '');
  number(c.allowed, of('Allowed'));
  number(c.denied, of('Denied'), 'hot');
  number(c.would, of('WouldDeny'), 'warm');
  number(c.binding, of('Binding'));
  number(c.near, of('NearLimit'), 'warm');
  number(c.units, of('Units'));
  say(c.source, sourcesOf(r));
  row.line.draw(pastOf.get(nameOf(r)) ?? {});
  row.differs.hidden = !r.Until && !r.YAML;
  if (!row.differs.hidden) {
    const changed = [[r.Limit, r.GivenLimit], [r.Mode, r.GivenMode]].filter(([now, given]) => now !== given).map(([now, given]) => now + ' instead of ' + given);
    say(row.differs.children[0], (changed.join(', ') || 'As given') + (r.Until ? ' until ' + clock(r.Until) + '. ' + r.Why : ', by another rule of its scope.'));
    const details = row.differs.children[1];
    details.hidden = !r.YAML;
    say(details.children[1], r.YAML);
  }
}

// openRule makes what is below the rule that is chosen.
function openRule(row, r) {
  row.plot = plot('Rule ' + ruleName(r.Limiter, r.Name) + ' over time', () => seriesOf(pastOf.get(nameOf(r)) ?? {}, ['allowed', 'denied', 'would']));
  row.inside.append(row.plot.box);
  if (!session.MayChange || !r.Ours) return;
  row.clear = button('End the change', 'End the change of rule ' + r.Name, () => changeDialog('clear', row.rule));
  row.limitButton = button('Change the limit', 'Change the limit of rule ' + r.Name, () => changeDialog('limit', row.rule));
  row.inside.append(el('div', {class: 'acts'}, button('Change the mode', 'Change the mode of rule ' + r.Name, () => changeDialog('mode', row.rule)), row.limitButton, row.clear));
}

function fillOpenRule(row, r) {
  row.rule = r;
  row.plot.draw();
  if (!row.clear) return;
  row.clear.hidden = !r.Until;
  row.limitButton.hidden = !r.GivenLimit;
}

function number(c, n, kind = '') {
  say(c, rate(n));
  c.toggleAttribute('data-whole', n !== null && !rate(n).includes('.'));
  c.className = 'n ' + (n ? kind : 'zero');
}

const sourceName = source => source === 'primary' ? 'backend' : source;

// sourcesOf says who decided of late, or ever.
function sourcesOf(r) {
  const before = kept[0].byName.get(nameOf(r))?.Sources ?? {};
  let parts = Object.entries(r.Sources).map(([name, n]) => [name, n - (before[name] ?? 0)]);
  if (!parts.some(([, n]) => n > 0)) parts = Object.entries(r.Sources);
  const all = parts.reduce((n, [, m]) => n + m, 0);
  return parts.filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]).map(([name, n]) => sourceName(name) + (n === all ? '' : ' ' + Math.max(1, Math.round(100 * n / all)) + '%')).join(', ') || '–';
}

/* Over time */

const svgName = 'http://www.w3.org/2000/svg';

// draw adds an element to a drawing.
function draw(parent, tag, attributes, text) {
  const e = document.createElementNS(svgName, tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  if (text !== undefined) e.textContent = text;
  parent.append(e);
  return e;
}

const kinds = { // of requests: their name in a history, and for people
  allowed: ['Allowed', 'allowed'], denied: ['Denied', 'denied'], would: ['WouldDeny', 'would deny'],
  unavailable: ['Unavailable', 'unavailable'], admitted: ['Admitted', 'admitted'], shed: ['Shed', 'shed'],
};

// seriesOf returns the kinds of requests of a line, with how many a second there were in each
// stretch.
function seriesOf(line, list) {
  const t = past.Times;
  return list.map(kind => {
    const [field, name] = kinds[kind];
    return {kind, name, used: line[field] !== undefined, of: i => (line[field]?.[i] ?? 0) * 1000 / Math.max(1, t[i + 1] - t[i])};
  });
}

// frame returns the times that a drawing is of: as many minutes as the past fills half.
function frame() {
  const t = past.Times, from = t[0], last = t[t.length - 1];
  return {from, to: from + 60e3 * ([1, 2, 5].find(minutes => last - from <= minutes * 60e3) ?? 10)};
}

// scaleOf returns the steps of a scale from 0 to at least most.
function scaleOf(most, about) {
  const least = Math.max(most, 1) / about, ten = 10 ** Math.floor(Math.log10(least));
  const step = ten * [1, 2, 5, 10].find(m => ten * m >= least);
  return Array.from({length: Math.ceil(Math.max(most, 1) / step - 1e-9) + 1}, (_, i) => i * step);
}

// stairs returns the path of a series: a rate is that of a whole stretch.
function stairs(s, x, y) {
  const t = past.Times;
  let d = '';
  for (let i = 0; i + 1 < t.length; i++) d += (i ? 'V' : 'M' + x(t[i]) + ' ') + y(s.of(i)) + 'H' + x(t[i + 1]);
  return d;
}

const admits = s => s.kind === 'allowed' || s.kind === 'admitted';

const most = series => Math.max(0, ...series.filter(s => s.used).flatMap(s => past.Times.slice(1).map((_, i) => s.of(i))));

const markedAt = at => past.Marks.filter(m => at(m.At));

// The stretch that is read is the same in all drawings.
let reading = null; // its end; null: none
const plots = new Set();

// plot returns a drawing of requests over time with a scale, and a function that draws it.
// Arrow keys and the pointer read it.
function plot(label, series) {
  const when = el('span', {class: 'when'}), readout = el('p', {class: 'readout'}, when), values = new Map();
  const field = el('div', {class: 'plot', role: 'slider', tabindex: '0', 'aria-label': label, 'aria-orientation': 'horizontal'});
  const box = el('div', {class: 'past'}, readout, field);
  let drawn = [], x, cursor, left, width = 0, height = 0;

  const at = () => {
    const t = past.Times, last = t.length - 2;
    if (reading === null) return last;
    const i = t.findIndex(time => time >= reading) - 1;
    return i < 0 ? (reading > t[0] ? last : 0) : i;
  };
  const read = i => {
    reading = i === null || past.Times.length < 2 ? null : past.Times[Math.max(0, Math.min(i, past.Times.length - 2)) + 1];
    for (const p of plots) p.draw();
  };

  // tell says what was at the stretch that is read, or else the latest.
  function tell() {
    const t = past.Times, i = at(), list = series();
    for (const s of list) {
      let of = values.get(s.kind);
      if (!of) {
        of = el('b');
        values.set(s.kind, of);
        readout.append(el('span', {class: 'swatch ' + s.kind}, s.name + ' ', of));
      }
      say(of, i < 0 ? '–' : rate(s.of(i)));
    }
    say(when, i < 0 ? 'The first five seconds are not over.' : (reading === null ? 'latest: ' : '') + clock(t[i]) + ' to ' + clock(t[i + 1]));
    field.setAttribute('aria-valuemin', 0);
    field.setAttribute('aria-valuemax', Math.max(0, t.length - 2));
    field.setAttribute('aria-valuenow', Math.max(0, i));
    const changes = i < 0 ? [] : markedAt(ms => ms > t[i] && ms <= t[i + 1]).map(m => m.Text);
    const text = i < 0 ? when.textContent : [clock(t[i]) + ' to ' + clock(t[i + 1]) + ', per second: ' + list.map(s => s.name + ' ' + rate(s.of(i))).join(', '), ...changes].join('. ');
    if (field.getAttribute('aria-valuetext') !== text) field.setAttribute('aria-valuetext', text);
    if (!cursor) return;
    cursor.setAttribute('visibility', reading === null ? 'hidden' : 'visible');
    if (i >= 0) {
      cursor.setAttribute('x', x(t[i]));
      cursor.setAttribute('width', Math.max(1, x(t[i + 1]) - x(t[i])));
    }
  }

  function paint() {
    if (past.Times.length < 1 || width < 50) return;
    if (drawn[0] === past && drawn[1] === width && drawn[2] === height) return;
    drawn = [past, width, height];
    const list = series();
    const refused = list.filter(s => !admits(s)), right = 12, top = 20, bottom = 24, low = 48, apart = 32;
    const bands = [ // what is refused has a scale of its own, below: beside all that is allowed, little of it is seen
      {list, steps: scaleOf(most(list), 4), head: top, foot: height - bottom - low - apart},
      {list: refused, steps: scaleOf(most(refused), 2), head: height - bottom - low, foot: height - bottom},
    ];
    for (const b of bands) b.words = b.steps.map(n => n > 0 && b.steps[1] < 1 ? n.toFixed(1) : count(n));
    left = 18 + 8 * Math.max(...bands.flatMap(b => b.words).map(w => w.length));
    const f = frame(), round = n => Math.round(n * 10) / 10;
    x = ms => round(left + (ms - f.from) * (width - left - right) / (f.to - f.from));
    const svg = document.createElementNS(svgName, 'svg');
    svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    svg.setAttribute('aria-hidden', 'true');
    for (const b of bands) {
      b.y = n => round(b.head + (b.foot - b.head) * (1 - n / b.steps.at(-1)));
      b.steps.forEach((n, i) => {
        draw(svg, 'line', {class: 'grid', x1: left, x2: width - right, y1: b.y(n), y2: b.y(n)});
        draw(svg, 'text', {x: left - 8, y: b.y(n) + 4, 'text-anchor': 'end'}, b.words[i]);
      });
    }
    draw(svg, 'text', {class: 'alone', x: left, y: height - bottom - low - 8}, refused.map(s => s.name).join(', ') + ' alone');
    const every = [10, 30, 60, 120, 300].find(s => (f.to - f.from) / s / 1e3 <= Math.max(2, (width - left) / 90)) * 1e3;
    for (let ms = Math.ceil(f.from / every) * every; ms <= f.to; ms += every) {
      draw(svg, 'line', {class: 'grid', x1: x(ms), x2: x(ms), y1: height - bottom, y2: height - bottom + 4});
      if (x(ms) > left + 14 && x(ms) < width - 30) draw(svg, 'text', {x: x(ms), y: height - 6, 'text-anchor': 'middle'}, every < 60e3 ? clock(ms) : clock(ms).slice(0, -3));
    }
    cursor = draw(svg, 'rect', {class: 'cursor', y: top, height: height - top - bottom});
    if (past.Times.length > 1) {
      for (const b of bands) {
        for (const s of b.list) if (s.used || admits(s)) draw(svg, 'path', {class: s.kind, d: stairs(s, x, b.y)});
      }
    }
    let last = -Infinity;
    past.Marks.forEach((m, i) => {
      if (m.At < f.from) return;
      draw(svg, 'line', {class: 'mark', x1: x(m.At), x2: x(m.At), y1: top - 4, y2: height - bottom});
      if (x(m.At) - last < 14) return;
      last = x(m.At);
      draw(svg, 'text', {class: 'mark', x: last, y: top - 8, 'text-anchor': 'middle'}, i + 1);
    });
    field.replaceChildren(svg);
  }

  field.addEventListener('keydown', e => {
    const i = at(), to = {ArrowLeft: i - 1, ArrowDown: i - 1, ArrowRight: i + 1, ArrowUp: i + 1, PageUp: i - 12, PageDown: i + 12, Home: 0, End: Infinity, Escape: null}[e.key];
    if (to === undefined || e.altKey || e.ctrlKey || e.metaKey) return;
    e.preventDefault();
    read(to);
  });
  const point = e => {
    if (past.Times.length < 2 || !x) return;
    const place = e.clientX - field.getBoundingClientRect().left - field.clientLeft;
    const i = past.Times.findIndex(ms => x(ms) > place);
    read(i < 0 ? Infinity : i - 1);
  };
  field.addEventListener('pointermove', point);
  field.addEventListener('pointerdown', point);
  field.addEventListener('pointerleave', e => { if (e.pointerType !== 'touch' && document.activeElement !== field) read(null); }); // a finger leaves when it is lifted
  field.addEventListener('blur', () => read(null));
  const p = {
    box,
    draw() {
      paint();
      tell();
    },
    end() {
      plots.delete(p);
      resized.disconnect();
    },
  };
  plots.add(p);
  const resized = new ResizeObserver(() => {
    [width, height] = [field.clientWidth, field.clientHeight];
    p.draw();
  });
  resized.observe(field);
  return p;
}

let whole = null; // the drawing of all requests

function showPast() {
  if (!whole) {
    whole = plot('Requests over time', () => seriesOf(past.All, [...limits() ? ['allowed', 'denied', 'unavailable'] : ['admitted'], ...latest().Shedders.length ? ['shed'] : []]));
    $('past').append(whole.box);
  }
  whole.draw();
  const list = $('marks'), text = JSON.stringify(past.Marks);
  if (list.made === text) return;
  list.made = text;
  list.hidden = past.Marks.length === 0;
  list.replaceChildren(...past.Marks.map((m, i) => el('li', {value: i + 1}, el('span', {class: 'when'}, clock(m.At)), ' ' + m.Text)));
}

const lineWidth = 136, lineHeight = 36;

// sparkline returns a drawing of a rule without a scale, and a function that draws it. What is
// denied is drawn below what is allowed, each as high as its own most.
function sparkline() {
  const svg = document.createElementNS(svgName, 'svg');
  svg.setAttribute('class', 'line');
  svg.setAttribute('viewBox', `0 -1 ${lineWidth} ${lineHeight + 2}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  const upper = 20, lower = 12;
  draw(svg, 'line', {x1: 0, x2: lineWidth, y1: upper, y2: upper});
  const paths = ['allowed', 'would', 'denied'].map(kind => draw(svg, 'path', {class: kind}));
  let drawn = null;
  return {svg, draw(line) {
    if (drawn === past) return;
    drawn = past;
    const series = seriesOf(line, ['allowed', 'would', 'denied']);
    if (past.Times.length > 1) {
      const f = frame(), round = n => Math.round(n * 10) / 10, x = ms => round((ms - f.from) * lineWidth / (f.to - f.from));
      const top = list => Math.max(1e-9, most(list)), [allowed, refused] = [top(series.slice(0, 1)), top(series.slice(1))];
      series.forEach((s, i) => paths[i].setAttribute('d', i > 0 && !s.used ? '' : stairs(s, x, n => round(i > 0 ? lineHeight - lower * n / refused : upper * (1 - n / allowed)))));
    }
    const highest = s => rate(most([s])) + ' a second';
    svg.setAttribute('aria-label', `Over time: at most ${highest(series[0])} allowed, ${highest(series[2])} denied, ${highest(series[1])} would be denied`);
  }};
}

/* Denials */

const keyText = item => (item.Kind ? item.Kind + ' ' : '') + item.Key;

// sayKey says of what kind a key is, in words, and the key.
function sayKey(e, item) {
  if (e.children.length === 0) e.append(el('span', {class: 'kind'}), el('span'));
  say(e.children[0], item.Kind ? item.Kind + ' ' : '');
  say(e.children[1], item.Key);
}

const ruleOf = item => latest().byName.get(JSON.stringify([item.Limiter, item.Rule]));

const shownAtFirst = 8;

// part returns what of a list is shown, and says on its button what else there is.
function part(list, which, button) {
  button.hidden = list.length <= shownAtFirst;
  say(button, all[which] ? 'Show ' + shownAtFirst : 'Show all ' + list.length);
  return all[which] ? list : list.slice(0, shownAtFirst);
}

// openKey makes what can be done about the key of the row that is chosen.
function openKey(row, item) {
  row.acts = el('div', {class: 'acts'});
  row.inside.append(row.acts);
  if (!item.ID) {
    row.acts.append(el('span', {class: 'hint'}, 'The page cannot look this key up: it is too long, or its limiter is not known here.'));
    return;
  }
  row.acts.append(button('Why?', 'Why is ' + keyText(item) + ' denied?', () => why({ID: item.ID}, keyText(item))));
  if (session.MayChange && !ruleOf(item)?.Concurrent) row.acts.append(button('Forgive', 'Forgive ' + keyText(item) + ' under rule ' + item.Rule, () => forgiveDialog(item)));
}

function showTop() {
  const s = latest();
  say($('top-hint'), s.Top.length === 0 ? 'No key was denied of late.' :
    (s.Spread ? 'Denials are spread over so many keys that this list says little. ' : '') + 'Since ' + clock(s.TopSince) + (s.Skipped ? '; ' + count(s.Skipped) + ' denials were too quick to be listed' : '') + '.');
  $('top-table').hidden = s.Top.length === 0;
  rows($('top-table'), part(s.Top, 'top', $('more-top')), t => JSON.stringify([t.Limiter, t.Rule, t.Mode, t.ID || t.Key]), (row, t) => {
    cell(row, 'key', 'Key', 'key').append(picker(row, $('top-table'), showTop));
    cell(row, 'rule', 'Rule');
    cell(row, 'count', 'Denials', 'n');
  }, (row, t) => {
    sayKey(row.picker, t);
    say(row.cells_.rule, ruleName(t.Limiter, t.Rule) + (t.Mode === 'shadow' ? ' (would be denied)' : ''));
    row.cells_.rule.className = t.Mode === 'shadow' ? 'rule warm' : 'rule';
    say(row.cells_.count, (t.Error ? '≤ ' : '') + count(t.Count) + (t.Error ? ', ≥ ' + count(t.Count - t.Error) : ''));
  }, {make: openKey, fill() {}});
}

// groupsOf returns the denials by key and rule. What was denied just now is in the order of
// numbers, so that rows do not change places with each denial; what is older, by time.
function groupsOf(list) {
  const groups = new Map();
  for (const d of list) {
    const key = JSON.stringify([d.Limiter, d.Rule, d.ID || d.Key]), group = groups.get(key);
    if (group) group.list.push(d);
    else groups.set(key, {...d, key, list: [d]});
  }
  const now = latest().At, age = g => Math.max(0, Math.floor((now - g.list[0].At) / 10e3));
  return [...groups.values()].sort((a, b) => age(a) - age(b) || b.list.length - a.list.length || (a.key < b.key ? -1 : 1));
}

function showDenials() {
  const groups = groupsOf(denials), table = $('denial-table');
  say($('denial-hint'), denials.length === 0 ? 'None within the last hour.' :
    'The last ' + count(denials.length) + ', by key and rule. None is older than ' + clock(denials.at(-1).At) + '.');
  table.hidden = denials.length === 0;
  rows(table, part(groups, 'denials', $('more')), g => g.key, (row, g) => {
    cell(row, 'key', 'Key', 'key').append(picker(row, table, showDenials));
    cell(row, 'rule', 'Rule');
    cell(row, 'count', 'Denials', 'n');
    cell(row, 'last', 'Last', 'n');
  }, (row, g) => {
    sayKey(row.picker, g);
    say(row.cells_.rule, ruleName(g.Limiter, g.Rule));
    say(row.cells_.count, count(g.list.length));
    say(row.cells_.last, clock(g.list[0].At));
  }, {make: openGroup, fill: fillGroup});
}

const singles = [['Time', d => clock(d.At)], ['Cost', d => count(d.Cost)], ['Left', d => count(d.Remaining)], ['Retry after', d => waitInTable(d.RetryAfter)]];

// openGroup makes a list of the single denials of a key.
function openGroup(row, g) {
  row.about = el('p', {class: 'hint'});
  row.list = tableOf(singles.map(([label]) => [label, 'n']));
  row.more = el('button', {type: 'button'});
  row.more.addEventListener('click', () => {
    all.single = !all.single;
    showDenials();
  });
  all.single = false;
  row.inside.append(row.about);
  openKey(row, g);
  row.inside.append(row.list, row.more);
}

// tally returns the values in a list, and how many there are of each if there are several.
function tally(values) {
  const counts = new Map();
  for (const v of values) counts.set(v, (counts.get(v) ?? 0) + 1);
  return [...counts].map(([v, n]) => counts.size > 1 ? v + ' (' + count(n) + ')' : v).join(', ');
}

function fillGroup(row, g) {
  const seen = new Map(), list = part(g.list, 'single', row.more).map(d => {
    const key = [d.At, d.Cost, d.Remaining, d.RetryAfter].join();
    seen.set(key, (seen.get(key) ?? 0) + 1);
    return {...d, key: key + ' ' + seen.get(key)};
  });
  say(row.about, 'Limit: ' + tally(g.list.map(d => d.Limit)) + '. Decided by: ' + tally(g.list.map(d => sourceName(d.Source))) + '.');
  rows(row.list, list, d => d.key, (line, d) => {
    for (const [label, text] of singles) say(cell(line, label, label, 'n'), text(d));
  }, () => {});
}

// tableOf returns a table with a head and no rows.
function tableOf(head) {
  return el('table', {role: 'table'}, el('thead', {role: 'rowgroup'}, el('tr', {role: 'row'}, ...head.map(([text, kind]) => el('th', {role: 'columnheader', scope: 'col', class: kind || null}, text || el('span', {class: 'hidden'}, 'Actions'))))), el('tbody', {role: 'rowgroup'}));
}

for (const [id, which, draw] of [['more-top', 'top', showTop], ['more', 'denials', showDenials]]) {
  $(id).addEventListener('click', () => {
    all[which] = !all[which];
    draw();
  });
}

/* Why? */

const form = $('ask'), field = name => form.elements[name];

// options makes the options of a select, and keeps what is chosen.
function options(select, list) {
  const text = JSON.stringify(list);
  if (select.made === text) return;
  select.made = text;
  const chosen = select.value;
  select.replaceChildren(...list.map(([value, label]) => el('option', {value}, label)));
  if (list.some(([value]) => value === chosen)) select.value = chosen;
}

function showForm() {
  const inForce = latest().Rules.filter(r => r.Ours);
  const limiters = [...new Set(inForce.map(r => r.Limiter))];
  options(field('limiter'), limiters.map(l => [l, l]));
  $('ask-limiter').hidden = limiters.length < 2;
  options(field('rule'), [['', 'all rules'], ...inForce.filter(r => r.Limiter === field('limiter').value).map(r => [r.Name, r.Name])]);
  const request = [...field('about')].find(b => b.value === 'request');
  request.disabled = !(session.Explains ?? []).includes(field('limiter').value);
  $('no-request').hidden = !request.disabled;
  if (request.disabled && request.checked) field('about')[0].checked = true;
  $('ask-key').hidden = field('about').value !== 'key';
  $('ask-request').hidden = field('about').value !== 'request';
}

form.addEventListener('change', () => { if (kept.length && session) showForm(); });
form.addEventListener('submit', event => {
  event.preventDefault();
  if (!session) return;
  const text = name => field(name).value;
  if (field('about').value === 'key') {
    why({Limiter: text('limiter'), Rule: text('rule'), Key: text('key'), Limit: text('limit').trim()}, text('key') || 'a request without a key');
    return;
  }
  const headers = text('headers').split('\n').filter(line => line.trim()).map(line => {
    const at = line.indexOf(':');
    return at < 0 ? [line, ''] : [line.slice(0, at), line.slice(at + 1)];
  });
  const request = {Method: text('method').trim(), Path: text('path').trim(), Host: text('host').trim(), Address: text('address').trim(), Route: text('route').trim(), Headers: headers};
  why({Limiter: text('limiter'), Request: request}, request.Method + ' ' + request.Path);
});

let asked = 0;

async function why(question, about) {
  const mine = ++asked; // an answer that comes after that of a later question is dropped
  const out = $('reply'), heading = el('h3', {tabindex: '-1'}, about);
  try {
    const reply = await ask('api/explain', question);
    if (mine !== asked) return;
    const said = reply.Verdict ? {allowed: 'It would be allowed.', denied: 'It would be denied' + (reply.Binding ? ' by rule ' + reply.Binding : '') + '.', unavailable: 'It would be answered 503.'}[reply.Verdict] ?? reply.Verdict : '';
    out.replaceChildren(heading, said ? el('p', {class: 'headline ' + (reply.Verdict === 'allowed' ? '' : reply.Verdict === 'denied' ? 'denies' : 'broken')}, said) : '', reply.Error ? el('p', {class: 'lost'}, reply.Error) : '', replyTable(reply.Rules ?? []), reply.Verdict ? '' : unusedHint(reply.Rules ?? []));
  } catch (e) {
    if (mine !== asked) return;
    out.replaceChildren(heading, el('p', {class: 'lost'}, e.message));
  }
  heading.focus();
}

function verdictText(v) {
  if (!v.Matches) return 'does not apply: ' + v.Why;
  if (!v.Counted) return v.Why || 'not counted';
  const share = v.Mode.startsWith('enforce ') ? v.Mode.slice('enforce '.length) : '';
  const shadow = share ? ' (if this key is among the ' + share + ' for whom it is enforced)' : v.Mode === 'enforce' || v.Mode === '' ? '' : ' (' + v.Mode + ')';
  return (v.Allowed ? 'allows' : (v.Mode === 'shadow' ? 'would deny' : 'denies') + ', retry after ' + wait(v.RetryAfter)) + shadow;
}

// unusedHint says so if no rule has counted anything for a key: it may be written otherwise
// than the key function writes it, and "allows" would mislead.
function unusedHint(list) {
  const counted = list.filter(v => v.Matches && v.Counted);
  if (!counted.length || counted.some(v => !v.Allowed || v.ResetAfter !== 0)) return '';
  return el('p', {class: 'hint'}, 'Nothing is counted for this key now. If you expect otherwise, is it written as the rule’s key function returns it, such as user:ann, or the digest of a credential?');
}

function replyTable(list) {
  const head = [['Rule', ''], ['Says', ''], ['Left', 'n'], ['Full again in', 'n'], ['Limit', ''], ['Key', ''], ['Decided by', ''], ['', '']];
  const table = tableOf(head);
  for (const v of list) {
    const row = el('tr', {role: 'row'});
    row.cells_ = {};
    const numbers = v.Matches && v.Counted;
    cell(row, 'name', '', '', 'th').append(v.Rule);
    const says = cell(row, 'says', 'Says', 'says' + (v.Matches ? (v.Counted && !v.Allowed ? v.Mode === 'shadow' ? ' warm' : ' hot' : '') : ' none'));
    say(says, verdictText(v));
    say(cell(row, 'left', 'Left', 'n'), numbers ? count(v.Remaining) : '');
    say(cell(row, 'reset', 'Full again in', 'n'), numbers ? wait(v.ResetAfter) : '');
    say(cell(row, 'limit', 'Limit', 'limit'), v.Limit);
    sayKey(cell(row, 'key', 'Key', 'key'), v.Matches ? v : {Kind: '', Key: ''});
    say(cell(row, 'source', 'Decided by'), numbers ? sourceName(v.Source) : '');
    const acts = el('div', {class: 'acts'});
    if (v.ID && session.MayChange) acts.append(button('Forgive', 'Forgive ' + keyText(v) + ' under rule ' + v.Rule, () => forgiveDialog(v)));
    cell(row, 'acts', '', 'wide').append(acts);
    table.tBodies[0].append(row);
  }
  return table;
}

/* Changes */

const dialog = $('dialog');
let doing = null; // what the dialog does when it is confirmed
let opener = null;

function open(title, text, fields, verb, act) {
  opener = document.activeElement;
  say($('dialog-title'), title);
  say($('dialog-text'), text);
  $('dialog-fields').replaceChildren(...fields);
  say($('dialog-do'), verb);
  $('dialog-do').disabled = false;
  $('dialog-error').hidden = true;
  doing = act;
  dialog.showModal();
}

dialog.addEventListener('close', () => { if (opener && opener.isConnected) opener.focus(); });
$('dialog-cancel').addEventListener('click', () => dialog.close());
$('dialog-form').addEventListener('submit', async event => {
  event.preventDefault();
  $('dialog-do').disabled = true;
  try {
    toast((await doing()).Done);
    dialog.close();
    poll();
  } catch (e) {
    say($('dialog-error'), e.message);
    $('dialog-error').hidden = false;
  }
  $('dialog-do').disabled = false;
});

let toastTimer = 0;

function toast(text) {
  say($('toast'), text);
  $('toast').hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { $('toast').hidden = true; }, 6000);
}

const whyField = () => el('input', {name: 'why', maxlength: '200', placeholder: 'for whoever reads this later'});
const labelled = (text, input) => el('label', {}, text, input);

function timeField() {
  return el('select', {name: 'minutes'}, ...[[15, '15 minutes'], [60, 'an hour'], [240, '4 hours'], [1440, 'a day']].map(([m, text]) => el('option', {value: m, ...(m === 60 ? {selected: ''} : {})}, text)));
}

function modeField(mode) {
  const modes = ['enforce', 'enforce 75%', 'enforce 50%', 'enforce 25%', 'enforce 10%', 'enforce 1%', 'shadow', 'disabled'];
  if (!modes.includes(mode)) modes.unshift(mode);
  return el('select', {name: 'mode'}, ...modes.map(m => el('option', {value: m, ...(m === mode ? {selected: ''} : {})}, m)));
}

const here = () => 'On ' + session.Instance + ' only. ';

function changeDialog(what, r) {
  const reason = whyField(), at = {Limiter: r.Limiter, Rule: r.Name};
  if (what === 'clear') {
    open('End the change of ' + r.Name, here() + 'The rule is then as it was given: ' + [r.GivenLimit, r.GivenMode].filter(t => t).join(', ') + '.', [labelled('Why', reason)], 'End the change', () => ask('api/clear', {...at, Why: reason.value}));
    return;
  }
  const time = timeField();
  const value = what === 'mode' ? modeField(r.Mode) : el('input', {name: 'limit', value: r.Limit, spellcheck: 'false', required: ''});
  const text = here() + 'It ends by itself' + (latest().Policy ? ', and outranks the policy file until then' : '') + '. Given: ' + (what === 'mode' ? r.GivenMode : r.GivenLimit) + '.';
  open((what === 'mode' ? 'Mode of ' : 'Limit of ') + r.Name, text, [labelled(what === 'mode' ? 'Mode' : 'Limit', value), labelled('For', time), labelled('Why', reason)], 'Change',
    () => ask('api/' + what, {...at, [what === 'mode' ? 'Mode' : 'Limit']: value.value.trim(), Minutes: +time.value, Why: reason.value}));
}

function forgiveDialog(item) {
  const reason = whyField();
  open('Forgive ' + keyText(item), 'The key starts afresh under rule ' + item.Rule + ', wherever its state is kept: for all instances if that is a shared backend.', [labelled('Why', reason)], 'Forgive', () => ask('api/forgive', {ID: item.ID, Why: reason.value}));
}

poll();
