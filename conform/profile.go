package conform

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/weir-go/weir/internal/files/document"
	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/token"
	"github.com/weir-go/weir/limits"
)

// Profile says what a server promises, and how it is started.
type Profile struct {
	Name string // of the limiter, with its version

	// Prepare is a command that runs once before the first start, in the folder of the profile. "":
	// none.
	Prepare string

	// Start is the command of the server. The environment has PORT, and STORE if Store is set. "":
	// the server at URL runs already.
	Start string

	URL  string      // to which requests are sent, with $PORT for the port
	Send http.Header // fields of all requests beside the key; nil: none

	// Limit is the promise. Without Named it has the rate that is promised, and no more is known.
	Limit limits.Limit
	Named bool // Limit has the algorithm that the server names

	Key          Key
	Denied       int      // the status of a denial
	Fields       []string // the dialects of fields in its answers: see Dialects
	CountsDenied Answer   // whether it says that denied requests count
	Store        string   // "redis", or "": the process keeps the counts

	folder string // in which the commands run
}

// Answer is what a server says about a thing.
type Answer uint8

// The answers.
const (
	Silent Answer = iota // it says nothing
	No
	Yes
)

// Key says how a server tells clients apart.
type Key struct {
	From  Source
	Field string // of FromHeader and FromForwarded
}

// Source is where the key of a client is.
type Source uint8

// The sources.
const (
	FromHeader    Source = iota + 1 // header X-API-Key: the value of a field
	FromAddress                     // address: that of the connection
	FromForwarded                   // address in X-Forwarded-For: as the nearest proxy tells it
	FromNothing                     // none: all requests share one limit
)

// String returns the key as a profile has it.
func (k Key) String() string {
	switch k.From {
	case FromHeader:
		return "header " + k.Field
	case FromForwarded:
		return "address in " + k.Field
	case FromAddress:
		return "address"
	}
	return "none"
}

const (
	maxProfile  = 64 << 10
	leastPeriod = 100 * time.Millisecond
	mostPeriod  = 10 * time.Second
	mostUnits   = 1000
)

// Parse reads a profile, which is YAML or JSON:
//
//	name: express-rate-limit 8.2.1
//	start: node server.js           # in the folder of the profile, with PORT in the environment
//	url: http://127.0.0.1:$PORT/
//	limit: 10 per 2s
//	algorithm: fixed-window         # optional
//	burst: 20                       # optional, of a bucket
//	key: header X-API-Key           # or address, address in X-Forwarded-For, none
//	denied: 429                     # optional
//	fields: [retry-after, draft-6]  # optional
//	counts-denied: false            # optional
//	store: redis                    # optional
//	prepare: npm ci                 # optional
//	send: {Authorization: Basic eA} # optional, in all requests
//
// name is that of its file, whose folder is where the commands run. The error reports every mistake,
// with its line and column.
func Parse(name string, text []byte) (*Profile, error) {
	r := profileReader{file: name, profile: &Profile{
		Denied: 429, folder: filepath.Dir(name), Key: Key{From: FromNothing},
	}}
	if len(text) > maxProfile {
		return nil, fmt.Errorf("%s: a profile has at most %d bytes (got %d)", name, maxProfile, len(text))
	}
	form := document.Form{MaxDepth: 4, Empty: "name, url and limit"}
	root, mistakes := form.Parse(text)
	for _, m := range mistakes {
		r.mistakes = append(r.mistakes, place(name, m.Line, m.Column)+m.Text)
	}
	if root != nil {
		r.read(root)
	}
	if len(r.mistakes) > 0 {
		return nil, errors.New(strings.Join(r.mistakes, "\n"))
	}
	return r.profile, nil
}

// place returns a place in a file as editors read it.
func place(file string, line, column int) string {
	if line == 0 {
		return file + ": "
	}
	return fmt.Sprintf("%s:%d:%d: ", file, line, column)
}

// profileReader collects the mistakes of a profile.
type profileReader struct {
	file     string
	profile  *Profile
	mistakes []string

	address, rate, algorithm, burst *document.Node
}

// profileFields are the fields of a profile, in the order of messages.
var profileFields = []struct {
	name     string
	required bool
	read     func(r *profileReader, n *document.Node)
}{
	{"name", true, (*profileReader).name},
	{"prepare", false, func(r *profileReader, n *document.Node) { r.profile.Prepare = r.command(n) }},
	{"start", false, func(r *profileReader, n *document.Node) { r.profile.Start = r.command(n) }},
	{"url", true, (*profileReader).url},
	{"limit", true, func(r *profileReader, n *document.Node) { r.rate = n }},
	{"algorithm", false, func(r *profileReader, n *document.Node) { r.algorithm = n }},
	{"burst", false, func(r *profileReader, n *document.Node) { r.burst = n }},
	{"key", true, (*profileReader).key},
	{"denied", false, (*profileReader).denied},
	{"fields", false, (*profileReader).fields},
	{"counts-denied", false, (*profileReader).countsDenied},
	{"store", false, (*profileReader).store},
	{"send", false, (*profileReader).send},
}

// mistake notes a mistake at n.
func (r *profileReader) mistake(n *document.Node, format string, args ...any) {
	r.mistakes = append(r.mistakes, place(r.file, n.Line, n.Column)+fmt.Sprintf(format, args...))
}

func (r *profileReader) read(root *document.Node) {
	if root.Kind != document.Map {
		r.mistake(root, "must be a map with name, url, limit and key (got %s)", root.Describe())
		return
	}
	var names, seen []string
	for _, f := range profileFields {
		names = append(names, f.name)
	}
	for _, e := range root.Entries {
		i := slices.Index(names, e.Name.Text)
		switch {
		case i < 0:
			r.mistake(e.Name, "there is no field %s: the fields are %s", e.Name.Describe(),
				strings.Join(names, ", "))
		case slices.Contains(seen, e.Name.Text):
			r.mistake(e.Name, "%s: is here twice: remove one", e.Name.Text)
		case e.Value.IsNull(), e.Value.Kind == document.Scalar && e.Value.Text == "":
			r.mistake(e.Name, "%s: has no value: write one or remove the field", e.Name.Text)
		case e.Value.Kind != document.Scalar && e.Name.Text != "fields" && e.Name.Text != "send":
			r.mistake(e.Value, "%s: must be a text or a number (got %s)", e.Name.Text, e.Value.Describe())
		default:
			profileFields[i].read(r, e.Value)
		}
		seen = append(seen, e.Name.Text)
	}
	for _, f := range profileFields {
		if f.required && !slices.Contains(seen, f.name) {
			r.mistake(root, "%s: is required: add it", f.name)
		}
	}
	r.limit()
	if field := r.profile.Key.Field; field != "" && r.profile.Send.Values(field) != nil {
		r.mistake(root, "send: %s is the field of key, which each request has with a value of its own: remove it", field)
	}
	if p := r.profile; p.Start == "" && (p.Store != "" || p.Prepare != "") {
		r.mistake(root, "store and prepare: need start: add the command that starts the server")
	} else if p.Start == "" && strings.Contains(p.URL, "$PORT") {
		r.mistake(r.address, "url: $PORT needs start: add the command that starts the server, or write the port of "+
			"the one that runs")
	} else if p.Start != "" && r.address != nil && !strings.Contains(p.URL, "$PORT") {
		r.mistake(r.address, "url: start needs $PORT in place of the port: each server that is started listens on the "+
			"port in the variable PORT")
	}
}

func (r *profileReader) name(n *document.Node) {
	if r.profile.Name = n.Text; strings.ContainsFunc(n.Text, unicode.IsControl) {
		r.mistake(n, "name: must be one line without control characters")
	}
}

func (r *profileReader) command(n *document.Node) string {
	if strings.Contains(n.Text, "\x00") {
		r.mistake(n, "a command cannot have a character with the number 0: remove it")
	}
	return n.Text
}

func (r *profileReader) url(n *document.Node) {
	r.profile.URL, r.address = n.Text, n
	u, err := url.Parse(strings.ReplaceAll(n.Text, "$PORT", "80"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		r.mistake(n, "url: must be an address such as http://127.0.0.1:$PORT/ (got %s)", n.Describe())
	}
}

// gcra is a further name of a bucket that is full at first.
const gcra = "gcra"

// algorithms returns the names that the field algorithm may have.
func algorithms() (names []string) {
	for _, row := range algorithm.All() {
		if isJudged(&row.Traits) && !row.Has(algorithm.Periods) {
			names = append(names, row.Name)
		}
	}
	return append(names, gcra)
}

// isJudged reports whether checks know what an algorithm admits in a period.
func isJudged(t *algorithm.Traits) bool { return !t.Queues && !t.Held && !t.Values && !t.Bans }

// limit reads limit, algorithm and burst, which make one limit.
func (r *profileReader) limit() {
	if r.rate == nil {
		return
	}
	text := r.rate.Text
	if word, _ := algorithm.Split(text); word != "" {
		r.mistake(r.rate, "limit: write the rate alone, as in 10 per 2s, and the name in algorithm (got %s)",
			r.rate.Describe())
		return
	}
	if r.algorithm != nil {
		name := r.algorithm.Text
		if !slices.Contains(algorithms(), name) {
			r.mistake(r.algorithm, "algorithm: must be %s (got %s): leave it out if it is another",
				listed(algorithms()), r.algorithm.Describe())
			return
		}
		if name == gcra {
			name = bucket()
		}
		text, r.profile.Named = name+" "+text, true
	}
	plain, err := limits.Parse(text)
	if err != nil {
		r.mistake(r.rate, "limit: write it as in 10 per 2s: %v", err)
		return
	}
	limit := plain
	if r.burst != nil {
		if !r.profile.Named || !plain.Algorithm().HasBurst() {
			r.mistake(r.burst, "burst: only a bucket has one: name its algorithm, or remove burst")
			return
		}
		if limit, err = limits.Parse(text + " burst " + r.burst.Text); err != nil {
			r.mistake(r.burst, "burst: %v", err)
			return
		}
	}
	rate := limit.Rate()
	if rate.Period < leastPeriod || rate.Period > mostPeriod {
		r.mistake(r.rate, "limit: the period must be %v to %v, since checks wait for several of them "+
			"(got %v): set the server up with a short one", leastPeriod, mostPeriod, rate.Period)
	}
	if max(rate.Units, limit.Burst()) > mostUnits {
		r.mistake(r.rate, "limit: must be at most %d requests (got %d): set the server up with fewer",
			mostUnits, max(rate.Units, limit.Burst()))
	}
	r.profile.Limit = limit
}

// bucket returns the name of the bucket that gcra is.
func bucket() string {
	all := algorithm.All()
	return all[slices.IndexFunc(all, func(row algorithm.Algorithm) bool {
		return row.Drains && isJudged(&row.Traits)
	})].Name
}

func (r *profileReader) key(n *document.Node) {
	words := strings.Fields(n.Text)
	k := &r.profile.Key
	switch {
	case len(words) == 1 && words[0] == "address":
		k.From = FromAddress
	case len(words) == 1 && words[0] == "none":
		k.From = FromNothing
	case len(words) == 2 && words[0] == "header":
		*k = Key{FromHeader, textproto.CanonicalMIMEHeaderKey(words[1])}
	case len(words) == 3 && words[0] == "address" && words[1] == "in":
		*k = Key{FromForwarded, textproto.CanonicalMIMEHeaderKey(words[2])}
	default:
		r.mistake(n, "key: must be header NAME, address, address in NAME or none (got %s)", n.Describe())
		return
	}
	switch {
	case k.Field == "":
	case !token.Is(k.Field):
		r.mistake(n, "key: must have the name of a header field (got %s)", n.Describe())
	case k.Field == "Host" || slices.Contains(framing, k.Field):
		r.mistake(n, "key: requests cannot have a %s of their own: set the server up with another field", k.Field)
	}
}

// framing are fields that a sender of HTTP sets itself.
var framing = []string{"Connection", "Content-Length", "Trailer", "Transfer-Encoding"}

func (r *profileReader) denied(n *document.Node) {
	status, err := strconv.Atoi(n.Text)
	if err != nil || status < 400 || status > 599 {
		r.mistake(n, "denied: must be a status, 400 to 599 (got %s)", n.Describe())
	}
	r.profile.Denied = status
}

func (r *profileReader) fields(n *document.Node) {
	items := n.Items
	if n.Kind != document.List {
		items = []*document.Node{n}
	}
	for _, item := range items {
		switch {
		case dialectOf(item.Text) == nil || item.Kind != document.Scalar:
			r.mistake(item, "fields: must be %s (got %s)", listed(Dialects()), item.Describe())
		case slices.Contains(r.profile.Fields, item.Text):
			r.mistake(item, "fields: %s is here twice: remove one", item.Text)
		default:
			r.profile.Fields = append(r.profile.Fields, item.Text)
		}
	}
}

func (r *profileReader) countsDenied(n *document.Node) {
	switch n.Text {
	case "true":
		r.profile.CountsDenied = Yes
	case "false":
		r.profile.CountsDenied = No
	default:
		r.mistake(n, "counts-denied: must be true or false (got %s)", n.Describe())
	}
}

func (r *profileReader) store(n *document.Node) {
	if n.Text != "redis" {
		r.mistake(n, "store: must be redis (got %s)", n.Describe())
	}
	r.profile.Store = n.Text
}

func (r *profileReader) send(n *document.Node) {
	if n.Kind != document.Map {
		r.mistake(n, "send: must be a map of fields, such as {Host: example.com} (got %s)", n.Describe())
		return
	}
	r.profile.Send = make(http.Header)
	for _, e := range n.Entries {
		name := textproto.CanonicalMIMEHeaderKey(e.Name.Text)
		switch {
		case !token.Is(name), e.Value.Kind != document.Scalar, e.Value.IsNull():
			r.mistake(e.Name, "send: must have names of fields with a text each (got %s)", e.Name.Describe())
		case strings.ContainsFunc(e.Value.Text, unicode.IsControl):
			r.mistake(e.Value, "send: %s: must be one line without control characters", name)
		case slices.Contains(framing, name):
			r.mistake(e.Name, "send: requests cannot have a %s of their own: remove it", name)
		case r.profile.Send.Values(name) != nil:
			r.mistake(e.Name, "send: %s is here twice: remove one", name)
		default:
			r.profile.Send.Set(name, e.Value.Text)
		}
	}
}

// listed returns words as "a, b or c".
func listed(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// promise returns the limit as a report has it.
func (p *Profile) promise() string {
	if p.Named {
		return p.Limit.String()
	}
	return fmt.Sprintf("%d per %v", p.units(), p.period())
}

// units returns N of N in P.
func (p *Profile) units() int { return int(p.Limit.Rate().Units) }

// period returns P of N in P.
func (p *Profile) period() time.Duration { return p.Limit.Rate().Period }

// burst returns the most that a fresh key admits at once.
func (p *Profile) burst() int { return int(p.Limit.Burst()) }

// isBucket reports whether units come back one by one.
func (p *Profile) isBucket() bool { return p.traits().Drains }

// traits returns the traits of the named algorithm, or none.
func (p *Profile) traits() algorithm.Traits {
	if !p.Named {
		return algorithm.Traits{}
	}
	return algorithm.Of(p.Limit.Algorithm()).Traits
}

// isSteady reports whether what is used up comes back all at once, or each unit a period after it was
// used.
func (p *Profile) isSteady() bool {
	t := p.traits()
	return t.Ends || t.Lists
}

// refill returns how many units may have come back within d, one by one, as a clock that is a bit off
// counts it.
func (p *Profile) refill(d time.Duration) int {
	if p.isSteady() {
		return 0
	}
	d += 2 * clockGrain
	return int(int64(d) * p.Limit.Rate().Units / int64(p.period()))
}

// turns reports whether windows that follow the clock turn between two instants, for a clock that is a
// bit off.
func (p *Profile) turns(from, to time.Time) bool {
	period := int64(p.period())
	return from.Add(-clockGrain).UnixNano()/period != to.Add(clockGrain).UnixNano()/period
}

// turnsByClock reports whether all of the limit comes back when a window by the clock ends.
func (p *Profile) turnsByClock() bool {
	t := p.traits()
	return t.Aligned && t.Ends
}

// isLocal reports whether the server runs on this machine, so that its clock is ours.
func (p *Profile) isLocal() bool {
	name, address := p.hostOf()
	return name == "localhost" || address.IsLoopback()
}

// hostOf returns the host of URL, and its address if it is one.
func (p *Profile) hostOf() (name string, address netip.Addr) {
	if u, err := url.Parse(strings.ReplaceAll(p.URL, "$PORT", "80")); err == nil {
		name = u.Hostname()
		address, _ = netip.ParseAddr(name)
	}
	return name, address
}

// manyKeys reports whether the checks can have as many keys as they like.
func (p *Profile) manyKeys() bool {
	switch p.Key.From {
	case FromNothing:
		return false
	case FromAddress: // another address of 127.0.0.0/8 for each
		_, address := p.hostOf()
		return address.Is4() && address.IsLoopback()
	}
	return true
}

// drain returns how long a bucket takes to be full again, and otherwise the period.
func (p *Profile) drain() time.Duration {
	return time.Duration(int64(p.period()) * int64(p.burst()) / int64(p.units()))
}
