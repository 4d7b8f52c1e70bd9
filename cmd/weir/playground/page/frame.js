// Reads a frame of the engine. lab/frame.go says what is where.

const head = 6, perPanel = 2, perGauge = 7, perEvent = 11;

export const request = 0, turn = 1, probe = 2; // kinds of events
export const allowed = 1; // a verdict

export function readFrame(numbers) {
  const [now, lags, armed, panelCount, gaugeCount, eventCount] = numbers;
  let at = head;
  const panels = [], events = [];
  for (let i = 0; i < panelCount; i++, at += perPanel) panels.push({ allowed: numbers[at], denied: numbers[at + 1], gauges: [] });
  for (let i = 0; i < gaugeCount; i++, at += perGauge) {
    panels[numbers[at]].gauges.push({ remaining: numbers[at + 1], most: numbers[at + 2], level: numbers[at + 3], next: numbers[at + 4], delay: numbers[at + 5] });
  }
  for (let i = 0; i < eventCount; i++, at += perEvent) {
    events.push({ kind: numbers[at], panel: numbers[at + 1], at: numbers[at + 2], allowed: numbers[at + 3] === allowed, cost: numbers[at + 4], attempt: numbers[at + 5], retry: numbers[at + 6], delay: numbers[at + 7], before: numbers[at + 9], level: numbers[at + 10] });
  }
  return { now, lags: lags === 1, armed, panels, events };
}

// wait writes microseconds for a person.
export function wait(us) {
  if (us < 1000) return `${us} µs`;
  if (us < 1e6) return `${(us / 1000).toFixed(us < 1e4 ? 1 : 0)} ms`;
  if (us < 6e7) return `${(us / 1e6).toFixed(1)} s`;
  const minutes = Math.floor(us / 6e7);
  if (minutes < 60) return `${minutes} min ${Math.floor(us / 1e6) % 60} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

// clock writes an instant with all its microseconds.
export function clock(us) {
  const all = Math.floor(us / 36e8), days = all < 48 ? 0 : Math.floor(all / 24), hours = all - 24 * days, minutes = Math.floor(us / 6e7) % 60, text = String(us % 1e6).padStart(6, '0');
  return `${days ? `${days} d ` : ''}${all ? `${hours} h ` : ''}${us >= 6e7 ? `${minutes} min ` : ''}${Math.floor(us / 1e6) % 60}.${text.slice(0, 3)} ${text.slice(3)} s`;
}
