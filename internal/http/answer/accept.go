package answer

import "strings"

// maxAccept bounds the length of Accept, all lines together. A client that sends more gets the
// default.
const maxAccept = 512

// PrefersText reports whether an Accept field (RFC 9110, section 12.5.1) gives
// text/plain a higher weight than JSON. Equal weights mean JSON.
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
			q := weight(params)
			switch {
			case name == "*/*":
				text.offer(1, q)
				json.offer(1, q)
			case strings.EqualFold(name, "text/*"):
				text.offer(2, q)
			case strings.EqualFold(name, "application/*"):
				json.offer(2, q)
			case strings.EqualFold(name, "text/plain"):
				text.offer(3, q)
			case strings.EqualFold(name, "application/json"), strings.EqualFold(name,
				"application/problem+json"):
				json.offer(3, q)
			}
		}
	}
	return text.weight > json.weight
}

// preference is the weight of a media type: that of the most specific media range so far that
// includes it.
type preference struct{ specific, weight int }

func (p *preference) offer(specific, weight int) {
	if specific > p.specific || specific == p.specific && weight > p.weight {
		*p = preference{specific, weight}
	}
}

// weight returns the q parameter in thousandths, or 1000 without one.
func weight(params string) int {
	for params != "" {
		var param string
		param, params, _ = strings.Cut(params, ";")
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if strings.EqualFold(name, "q") {
			return thousandths(value)
		}
	}
	return 1000
}

// thousandths parses a number from 0 to 1 with up to three decimals. Any other text is 0.
func thousandths(s string) int {
	if s == "" || s[0] < '0' || s[0] > '1' || len(s) > 5 || len(s) > 1 && s[1] != '.' {
		return 0
	}
	n := int(s[0]-'0') * 1000
	scale := 100
	for i := 2; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0
		}
		n += int(s[i]-'0') * scale
		scale /= 10
	}
	return min(n, 1000)
}
