package conform

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// useUp uses up the limit of a client, and returns all answers, the last of which is the denial. o is the
// outcome of the check if that fails.
func useUp(t *trial, c *client) (answers []exchange, o outcome, ok bool) {
	t.afterTurn(t.profile.period() / 2)
	answers, denied := c.exhaust()
	if !denied {
		return answers, t.undeniable(answers), false
	}
	return answers, outcome{}, true
}

// whileDenied sends a request right after a client was denied. A unit may come back in between, so it
// tries several times until the request is not admitted.
func whileDenied(t *trial, c *client, q request) (x exchange, o outcome, ok bool) {
	p := t.profile
	var history []exchange
	over, sure, first := time.Duration(0), 0, 0 // denial
	for i := range 5 {
		// A limit of the request's own must not be used up.
		if i > 0 && i%p.burst() == 0 {
			t.sleep(2*p.period() + p.drain() + t.draw(p.period()))
		}
		answers, o, ok := useUp(t, c)
		if !ok {
			return x, o, false
		}
		if x = c.do(q); !x.admitted() {
			return x, outcome{}, true
		}
		if history = append(history, answers...); first == 0 {
			first = len(history) - 1
		}
		denial := &answers[len(answers)-1]
		if over = max(over, x.answered.Sub(denial.sent)); !t.mayFree(history, denial.sent, x.answered) {
			sure++
		}
		history = append(history, x)
	}
	least := 3
	if t.knowsTurns() && p.isSteady() {
		least = 1
	}
	since := history[first:]
	if p.Named && !p.isSteady() && count(since).admitted > p.refill(took(since))+2 {
		return x, outcome{}, true // more than have come back since, and one for a rounded window
	}
	if sure < least {
		return x, skips("two requests took %s, too long to tell", seconds(over)), false
	}
	return x, outcome{}, true
}

// countTogether checks that other forms of a client count with it: each is denied once the client is.
func countTogether(t *trial, forms []form) outcome {
	names := make([]string, len(forms))
	for i, f := range forms {
		x, o, ok := whileDenied(t, f.of, request{header: f.header})
		switch {
		case !ok:
			return o
		case x.admitted():
			return fails("%s is admitted where its client is denied: it has a limit of its own", f.name)
		}
		names[i] = f.name
	}
	return holds("counted with their client: %s", strings.Join(names, "; "))
}

// form is another way to write a request of a client.
type form struct {
	name   string
	header http.Header
	of     *client
}

// checkApart uses up a key and sends with similar ones.
func checkApart(t *trial) outcome {
	if !t.profile.manyKeys() {
		return skips("the server has one limit for all its clients")
	}
	base := t.client()
	similar := []*client{t.client()}
	if t.profile.Key.From == FromHeader {
		base = t.named(t.prefix + "keyAa")
		similar = nil
		// In Java Aa and BB have one hash code.
		for _, key := range []string{"KeyAa", "KEYAA", "keyaa", "keyAa2", "keyA", "keyAa_", "keyAa%20", "kéyAa", "keyBB"} {
			similar = append(similar, t.named(t.prefix+key))
		}
	}
	if _, o, ok := useUp(t, base); !ok {
		return o
	}
	for _, c := range similar {
		if x := c.get(); x.denied() {
			return fails("a key is denied that was never used: %q, after %q was", c.shown(), base.shown())
		} else if x.err != nil {
			return fails("a request with the key %q is not answered: %v", c.shown(), x.err)
		}
	}
	return holds("%d keys that are similar to one that is used up are admitted", len(similar))
}

// checkSpelling writes one address in several ways.
func checkSpelling(t *trial) outcome {
	field := t.profile.Key.Field
	if t.profile.Key.From != FromForwarded {
		return skips("only a key that is an address in a field has spellings")
	}
	n := t.random.IntN(1 << 16)
	four := addressIn(10, t.firstAddress+uint64(n))
	six := fmt.Sprintf("2001:db8:%x::1", n+1)
	full := fmt.Sprintf("2001:0DB8:%04X:0000:0000:0000:0000:0001", n+1)
	return countTogether(t, []form{
		{"::ffff:" + four.String(), http.Header{field: {"::ffff:" + four.String()}}, t.named(four.String())},
		{full, http.Header{field: {full}}, t.named(six)},
	})
}

// forgeable are fields from which servers take the address of a client.
var forgeable = []string{"X-Forwarded-For", "X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Client-Ip",
	"Fastly-Client-Ip", "X-Cluster-Client-Ip"}

// checkForged sends what a client may invent about its address.
func checkForged(t *trial) outcome {
	const other = "203.0.113.77"
	var forms []form
	add := func(c *client, name string, field string, lines ...string) {
		forms = append(forms, form{name, http.Header{field: lines}, c})
	}
	switch t.profile.Key.From {
	case FromAddress:
		c := t.client()
		for _, name := range forgeable {
			add(c, name, name, other)
		}
		add(c, "Forwarded", "Forwarded", "for="+other)
		if c.address.IsValid() {
			own := c.address.String()
			add(c, "X-Forwarded-For with an address on the left", "X-Forwarded-For", other+", "+own)
			add(c, "X-Forwarded-For with an address on the right", "X-Forwarded-For", own+", "+other)
		}
	case FromForwarded:
		c := t.client()
		field := t.profile.Key.Field
		add(c, field+" with an address on the left", field, other+", "+c.key)
		add(c, field+" with a line before", field, other, c.key)
		add(c, field+" with no address on the left", field, "unknown, "+c.key)
	default:
		return skips("the key is no address")
	}
	return countTogether(t, forms)
}

// checkIPv6 sends from addresses of one /64.
func checkIPv6(t *trial) outcome {
	switch t.profile.Key.From {
	case FromForwarded:
	case FromAddress:
		return skips("this machine has one address of IPv6, so the key would have to be an address in a field")
	default:
		return skips("the key is no address")
	}
	network := fmt.Sprintf("2001:db8:%x:1:", t.random.IntN(1<<15)+1<<15)
	const members = 4
	var answers []exchange
	for i := range members {
		some, denied := t.named(fmt.Sprintf("%s:%x", network, i+1)).exhaust()
		if !denied && i == 0 {
			return t.undeniable(some)
		}
		answers = append(answers, some...)
	}
	p, admitted, over := t.profile, count(answers).admitted, took(answers)
	switch together := p.burst() + p.units(); {
	case admitted <= together:
		return holds("%d addresses of a /64 have %d admitted together", members, admitted)
	case admitted <= together+int(int64(over)*int64(p.units())/int64(p.period())):
		return skips("%d addresses of a /64 have %d admitted within %s, too slow to tell whether together", members,
			admitted, seconds(over))
	}
	return bound("%d addresses of a /64 have %d admitted together: each has a limit of its own, and who has a /64 has "+
		"2^64 addresses", members, admitted)
}

// checkEmpty sends without a key, and with an empty one.
func checkEmpty(t *trial) outcome {
	if t.profile.Key.From != FromHeader {
		return skips("every request has an address")
	}
	var texts []string
	for _, f := range []struct {
		name   string
		header http.Header
	}{{"no " + t.profile.Key.Field, nil}, {"an empty " + t.profile.Key.Field,
		http.Header{t.profile.Key.Field: {""}}}} {
		n := 3*t.profile.burst() + 3
		answers := make([]exchange, 0, n)
		c := t.named("")
		t.afterTurn(t.profile.period() / 2)
		for range n {
			answers = append(answers, c.do(request{header: f.header}))
		}
		got := count(answers)
		most := 2*t.profile.burst() + t.profile.units()*int(took(answers)/t.profile.period()+1)
		switch {
		case got.admitted == 0:
			texts = append(texts, fmt.Sprintf("with %s every request is refused (%s)", f.name, &answers[0]))
		case got.denied > 0:
			texts = append(texts, fmt.Sprintf("with %s %d of %d are admitted", f.name, got.admitted, n))
		case n <= most:
			return skips("%d requests took %s, too slow to be denied", n, seconds(took(answers)))
		default:
			return fails("with %s all of %d requests are admitted: who sends no key has no limit", f.name, n)
		}
		t.sleep(t.profile.period())
	}
	return holds("%s", strings.Join(texts, ", "))
}

// checkLong sends keys of 10 kB that differ in their last character.
func checkLong(t *trial) outcome {
	if t.profile.Key.From != FromHeader {
		return skips("an address has at most 45 characters")
	}
	long := t.prefix + strings.Repeat("k", 10_000-len(t.prefix)-1)
	first, second := t.named(long+"1"), t.named(long+"2")
	x := first.get()
	if x.failed() {
		status := x.String()
		if y := t.client().get(); !y.admitted() {
			return fails("after a key of 10 kB, which is %s, a request with another key is %s", status, &y)
		}
		return holds("a request with a key of 10 kB is %s, and the server goes on", status)
	}
	if _, o, ok := useUp(t, first); !ok {
		return o
	}
	if x := second.get(); !x.admitted() {
		return fails("a key of 10 kB is %s that was never used: it differs in the last character from one that was", &x)
	}
	return holds("two keys of 10 kB that differ in the last character count apart")
}
