package simulate

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/address"
	"github.com/weir-go/weir/limits"
)

// request is a request of a log as the rules of a policy see it. It is reused for every line.
type request struct {
	entry   *accesslog.Entry
	http    http.Request
	url     url.URL
	headers []header // from the extras of entry
}

// header is a header field in the log.
type header struct {
	extra int
	name  string
	value []string
}

func newRequest(entry *accesslog.Entry, extras []string) *request {
	r := &request{entry: entry}
	r.http = http.Request{URL: &r.url, Header: make(http.Header), Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1,
		Body:       http.NoBody}
	for i, extra := range extras {
		if name, ok := strings.CutPrefix(extra, "header."); ok {
			r.headers = append(r.headers, header{i, name, make([]string, 1)})
		}
	}
	return r
}

func (r *request) forPolicy() *http.Request { return &r.http }

// set sets r from its entry. It reports whether a server would have accepted the request.
func (r *request) set() bool {
	e := r.entry
	r.http.Method, r.http.Host, r.http.RequestURI = e.Method, e.Host, e.Target
	for i := range r.headers {
		h := &r.headers[i]
		switch h.value[0] = e.Extra[h.extra]; {
		case h.value[0] == "":
			delete(r.http.Header, h.name)
		case strings.IndexByte(h.value[0], '\n') >= 0:
			r.http.Header[h.name] = strings.Split(h.value[0], "\n")
		default:
			r.http.Header[h.name] = h.value
		}
	}
	if strings.IndexByte(e.Target, '%') >= 0 {
		u, err := url.ParseRequestURI(e.Target)
		if err != nil {
			return false
		}
		r.url = *u
		return true
	}
	path, query, _ := strings.Cut(e.Target, "?")
	r.url = url.URL{Path: path, RawQuery: query}
	return true
}

// appendClient appends the key of the client, as in keyfuncs.Address.
func (r *request) appendClient(b []byte) []byte {
	return address.AppendKey(b, r.entry.Address, 64)
}

// item is a request of a log with its charges by the rules of all policies. Rules read a line once,
// however often it is decided.
type item struct {
	at, spread int64 // arrival in microseconds, in both readings of the log
	lasted     int64 // microseconds; −1: unknown
	bytes      int64
	client     uint32
	status     uint16
	n          uint8
	charges    [2]charge
	more       []charge
}

// charge is the charge by one rule.
type charge struct {
	rule  uint16 // index among all rules of all policies
	id    uint32 // number of the key
	key   string
	value uint32 // id of text, if the rule counts values
	text  string // the value
	cost  int64
	limit limits.Limit // limit by key; otherwise zero
	err   error
}

// charge returns the charge by a rule, or nil if the rule does not apply.
func (it *item) charge(rule int) *charge {
	for i := range min(int(it.n), len(it.charges)) {
		if int(it.charges[i].rule) == rule {
			return &it.charges[i]
		}
	}
	for i := range it.more {
		if int(it.more[i].rule) == rule {
			return &it.more[i]
		}
	}
	return nil
}

// each calls visit for every charge.
func (it *item) each(visit func(*charge)) {
	for i := range min(int(it.n), len(it.charges)) {
		visit(&it.charges[i])
	}
	for i := range it.more {
		visit(&it.more[i])
	}
}

func (it *item) add(c charge) {
	if int(it.n) < len(it.charges) {
		it.charges[it.n] = c
		it.n++
		return
	}
	it.more = append(it.more, c)
}

// read sets it from r.
func (it *item) read(r *request, rules []core.Rule[*request], keys *keys) {
	e := r.entry
	*it = item{
		at: e.At, spread: e.At, lasted: -1, bytes: e.Bytes, status: uint16(e.Status),
		more: it.more[:0],
	}
	if e.HasEnd {
		it.lasted = e.Lasted.Microseconds()
	}
	var buf [64]byte
	var kept string
	it.client, kept = keys.of(string(r.appendClient(buf[:0])))
	for i := range rules {
		rule := &rules[i]
		key, err := rule.Key(r)
		if err != nil {
			if errors.Is(err, core.ErrDoesNotApply) {
				continue
			}
			if errors.Is(err, core.ErrAbsent) {
				key, err = "", nil
			}
		}
		c := charge{rule: uint16(i), cost: 1, err: err}
		switch {
		case c.err != nil:
		case rule.LimitFor != nil:
			c.limit, c.err = rule.LimitFor(r, key)
		}
		if rule.Value != nil && c.err == nil {
			value, err := rule.Value(r)
			switch {
			case errors.Is(err, core.ErrDoesNotApply):
				continue
			case errors.Is(err, core.ErrAbsent):
			default:
				c.err = err
			}
			c.value, c.text = keys.of(value)
		}
		if rule.Cost != nil && c.err == nil {
			c.cost = rule.Cost(r)
		}
		if key == kept {
			c.id, c.key = it.client, kept
		} else {
			c.id, c.key = keys.of(key)
		}
		it.add(c)
	}
}
