package admin

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// requestText is a request that a person wrote, to be explained.
type requestText struct {
	Method  string // "": GET
	Path    string // "": /
	Host    string
	Address string      // of the client
	Route   string      // pattern that a mux routed it by
	Headers [][2]string // names and values
}

func (t *requestText) build(ctx context.Context) (*http.Request, error) {
	bad := func(why string) error { return &failure{http.StatusBadRequest, why} }
	place := cmp.Or(t.Path, "/")
	if !strings.HasPrefix(place, "/") {
		return nil, bad("path: must begin with a slash")
	}
	r, err := http.NewRequestWithContext(ctx, cmp.Or(t.Method, http.MethodGet),
		"http://"+cmp.Or(t.Host, "localhost")+place, http.NoBody)
	if err != nil {
		return nil, bad("method, host or path: not those of a request")
	}
	r.RequestURI, r.Pattern = place, t.Route
	r.URL.Scheme, r.URL.Host = "", "" // as servers parse requests
	if t.Address != "" {
		address, err := netip.ParseAddr(strings.TrimSpace(t.Address))
		if err != nil {
			return nil, bad("address: must be an IP address without a port")
		}
		r.RemoteAddr = net.JoinHostPort(address.String(), "1")
	}
	for _, field := range t.Headers {
		name := strings.TrimSpace(field[0])
		if !isToken(name) {
			return nil, bad("headers: a line must be a name, a colon and a value")
		}
		if strings.EqualFold(name, "Host") {
			r.Host = strings.TrimSpace(field[1])
			continue
		}
		r.Header.Add(name, strings.TrimSpace(field[1]))
	}
	return r, nil
}

// isToken reports whether s is a token (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') &&
			!strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// explainRequest explains a request with all rules of a limiter.
func (p *page) explainRequest(ctx context.Context, q *question) (*reply, error) {
	name, limiter, err := p.limiter(q.Limiter)
	if err != nil {
		return nil, err
	}
	explainer, ok := limiter.(RequestExplainer)
	if !ok {
		return nil, &failure{
			http.StatusUnprocessableEntity,
			"requests of this limiter's framework cannot be made up here: explain a key",
		}
	}
	r, err := q.Request.build(ctx)
	if err != nil {
		return nil, err
	}
	o := explainer.Explain(r)
	a := &reply{Verdict: o.Verdict().String(), Rules: []verdict{}}
	if err := o.Err(); err != nil {
		a.Error = err.Error()
	}
	if i := o.BindingRule(); i >= 0 {
		a.Binding = o.At(i).Rule()
	}
	decided := make(map[string]*core.RuleDecision, o.Len())
	for i := range o.Len() {
		decided[o.At(i).Rule()] = o.At(i)
	}
	for _, rule := range limiter.State().Rules {
		v := verdict{Rule: rule.Name, Mode: rule.Mode.String()}
		if d, ok := decided[rule.Name]; ok {
			v.Matches, v.Mode, v.Limit, v.Cost = true, d.Mode().String(), limitText(d.Limit()),
				d.Cost
			v.Kind, v.Key = p.mask.show(d.Key, rule.KeyName)
			v.decided(&d.Decision)
			if d.Key != "" || d.Source.Counted() { // otherwise the key function may have failed
				v.ID = p.forgivable(name, rule.Name, d.Key, d.Limit())
			}
			v.Why = whyUncounted(d.Source)
		} else {
			v.Why = p.whyNot(&rule, r, &o)
		}
		a.Rules = append(a.Rules, v)
	}
	return a, nil
}

// whyUncounted returns why a decision has no numbers; "" if it has.
func whyUncounted(source limits.Source) string {
	switch source {
	case limits.SourceOpen:
		return "the rule could not be applied, and fails open"
	case limits.SourceClosed:
		return "the rule could not be applied"
	case limits.SourceNotAsked:
		return "was not asked: another rule decided"
	}
	return ""
}

// whyNot returns why a rule did not take part in an outcome.
func (p *page) whyNot(rule *core.RuleState, r *http.Request, o *core.Outcome) string {
	if rule.Mode == core.Disabled {
		return "the rule is disabled"
	}
	if policy, ok := p.sources.Policy.(reasoner); ok {
		if why := policy.WhyNot(rule.Name, r); why != "" {
			return why
		}
	}
	if o.Verdict() == core.Unavailable || o.Verdict() == core.Abandoned {
		return "was not reached"
	}
	return "its key function says that it does not apply"
}
