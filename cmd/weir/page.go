package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/operator"
)

// page is the operator's page of a running program: see package admin.
type page struct {
	base   *url.URL
	header http.Header // sent with each request
	client *http.Client
}

// newPage returns the page at an address such as http://127.0.0.1:8081.
func newPage(address string, header http.Header) (*page, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil,
			errors.New("--url: must be the address of a page, such as http://127.0.0.1:8081")
	case u.User != nil:
		return nil,
			errors.New("--url: must not have a user and a password: write the field " +
				"Authorization into a file for --credentials")
	}
	u.RawQuery, u.Fragment = "", ""
	if len(header) > 0 && u.Scheme == "http" && !isLocal(u.Hostname()) {
		return nil,
			fmt.Errorf("--url: credentials would go to %s unencrypted: use https, or a tunnel "+
				"to this host", u.Host)
	}
	return &page{u, header, &http.Client{
		// credentials are for this address only
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}, nil
}

// isLocal reports whether host is this machine, so that nothing is sent over a network.
func isLocal(host string) bool {
	address, err := netip.ParseAddr(host)
	// with a zone, net/http would use a proxy
	return host == "localhost" || err == nil && address.Zone() == "" && address.Unmap().IsLoopback()
}

// maxReply is the number of bytes read of an answer.
const maxReply = 4 << 20

// refusal is the error of a page.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// ask sends in as JSON, or a GET if in is nil, and decodes the answer into out.
func (p *page) ask(ctx context.Context, path string, in, out any) error {
	method, content := http.MethodGet, []byte(nil)
	if in != nil {
		method = http.MethodPost
		content, _ = json.Marshal(in) // cannot fail for texts and numbers
	}
	r, err := http.NewRequestWithContext(ctx, method, p.base.JoinPath(path).String(),
		bytes.NewReader(content))
	if err != nil {
		return err
	}
	r.Header = p.header.Clone()
	if r.Header.Get("Host") != "" {
		r.Host = r.Header.Get("Host")
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := p.client.Do(r)
	if err != nil {
		return fmt.Errorf("the page does not answer: %w: check that the program runs", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxReply))
	if err != nil {
		return fmt.Errorf("the answer of the page cannot be read: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return p.refused(answer, text)
	}
	if err := json.Unmarshal(text, out); err != nil ||
		!strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json") {
		return fmt.Errorf("%s answers, and is no operator's page of weir: give --url the "+
			"address that you open in a browser", p.base)
	}
	return nil
}

// refused returns the error for an answer with a status other than 200.
func (p *page) refused(answer *http.Response, text []byte) error {
	var said operator.Refusal
	json.Unmarshal(text, &said)
	why := &refusal{answer.StatusCode, fmt.Sprintf("the page answers %s", answer.Status)}
	if said.Error != "" {
		why.text += ": " + said.Error
	}
	switch status := answer.StatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden ||
		status == http.StatusProxyAuthRequired:
		why.text += ": write the header fields that it wants into a file for --credentials"
	case status >= 300 && status < 400:
		why.text += fmt.Sprintf(": it leads to %.200q: give --url that address, or log in by "+
			"--credentials", answer.Header.Get("Location"))
	case status == http.StatusUnprocessableEntity && strings.Contains(said.Error, "explain a key"):
		why.text = "the page says: " + said.Error + ": add --policy, which finds the keys"
	case said.Error == "" ||
		status == http.StatusNotFound && !strings.HasPrefix(said.Error, "there is no "):
		why.text += ": give --url the address that you open in a browser"
	}
	return why
}

// askRequest explains a request by the page alone.
func (p *page) askRequest(ctx context.Context, limiter string, m *madeUp) (*explanation, error) {
	q := operator.Question{Limiter: limiter, Request: &operator.Request{
		Method: m.Method, Path: m.Path, Host: m.Host, Address: cmp.Or(m.Address, anyAddress),
		Route: m.Route,
	}}
	for name, values := range m.Header {
		for _, value := range values {
			q.Request.Headers = append(q.Request.Headers, [2]string{name, value})
		}
	}
	var a operator.Reply
	if err := p.ask(ctx, "api/explain", q, &a); err != nil {
		return nil, p.withLimiters(ctx, limiter, err)
	}
	e := &explanation{Request: m.String(), Verdict: verdict(a.Verdict), page: true}
	if e.Verdict != allowed && e.Verdict != denied {
		e.Verdict = unavailable
	}
	if a.Error != "" {
		e.Notes = append(e.Notes, a.Error)
	}
	for _, v := range a.Rules {
		r := ruleExplanation{Rule: v.Rule, Applies: v.Matches, Mode: v.Mode, Why: v.Why}
		if v.Matches {
			r.ruleCharge = &ruleCharge{Key: v.Key, Limit: v.Limit, Cost: v.Cost, Allowed: v.Allowed}
			r.left(&v)
			if v.Mode == core.Shadow.String() {
				r.Notes = append(r.Notes, "shadow: denies nobody")
			}
			if v.Hidden {
				r.Notes = append(r.Notes, hiddenNote)
			}
		}
		e.Rules = append(e.Rules, r)
	}
	return e, nil
}

// withLimiters adds the names of the page's limiters to an error about an unknown limiter.
func (p *page) withLimiters(ctx context.Context, limiter string, err error) error {
	var why *refusal
	var shot operator.Snapshot
	if !errors.As(err, &why) || why.status != http.StatusNotFound ||
		p.ask(ctx, "api/snapshot", nil, &shot) != nil || len(shot.Rules) == 0 {
		return err
	}
	var all []string
	for _, rule := range shot.Rules {
		if !slices.Contains(all, rule.Limiter) {
			all = append(all, rule.Limiter)
		}
	}
	if limiter == "" {
		return fmt.Errorf("the page has several limiters: name one by --limiter: %s",
			strings.Join(all, ", "))
	}
	return fmt.Errorf("%w: name one by --limiter", err) // the page lists the names
}

// askKeys adds to e, an explanation by a file, the remaining quotas from the page for the same
// keys.
func (p *page) askKeys(
	ctx context.Context, limiter string, e *explanation, answers []answer, digest string,
) error {
	e.page = true
	for i := range answers {
		a, r := &answers[i], &e.Rules[i]
		if a.RuleDecision == nil || a.err != nil {
			continue
		}
		var said operator.Reply
		q := operator.Question{
			Limiter: limiter, Rule: r.Rule, Key: &a.Key, Limit: a.Limit().String(),
		}
		err := p.ask(ctx, "api/explain", q, &said)
		var why *refusal
		switch {
		case errors.As(err, &why) && why.status == http.StatusNotFound &&
			strings.Contains(why.text, "there is no rule"):
			r.Notes = append(r.Notes, "the running program has no such rule")
		case err != nil:
			return p.withLimiters(ctx, limiter, err)
		case len(said.Rules) == 1:
			r.compare(a, &said.Rules[0])
		}
	}
	e.judge()
	var shot operator.Snapshot
	if err := p.ask(ctx, "api/snapshot", nil, &shot); err != nil {
		return err
	}
	if shot.Policy != nil && shot.Policy.Digest != digest {
		e.Notes = append(e.Notes,
			fmt.Sprintf("The page shows another policy in force, of %s: rules, keys and limits "+
				"there may differ.", shot.Policy.Source))
	}
	return nil
}
