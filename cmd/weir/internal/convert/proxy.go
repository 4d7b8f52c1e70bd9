package convert

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// proxy is what nginx limits: servers with locations, in which zones count.
type proxy struct {
	findings
	title    string // what it was converted from
	zones    []*zone
	servers  []*server
	note     string // on all rules
	client   string // how addresses are found; "": nothing counts by address
	clientOf string // where it is from
	clientAt Place
	statuses []int // of denials
}

// zone is a zone of limit_req_zone or limit_conn_zone.
type zone struct {
	at          Place
	name        string
	text        string // the directive
	connections bool
	rate        int64 // thousandths of a request a second
	key         *key  // nil: it cannot be kept, which is reported
}

// key is what a zone counts by.
type key struct {
	text      string   // in the words of a policy
	address   bool     // it reads the address of the client
	absent    bool     // a request may lack it
	perServer bool     // each server counts apart
	exempt    string   // the name of a list of addresses that do not count; "": none
	methods   []string // of requests that count; nil: all
	others    []string // methods of requests that do not count
}

// list is a list of addresses that do not count.
type list struct {
	name, text string // text is where it is from
	networks   []netip.Prefix
}

// use is a directive by which a zone counts in a location.
type use struct {
	at    Place
	zone  *zone
	text  string // the directive
	burst int64
	delay int64 // requests that do not wait; always: all
	most  int64 // connections
	dry   bool
}

// always is the delay of a limit_req with nodelay.
const always = -1

// limit returns the limit of u in a policy, and how many of its units do not wait.
func (u *use) limit() (text string, noDelay int64) {
	if u.zone.connections {
		return fmt.Sprintf("concurrent %d", u.most), 0
	}
	rate := rateText(u.zone.rate)
	if u.delay == always || u.delay >= u.burst {
		return fmt.Sprintf("token-bucket %s burst %d", rate, u.burst+1), 0
	}
	return fmt.Sprintf("leaky-queue %s capacity %d", rate, u.burst+1), u.delay
}

// rateText returns a rate of thousandths of a request a second, exactly.
func rateText(rate int64) string {
	switch {
	case rate%1000 == 0:
		return fmt.Sprintf("%d/second", rate/1000)
	case rate*60%1000 == 0:
		return fmt.Sprintf("%d/minute", rate*60/1000)
	}
	a, b := rate, int64(1000)
	for b > 0 {
		a, b = b, a%b
	}
	return fmt.Sprintf("%d/%ds", rate/a, 1000/a)
}

// sign returns a text that is equal for equal limits.
func sign(uses []*use) string {
	texts := make([]string, len(uses))
	for i, u := range uses {
		limit, noDelay := u.limit()
		texts[i] = fmt.Sprint(u.zone.name, " ", limit, " ", noDelay, " ", u.dry)
	}
	slices.Sort(texts)
	return strings.Join(texts, "; ")
}

// denies notes a status by which nginx denies.
func (p *proxy) denies(status int, at Place) {
	if slices.Contains(p.statuses, status) {
		return
	}
	p.statuses = append(p.statuses, status)
	if status != http.StatusTooManyRequests {
		p.warn(at, "nginx denies with %d, and weir with 429 and Retry-After: change what looks "+
			"for %[1]d", status)
	}
}

// warnOf warns of what weir does otherwise than nginx for the limits of a server.
func (p *proxy) warnOf(s *server) {
	for _, l := range s.locations {
		requests, connections := false, (*use)(nil)
		for _, u := range l.uses {
			if u.zone.connections {
				connections = u
			} else {
				requests = true
			}
		}
		if connections == nil {
			continue
		}
		p.warn(connections.at, "weir serve refuses this rule, since a check does not see the end "+
			"of a request: "+
			"keep limit_conn in your proxy and remove the rule, or let a program in Go have the "+
			"policy")
		if requests {
			p.warn(connections.at, "nginx has counted a request under limit_req when limit_conn "+
				"denies it, and "+
				"weir counts no request that it denies")
		}
	}
}

// first returns a place of p.
func (p *proxy) first() Place {
	if len(p.zones) > 0 {
		return p.zones[0].at
	}
	return Place{File: p.title, Line: 1, Column: 1}
}
