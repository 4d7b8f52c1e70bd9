package accesslog

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/ground/address"
)

// clf reads the Common Log Format and its extensions: the fields of the combined format, and those
// that Traefik and Rack append. A virtual host may come first, as in Apache's vhost_combined. Each
// line may have a different subset.
//
//	192.0.2.7 - ann [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 512 "referer" "agent"
type clf struct {
	named   *clfKind // format named by Options; nil: detect per line
	options *Options
	clock   clfClock
	stamps  stamps
	extras  []clfColumn
	address clfColumn // of the client
	lasted  clfColumn
	host    clfColumn
	ends    bool     // stamps are the ends of requests
	guess   string   // the name that Options gives to a column of X-Forwarded-For, or ""
	cells   [][]byte // columns behind the known ones
}

type clfKind struct {
	name                           string
	vhost, combined, traefik, rack bool
}

// clfKinds are the formats of the family, those with more fields first.
var clfKinds = []clfKind{
	{name: "vhost-combined", vhost: true, combined: true},
	{name: "traefik-common", combined: true, traefik: true},
	{name: "combined", combined: true},
	{name: "vhost-common", vhost: true},
	{name: "rack", rack: true},
	{name: "common"},
}

// clfFormats are the rows of the table of formats. The parser of "common" finds all of them.
var clfFormats = func() (rows []format) {
	for i := range clfKinds {
		kind := &clfKinds[i]
		f := format{name: kind.name, auto: kind.name == "common",
			new: func(o *Options) (parser, error) { return newCLF(kind, o) }}
		if kind.rack {
			f.says = "Rack logs what the client wrote into X-Forwarded-For, where it wrote any, " +
				"in place of the address: a client counts as any address that it names. The " +
				"last of several counts."
		}
		rows = append(rows, f)
	}
	return rows
}()

// clfColumn is a column of a line: one of the constants, or extra and more.
type clfColumn int

const (
	clfNone clfColumn = iota
	clfUser
	clfReferer
	clfAgent
	clfVHost
	clfClient
	clfIdent
	clfExtra // extra.1, the first column behind the known ones
)

// clfColumns are the names of columns. Columns behind the known ones are extra.1, extra.2 and on.
var clfColumns = map[string]clfColumn{
	"user": clfUser, "referer": clfReferer, "agent": clfAgent, "user-agent": clfAgent,
	"host": clfVHost, "vhost": clfVHost, "address": clfClient, "ident": clfIdent,
}

// clfHeaders are the request headers of a combined line.
var clfHeaders = map[string]string{"Referer": "referer", "User-Agent": "agent"}

const clfKnown = "address, ident, user, referer, agent, vhost, http_x_forwarded_for, and extra.1, " +
	"extra.2 and on for columns behind these"

// newCLF returns a parser of one format of the family, or of all formats for the name "common"
// without field names.
func newCLF(kind *clfKind, o *Options) (parser, error) {
	p := &clf{options: o, extras: make([]clfColumn, len(o.Extras)), address: clfClient,
		host: clfVHost, ends: o.atEnd(false)}
	if o.Format == kind.name {
		p.named = kind
	}
	if err := o.fixed(kind.name, "address", "host", "duration"); err != nil {
		return nil, err
	}
	column := func(name string) (clfColumn, error) {
		n, isExtra := strings.CutPrefix(name, "extra.")
		i, err := strconv.Atoi(n)
		c, ok := clfColumns[name]
		switch {
		case ok:
		case isExtra && err == nil && 0 < i && i < 100:
			c = clfExtra + clfColumn(i) - 1
		case isForwarded(name):
			p.guess = name
		default:
			return 0, noField(kind.name, name, clfKnown)
		}
		return c, nil
	}
	for i, extra := range o.Extras {
		name := o.Fields[extra]
		if header, ok := strings.CutPrefix(extra, "header."); ok && name == "" {
			name = clfHeaders[header]
		}
		if name == "" {
			continue
		}
		c, err := column(name)
		if err != nil {
			return nil, err
		}
		p.extras[i] = c
	}
	for role, c := range map[string]*clfColumn{
		"address": &p.address, "host": &p.host, "duration": &p.lasted,
	} {
		if name := o.Fields[role]; name != "" {
			var err error
			if *c, err = column(name); err != nil {
				return nil, err
			}
		}
	}
	p.ends = o.atEnd(p.lasted != clfNone)
	return p, nil
}

// isForwarded reports whether a name is that of X-Forwarded-For or another header for the client,
// as nginx, Apache and others write it.
func isForwarded(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	name = strings.TrimSuffix(strings.TrimPrefix(name, "%{"), "}i") // of Apache
	switch strings.TrimPrefix(name, "http-") {
	case "x-forwarded-for", "x-real-ip", "cf-connecting-ip", "true-client-ip", "x-client-ip":
		return true
	}
	return false
}

// choose gives the column of a guess its place: the one whose texts are addresses in most of the
// first lines. It returns its name, or "" without one.
func (p *clf) choose(h *head, in *envelope) string {
	found, tried := make(map[string]int), 0
	for line := range h.lines {
		if tried++; tried > linesTried {
			break
		}
		p.others(in.open(line), func(name string, text []byte) {
			if isAddressList(text) {
				found[name]++
			}
		})
	}
	best := ""
	for name, n := range found {
		if n > found[best] || n == found[best] && name < best {
			best = name
		}
	}
	c, ok := clfColumns[best]
	if n, err := strconv.Atoi(strings.TrimPrefix(best, "extra.")); !ok && err == nil {
		c = clfExtra + clfColumn(n) - 1
	}
	for i, extra := range p.options.Extras {
		if isForwarded(p.options.Fields[extra]) {
			p.extras[i] = c
		}
	}
	if isForwarded(p.options.Fields["address"]) {
		p.address = c
	}
	return best
}

// stampsEnds returns false, unless Options name a duration: %t of Apache is the time when the
// request arrived, and so is the stamp of Traefik. nginx stamps the end in the same format; a log
// does not tell which.
func (p *clf) stampsEnds() bool { return p.ends }

func (p *clf) parse(line []byte, e *Entry) problem {
	at, exact, local, l, why := p.cut(line)
	if why != fine {
		return why
	}
	e.local = local
	kind := clfKind{vhost: l.vhost != nil}
	l.tail, e.Lasted, e.HasEnd = cutTraefik(l.tail)
	if kind.traefik = e.HasEnd; !kind.traefik {
		e.Lasted, e.HasEnd = readRack(l.tail)
		kind.rack = e.HasEnd
	}
	l.referer, l.agent, l.tail, kind.combined = cutAgent(l.tail)
	p.cells = p.cells[:0]
	e.format = p.format(kind)
	e.Status, e.Bytes = readStatus(l.status), readSize(l.size)
	if p.lasted != clfNone {
		e.Lasted, e.HasEnd = 0, false
		e.last([]byte(dashless(view(p.column(&l, p.lasted)))), p.options.unit(0))
	}
	e.arrive(at, exact, p.ends)
	e.Host = view(p.column(&l, p.host))
	for i, c := range p.extras {
		e.Extra[i] = dashless(view(unescape(p.column(&l, c))))
	}
	if why := e.setRequestLine(unescape(l.request)); why != fine {
		return why
	}
	if p.address == clfClient && isHypercorn(l.request) {
		return e.setParsed(address.ParseWithPort(view(l.client)))
	}
	return e.setAddress(p.column(&l, p.address))
}

// isHypercorn reports whether a request line is one of hypercorn, such as GET / 1.1. It writes the
// port of an IPv6 address without brackets.
func isHypercorn(request []byte) bool {
	before, version := cutLast(request)
	return isVersion(version) && bytes.IndexByte(before, ' ') > 0
}

// clfLine has the columns of a line.
type clfLine struct {
	vhost, client, ident, user, request, status, size, referer, agent, tail []byte
}

// cut cuts a line into its columns up to the size, and leaves the others in the tail.
func (p *clf) cut(line []byte) (at int64, exact, local bool, l clfLine, why problem) {
	before, rest, at, exact, ok := p.cutStamp(line)
	if !ok {
		return 0, false, false, l, malformed
	}
	if !p.cutClient(before, &l) {
		return 0, false, false, l, malformed
	}
	l.request, l.status, l.size, l.tail, ok = cutRequest(rest)
	if !ok {
		return 0, false, false, l, malformed
	}
	return at, exact, p.stamps.local, l, fine
}

// column returns a column of a line.
func (p *clf) column(l *clfLine, c clfColumn) []byte {
	switch c {
	case clfNone:
		return nil
	case clfUser:
		return l.user
	case clfReferer:
		return l.referer
	case clfAgent:
		return l.agent
	case clfVHost:
		return l.vhost
	case clfClient:
		return l.client
	case clfIdent:
		return l.ident
	}
	if len(p.cells) == 0 {
		p.cells = cutColumns(p.cells, l.tail)
	}
	if i := int(c - clfExtra); i < len(p.cells) {
		return p.cells[i]
	}
	return nil
}

// cutColumns appends the columns of a text: words, texts in quotes, and texts in brackets.
func cutColumns(cells [][]byte, s []byte) [][]byte {
	for {
		s = bytes.TrimLeft(s, " ")
		if len(s) == 0 {
			return cells
		}
		var cell []byte
		ok := false
		switch s[0] {
		case '"':
			cell, s, ok = cutQuoted(s)
		case '[':
			cell, s, ok = bytes.Cut(s[1:], []byte{']'})
		}
		if !ok && len(s) > 0 {
			cell, s, _ = cutSpace(s)
		}
		cells = append(cells, cell)
	}
}

func (p *clf) others(line []byte, yield func(name string, text []byte)) {
	_, _, _, l, why := p.cut(line)
	if why != fine {
		return
	}
	l.referer, l.agent, l.tail, _ = cutAgent(l.tail)
	for name, c := range map[string]clfColumn{
		"ident": clfIdent, "user": clfUser, "vhost": clfVHost,
	} {
		if text := p.column(&l, c); c != p.address && text != nil {
			yield(name, text)
		}
	}
	for i, cell := range cutColumns(nil, l.tail) {
		if clfExtra+clfColumn(i) != p.address {
			yield("extra."+strconv.Itoa(i+1), cell)
		}
	}
}

// format returns the format of a line: the one named by Options if the line has all its fields.
func (p *clf) format(line clfKind) string {
	if n := p.named; n != nil && line.has(n) {
		return n.name
	}
	for i := range clfKinds {
		if line.has(&clfKinds[i]) {
			return clfKinds[i].name
		}
	}
	return ""
}

// rankOf returns the place of a format in clfKinds: formats with fewer fields come later.
func rankOf(name string) int {
	return slices.IndexFunc(clfKinds, func(k clfKind) bool { return k.name == name })
}

// has reports whether a line with the fields of k has all fields of a format.
func (k clfKind) has(format *clfKind) bool {
	return (k.vhost || !format.vhost) && (k.combined || !format.combined) &&
		(k.traefik || !format.traefik) && (k.rack || !format.rack)
}

// maxStamp is the maximal length of a stamp, including its bracket.
const maxStamp = 80

// cutStamp cuts a line at its stamp, which is the last bracket before the request: the name of a
// user may contain brackets, since clients choose it, but servers escape quotes in it. Custom
// formats may have a stamp such as 2024-02-24T12:00:59+00:00.
func (p *clf) cutStamp(line []byte) (before, request []byte, at int64, exact, ok bool) {
	for from := 0; ; {
		i := bytes.Index(line[from:], []byte(`] "`))
		if i < 0 {
			return nil, nil, 0, false, false
		}
		end := from + i
		if open := end - len(clfStamp) - len(" ["); open > 0 && line[open] == ' ' &&
			line[open+1] == '[' {
			if at, ok := p.clock.read(line[open+2 : end]); ok {
				p.stamps.local = false
				return line[:open], line[end+2:], at, false, true
			}
		}
		near := max(0, end-maxStamp) // a line may have many brackets
		if open := near + bytes.LastIndex(line[near:end], []byte(" [")); open > near {
			if at, exact, ok := p.stamps.read(line[open+2 : end]); ok {
				return line[:open], line[end+2:], at, exact, true
			}
		}
		from = end + 1
	}
}

// cutClient cuts the text before the stamp: the client, its identity by RFC 1413, and the user,
// whose name may contain spaces. A virtual host may come first: then the second text is an address.
// Each of these may be a list, if X-Forwarded-For is logged in or beside its place. A program
// behind a socket may log no client.
func (p *clf) cutClient(s []byte, l *clfLine) bool {
	first, rest, ok := cutListed(s)
	if !ok {
		return false
	}
	second, user, ok := cutListed(rest)
	if !ok {
		l.ident, l.user = first, rest // gunicorn behind a socket
		return string(first) == "-" && len(rest) > 0
	}
	isVHost := p.named != nil && p.named.vhost
	if p.named == nil {
		isVHost = looksLikeAddress(second) || isList(second)
	}
	if ident, name, four := cutSpace(user); isVHost && four {
		l.vhost, l.client, l.ident, l.user = first, second, ident, name
		return true
	}
	l.client, l.ident, l.user = first, second, user
	return !isVHost || p.named == nil
}

// cutListed cuts s at its first space that does not follow a comma, and removes quotes.
func cutListed(s []byte) (text, rest []byte, ok bool) {
	end := 0
	for {
		n := bytes.IndexByte(s[end:], ' ')
		if n < 0 {
			return nil, nil, false
		}
		end += n
		if end == 0 || s[end-1] != ',' || !hasBlanks(s[end+1:]) {
			break
		}
		end++
	}
	return bytes.Trim(s[:end], `"`), s[end+1:], true
}

// isList reports whether s is a list whose last element is an address.
func isList(s []byte) bool {
	i := bytes.LastIndexByte(s, ',')
	return i >= 0 && looksLikeAddress(bytes.TrimLeft(s[i+1:], " "))
}

// isAddressList reports whether s is an address or a list that ends in one.
func isAddressList(s []byte) bool {
	return looksLikeAddress(s) || isList(s)
}

// cutRequest cuts the text after the stamp: the quoted request, the status and the size. Some
// servers, such as Traefik, do not escape quotes in the request: the last quote is the one before a
// status.
func cutRequest(s []byte) (request, status, size, tail []byte, ok bool) {
	_, after, ok := cutQuoted(s)
	for ok {
		if status, size, tail, found := cutStatus(after); found {
			return s[1 : len(s)-len(after)-1], status, size, tail, true
		}
		_, after, ok = bytes.Cut(after, []byte{'"'})
	}
	return nil, nil, nil, nil, false
}

// cutStatus cuts a status and a size. Each may be a dash.
func cutStatus(s []byte) (status, size, tail []byte, ok bool) {
	if len(s) == 0 || s[0] != ' ' {
		return nil, nil, nil, false
	}
	s = s[1:]
	status, _, ok = cutSpace(s[:min(len(s), len("200 "))])
	if !ok || string(status) != "-" && !isDigits(status) {
		return nil, nil, nil, false
	}
	size, tail, _ = cutSpace(s[len(status)+1:])
	return status, size, tail, string(size) == "-" || isDigits(size)
}

// cutAgent cuts the referer and the agent of the combined format. Without them it returns s as the
// rest.
func cutAgent(s []byte) (referer, agent, tail []byte, ok bool) {
	referer, rest, ok := cutQuoted(s)
	if !ok || len(rest) < 3 || rest[0] != ' ' || rest[1] != '"' {
		return nil, nil, s, false
	}
	if agent, tail, ok = cutQuoted(rest[1:]); !ok { // the server does not escape quotes
		agent, ok = bytes.CutSuffix(rest[2:], []byte{'"'})
	}
	return referer, agent, tail, ok
}

// readRack reads what Rack appends: a duration in seconds with four decimals.
func readRack(s []byte) (lasted time.Duration, ok bool) {
	s = bytes.TrimRight(s, " ")
	dot := bytes.IndexByte(s, '.')
	if dot <= 0 || len(s)-dot != len(".0000") || !isDigits(s[:dot]) || !isDigits(s[dot+1:]) {
		return 0, false
	}
	return readDuration(s, time.Second)
}

// cutTraefik cuts the fields that Traefik appends: the number of requests, the router, the server,
// and the duration. An unknown field is a dash. It cuts from the end, since Traefik does not escape
// quotes in the agent before.
//
//	1 "router@docker" "http://10.0.0.2:80" 12ms
func cutTraefik(s []byte) (before []byte, lasted time.Duration, ok bool) {
	rest, ok := bytes.CutSuffix(s, []byte("ms"))
	if !ok {
		return s, 0, false
	}
	rest, took := cutLast(rest)
	rest, server := cutLast(rest)
	rest, router := cutLast(rest)
	rest, number := cutLast(rest)
	if !isDigits(took) || !isName(server) || !isName(router) ||
		string(number) != "-" && !isDigits(number) {
		return s, 0, false
	}
	lasted, ok = readDuration(took, time.Millisecond)
	return rest, lasted, ok
}

// isName reports whether s is a quoted text or a dash.
func isName(s []byte) bool {
	return string(s) == "-" || len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"'
}
