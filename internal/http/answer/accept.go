package answer

import "strings"

// maxAccept bounds the length of Accept, all lines together. A client that sends more gets the
// default.
const maxAccept = 512

// PrefersText reports whether a client asks for text/plain rather than JSON by its Accept fields.
//
// It departs from the weights of RFC 9110, section 12.5.1, on purpose, as a server may: a client
// that names a type of JSON can read JSON, whatever it thinks of "*/*". Package managers send
// "application/json; q=0.8, */*" after a JSON type of their own. So "*/*" speaks for text only if
// JSON is refused (q=0), and any type that ends in +json is JSON. Where the client names text, too,
// the higher weight wins, and equal weights mean JSON. A range whose weight cannot be read is
// ignored.
func PrefersText(accept []string) bool {
	if len(accept) == 1 && accept[0] == "*/*" { // most programs send this; saves 5% of a denial
		return false
	}
	text, json := preference{}, preference{}
	room := maxAccept + 1
	for _, line := range accept {
		if room -= len(line) + 1; room < 0 { // 1 for the comma that joins two lines
			return false
		}
		for line != "" {
			var element string
			element, line, _ = strings.Cut(line, ",")
			name, params, _ := strings.Cut(element, ";")
			name = strings.TrimSpace(name)
			q, ok := weight(params)
			if !ok {
				continue
			}
			switch {
			case name == "*/*":
				text.offer(1, q)
				json.offer(1, q)
			case !strings.HasSuffix(name, "*") && !endsInN(name): // saves a quarter for browsers
			case strings.EqualFold(name, "text/*"):
				text.offer(2, q)
			case strings.EqualFold(name, "application/*"):
				json.offer(2, q)
			case strings.EqualFold(name, "text/plain"):
				text.offer(3, q)
			case strings.EqualFold(name, "application/json"), strings.EqualFold(name,
				"application/problem+json"):
				json.offer(3, q)
			case q > 0 && isJSON(name): // to refuse another type is not to refuse what weir sends
				json.offer(3, q)
			}
		}
	}
	return text.weight > json.weight && (text.specific > 1 || json.weight == 0)
}

// endsInN reports whether name ends as text/plain and types of JSON do.
func endsInN(name string) bool { return name != "" && name[len(name)-1]|0x20 == 'n' }

// isJSON reports whether a type that weir does not send is JSON (RFC 6839, section 3.1).
func isJSON(name string) bool {
	const suffix = "+json"
	n := len(name) - len(suffix)
	return n >= 0 && strings.EqualFold(name[n:], suffix) || strings.EqualFold(name, "text/json")
}

// preference is the weight of a media type: that of the most specific media range so far that
// includes it.
type preference struct{ specific, weight int }

func (p *preference) offer(specific, weight int) {
	if specific > p.specific || specific == p.specific && weight > p.weight {
		*p = preference{specific, weight}
	}
}

// weight returns the q parameter in thousandths, or 1000 without one. It reports false if q is no
// weight.
func weight(params string) (int, bool) {
	for params != "" {
		var param string
		param, params, _ = strings.Cut(params, ";")
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if strings.EqualFold(name, "q") {
			return thousandths(value)
		}
	}
	return 1000, true
}

// thousandths parses a number from 0 to 1 with up to three decimals.
func thousandths(s string) (int, bool) {
	if s == "" || s[0] < '0' || s[0] > '1' || len(s) > 5 || len(s) > 1 && s[1] != '.' {
		return 0, false
	}
	n := int(s[0]-'0') * 1000
	scale := 100
	for i := 2; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n += int(s[i]-'0') * scale
		scale /= 10
	}
	return n, n <= 1000
}
