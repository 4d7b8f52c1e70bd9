package browsertest

// contrasts is a function of JavaScript that returns what falls short of WCAG 2.2, level AA: text
// below 4.5:1, or 3:1 where it is large (1.4.3), and the edges of fields below 3:1 (1.4.11).
// Controls that are disabled are exempt.
const contrasts = `(() => {
	const parse = text => { const n = text.match(/[\d.]+/g).map(Number); return text.startsWith('color(') ? [n[0] * 255, n[1] * 255, n[2] * 255, n[3] ?? 1] : [n[0], n[1], n[2], n[3] ?? 1]; };
	const over = (c, under) => [0, 1, 2].map(i => c[i] * c[3] + under[i] * (1 - c[3])).concat(1);
	const behind = e => {
		const layers = [];
		for (; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor));
		layers.push([...parse(getComputedStyle(document.documentElement).backgroundColor)]);
		const canvas = matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18, 1] : [255, 255, 255, 1];
		return layers.reduceRight((under, c) => over(c, under), canvas);
	};
	const luminance = c => [0.2126, 0.7152, 0.0722].reduce((sum, w, i) => { const v = c[i] / 255; return sum + w * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); }, 0);
	const ratio = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
	const faded = (e, c) => { let a = c[3]; for (; e; e = e.parentElement) a *= Number(getComputedStyle(e).opacity); return [c[0], c[1], c[2], a]; };
	const short = [];
	const check = (e, colour, least, what) => {
		const under = behind(e), got = ratio(over(faded(e, parse(colour)), under), under);
		if (got < least) short.push(what + ' has ' + got.toFixed(2) + ', wants ' + least);
	};
	for (const e of document.body.querySelectorAll('*')) {
		if (!e.checkVisibility({visibilityProperty: true}) || e.closest(':disabled, .hidden, svg, noscript') || e.closest('label')?.control?.disabled) continue;
		const style = getComputedStyle(e), size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
		if ([...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) check(e, style.color, large ? 3 : 4.5, JSON.stringify(e.textContent.trim().slice(0, 30)));
		if (!e.matches('input:not([type=radio], [type=checkbox], [type=range]), textarea, select')) continue;
		const name = e.name || e.id || e.getAttribute('aria-label');
		if (e.placeholder && !e.value) check(e, getComputedStyle(e, '::placeholder').color, 4.5, 'the placeholder of ' + name);
		else check(e, style.color, 4.5, 'the text of ' + name);
		check(e.parentElement, style.borderTopColor, 3, 'the edge of ' + name);
	}
	for (const e of document.querySelectorAll('svg text')) check(e.closest('svg').parentElement, getComputedStyle(e).fill, 4.5, 'the label ' + e.textContent);
	return [...new Set(short)].join('\n');
})()`

// readable reports what is hard to read, by day and by night.
func (b *tab) readable(what string) {
	b.Helper()
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		if short := value[string](b, contrasts); short != "" {
			b.Errorf("%s, %s: too little contrast:\n%s", what, scheme, short)
		}
	}
}
