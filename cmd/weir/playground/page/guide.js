// A short dialogue that ends in a limit, as a line of Go and of YAML.

const steps = {
  start: ['What do you want to limit?', [
    ['How many requests come in a time', 'burst'],
    ['How many requests run at once', 'concurrent'],
    ['Who fails too often, such as at a log-in', 'failures'],
    ['How many different values a client has, such as user names', 'distinct'],
  ]],
  failures: ['What about who goes on after a ban?', [
    ['A ban as long as the first', 'ban'],
    ['A ban twice as long, each time', 'growing-ban'],
  ]],
  burst: ['How may requests come?', [
    ['Any way, up to the number', 'window'],
    ['A few at once after a quiet time, then evenly', 'token-bucket'],
    ['At once, but they start evenly: let them wait', 'leaky-queue'],
  ]],
  window: ['May more than the number ever pass in one period?', [
    ['Somewhat, if that saves memory', 'sliding-window'],
    ['Never, wherever the period starts', 'sliding-log'],
    ['Yes: the count starts anew at set times, as a quota does', 'quota'],
  ]],
  quota: ['When does the count start anew?', [
    ['By the clock: with the minute, or at midnight UTC', 'fixed-window'],
    ['A period after the first request of each client', 'anchored-window'],
    ['By the calendar: with the month, in a time zone', 'calendar'],
  ]],
};

const reasons = {
  'concurrent': 'Counts requests from their start to their end. It protects what is slow: a database, a report.',
  'ban': 'Whoever reaches the number is denied everything for a time. Charge failures only.',
  'growing-ban': 'Typing errors cost a short ban, and guessing a long one. Charge failures only.',
  'distinct': 'The same value again costs nothing. It stops who tries many names, and who shares a key.',
  'token-bucket': 'A quiet client saves up to the burst; after that, requests pass at the rate.',
  'leaky-queue': 'Requests wait for their turn, so that what is behind it gets an even stream.',
  'sliding-window': 'The one to start with: a few bytes for each client, and no jump between two windows.',
  'sliding-log': 'Exact, and remembers each request. At most 10,000 in a period.',
  'fixed-window': 'Simple to explain and to bill. Around the turn of a window, twice the number may pass.',
  'calendar': 'As plans are sold: days, weeks, months and years have the length that the calendar gives them.',
  'anchored-window': 'As GitHub counts: each client has windows of its own. Twice the number may pass around their turn.',
};

const dialog = document.getElementById('guide'), box = document.getElementById('step'), path = document.getElementById('path');
let rate = '100/minute', quota = '10000/month', weir, use;

const element = (name, properties, ...children) => {
  const e = Object.assign(document.createElement(name), properties);
  e.append(...children);
  return e;
};

export function prepare(engine, take) {
  [weir, use] = [engine, take];
  const open = document.getElementById('open-guide');
  open.disabled = false;
  open.addEventListener('click', () => { ask([]); dialog.showModal(); focusFirst(); });
  document.getElementById('close-guide').addEventListener('click', () => dialog.close());
}

const focusFirst = () => box.querySelector('button, input')?.focus();

// ask goes on from the answers so far, each a question, an answer and where it leads.
function ask(answers) {
  const at = answers.at(-1)?.leads ?? 'start';
  path.replaceChildren(...answers.map((a, i) => {
    const again = element('button', { type: 'button', textContent: a.text });
    again.setAttribute('aria-label', `Change the answer: ${a.text}`);
    again.addEventListener('click', () => { ask(answers.slice(0, i)); focusFirst(); });
    return element('li', {}, again);
  }));
  if (!(at in steps)) return conclude(at);
  const [question, choices] = steps[at];
  box.replaceChildren(element('h3', { textContent: question }), ...choices.map(([text, leads]) => {
    const choice = element('button', { type: 'button', className: 'choice', textContent: text });
    choice.addEventListener('click', () => { ask([...answers, { text, leads }]); focusFirst(); });
    return choice;
  }));
}

function conclude(algorithm) {
  const { asks } = weir.choose(algorithm, '');
  const input = element('input', { value: asks === 'periods' ? quota : rate, spellcheck: false });
  const go = element('pre'), yaml = element('pre'), mistake = element('p', { className: 'mistake' });
  const show = element('button', { type: 'button', className: 'main', textContent: 'Try it here' });
  let limit = '';
  const update = () => {
    if (asks === 'periods') quota = input.value; else rate = input.value;
    const choice = weir.choose(algorithm, input.value);
    limit = choice.limit;
    mistake.textContent = choice.error;
    input.setAttribute('aria-invalid', choice.error !== '');
    go.textContent = choice.error ? ' ' : `Limit: ${choice.go},`;
    yaml.textContent = choice.yaml || ' ';
    show.disabled = choice.error !== '';
  };
  input.addEventListener('input', update);
  show.addEventListener('click', () => { dialog.close(); use(limit); });
  box.replaceChildren(element('h3', { textContent: algorithm.charAt(0).toUpperCase() + algorithm.slice(1).replaceAll('-', ' ') }), element('p', { textContent: reasons[algorithm] }),
    element('label', {}, asks === 'units' ? 'The number is the first of ' : 'Rate ', input), mistake,
    element('p', { className: 'soft', textContent: 'In Go' }), go, element('p', { className: 'soft', textContent: 'In a policy file' }), yaml, show);
  update();
}
