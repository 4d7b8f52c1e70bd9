// What is set up: in the form, and in the address of the page, so that it can be shared.

const form = document.getElementById('setup');
const fields = ['limit', 'traffic', 'rate', 'size', 'script', 'cost', 'values', 'lasts', 'retry', 'span'];
const defaults = Object.fromEntries(fields.map(name => [name, form.elements[name].value]));

// read returns the setup of an address.
export function read(search) {
  const query = new URLSearchParams(search);
  const state = { ...defaults, seed: query.get('seed') ?? '', panels: query.getAll('panel').filter(text => text.trim()), speed: query.get('speed') ?? '1' };
  for (const name of fields) state[name] = query.get(name) ?? defaults[name];
  return state;
}

// address returns the address of a setup: what is not as it is anyway.
export function address(state) {
  const query = new URLSearchParams();
  for (const text of state.panels) query.append('panel', text);
  for (const name of fields) if (state[name] !== defaults[name] && !(name === 'limit' && state.panels.length)) query.set(name, state[name]);
  if (state.seed) query.set('seed', state.seed);
  if (state.speed !== '1') query.set('speed', state.speed);
  const text = query.toString();
  return text ? `?${text}` : './';
}

// show writes a setup into the form.
export function show(state) {
  for (const name of fields) form.elements[name].value = state[name];
  if (state.panels.length) form.elements.limit.value = ''; // each has its own
  form.elements.size.disabled = state.traffic !== 'burst';
  form.elements.rate.disabled = state.traffic === 'click' || state.traffic === 'script';
  document.getElementById('script').hidden = state.traffic !== 'script';
  const here = new URLSearchParams(address(state)).toString();
  let chosen = null;
  for (const link of document.querySelectorAll('.presets a[data-about]')) {
    const same = new URLSearchParams(address(read(link.search))).toString() === here;
    if (same) { link.setAttribute('aria-current', 'true'); chosen = link; } else link.removeAttribute('aria-current');
  }
  showAbout(chosen);
}

// showAbout says what the chosen link shows, and which program has these limits.
function showAbout(link) {
  const about = document.getElementById('about');
  about.textContent = link ? link.dataset.about : 'Limits and requests of your own.';
  if (!link?.dataset.program) return;
  const path = `examples/systems/${link.dataset.program}`;
  const program = Object.assign(document.createElement('a'), { href: `https://github.com/weir-go/weir/tree/main/${path}`, rel: 'noreferrer', textContent: path });
  about.append(' The program: ', program, '.');
}

// fromForm returns state with what the form says.
export function fromForm(state) {
  const changed = { ...state };
  for (const name of fields) changed[name] = form.elements[name].value;
  if (!changed.limit.trim()) changed.limit = state.limit;
  else if (state.panels.length || changed.limit !== state.limit) changed.panels = [];
  return changed;
}

// showMistakes writes what the engine says is wrong.
export function showMistakes(mistakes) {
  for (const name of fields) {
    for (const input of [form.elements[name]].flat()) if (input.setAttribute) input.setAttribute('aria-invalid', name in mistakes);
  }
  if (fields.some(name => name in mistakes)) unfold(true);
  document.getElementById('mistake').textContent = fields.filter(name => name in mistakes).map(name => `${name}: ${mistakes[name]}`).join(' ');
}

// unfold shows or hides the form where it would fill a telephone.
export function unfold(is) {
  document.getElementById('choices').classList.toggle('unfolded', is);
  document.getElementById('unfold').setAttribute('aria-expanded', is);
}
