package admin

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// overrider shows, sets and ends overrides of rules and of single keys, each by a URL of its own. It is
// for programs: PUT says what is to be, so it can be repeated, and If-Match keeps two programs apart.
type overrider struct {
	limiters *limiters
	rows     *rows
	mask     *masker
	changer  *changer
}

// overrideRequest is the content of a PUT.
type overrideRequest struct {
	Key   *string // for a URL with a digest, unless the key has an override
	Mode  string  // of a rule; "": that of the rule
	Limit string  // "": that of the rule
	Until string  // a time in RFC 3339, or a duration from now, such as "90m"; "": an hour
	Why   string
}

// overrideView is an override in force.
type overrideView struct {
	Limiter, Rule string
	Kind          string `json:",omitempty"` // of Key
	Key           string `json:",omitempty"` // as the page shows it
	ID            string `json:",omitempty"` // of the row of Key, for a URL
	Mode          string `json:",omitempty"`
	Limit         string `json:",omitempty"`
	Until         string // RFC 3339, UTC
	Why           string `json:",omitempty"`
}

// overridden is what the URL of an override names.
type overridden struct {
	name    string // of the limiter
	limiter Limiter
	keys    KeyOverrider // nil: the rule itself is named
	state   core.RuleState
	part    string // of the path, for the key: its digest, or the ID of a row
	key     string
}

// named returns what a path below api/overrides names, such as "/api/per-client", without its key.
func (v *overrider) named(path string) (*overridden, error) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if len(parts) < 2 || len(parts) > 3 {
		return nil, &failure{http.StatusNotFound, "an override has the path api/overrides/LIMITER/RULE, and that of one " +
			"key api/overrides/LIMITER/RULE/DIGEST: GET api/overrides lists those in force"}
	}
	for i, part := range parts {
		text, err := url.PathUnescape(part)
		if err != nil {
			return nil, &failure{http.StatusBadRequest, "the path is not escaped as one of a URL"}
		}
		parts[i] = text
	}
	of := new(overridden)
	var err error
	if of.name, of.limiter, err = v.limiters.named(parts[0]); err == nil {
		of.state, err = ruleOf(of.limiter, parts[1])
	}
	if err != nil || len(parts) == 2 {
		return of, err
	}
	if of.keys, _ = of.limiter.(KeyOverrider); of.keys == nil {
		return nil, &failure{http.StatusUnprocessableEntity, "this limiter cannot override single keys: override the rule"}
	}
	of.part = parts[2]
	return of, nil
}

// findKey sets the key that of.part names: that of a row, or one with an override.
func (v *overrider) findKey(of *overridden) bool {
	if r, ok := v.rows.find(of.part); ok && r.limiter == of.name && r.rule == of.state.Name {
		of.key = r.key
		return true
	}
	for key := range of.keys.KeyOverrides(of.state.Name) {
		if keyDigest(key) == of.part {
			of.key = key
			return true
		}
	}
	return false
}

// keyDigest returns the digest of a key, as keyfuncs.Digest does. The key of a credential is such a
// digest, and stays as it is.
func keyDigest(key string) string {
	if formOf(key) == "credential" {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

const toDigest = "printf %s KEY | sha256sum | cut -c1-32 prints it"

// chooseKey sets the key that of.part and the content of a PUT name.
func (v *overrider) chooseKey(of *overridden, key *string) error {
	bad := func(text string) error { return &failure{http.StatusBadRequest, text} }
	known := v.findKey(of)
	switch {
	case !known && key == nil:
		return bad("say which key: Key of the content, whose digest is the last part of the path: " + toDigest)
	case known && key != nil && *key != of.key:
		return bad("the last part of the path names another key than Key of the content")
	case !known && keyDigest(*key) != of.part:
		return bad("the last part of the path must be the digest of Key: " + toDigest)
	case !known && len(*key) > maxRowKey:
		return bad(fmt.Sprintf("key: must have at most %d bytes (got %d)", maxRowKey, len(*key)))
	case !known:
		of.key = *key
	}
	return nil
}

// current returns the override in force; zero: none.
func (of *overridden) current() core.Override {
	if of.keys != nil {
		return of.keys.KeyOverrides(of.state.Name)[of.key]
	}
	state, err := ruleOf(of.limiter, of.state.Name)
	if err != nil {
		return core.Override{} // the rule has gone
	}
	return state.Override
}

func (of *overridden) set(o core.Override) error {
	if of.keys != nil {
		return of.keys.OverrideKey(of.state.Name, of.key, o)
	}
	return of.limiter.Override(of.state.Name, o)
}

// change returns the record of a change of what of names. actions are its names for a rule and a key.
func (v *overrider) change(of *overridden, who Person, actions [2]string) *Change {
	c := &Change{Who: who.Name, Action: actions[0], Limiter: of.name, Rule: of.state.Name}
	if of.keys != nil {
		c.Action, c.Key = actions[1], v.mask.text(of.key, of.state.KeyName)
	}
	return c
}

// view returns what an answer says of an override.
func (v *overrider) view(of *overridden, o *core.Override) overrideView {
	view := overrideView{
		Limiter: of.name, Rule: of.state.Name, Limit: limitText(o.Limit), Until: o.Until.UTC().Format(time.RFC3339Nano),
		Why: o.Why,
	}
	if o.Mode != nil {
		view.Mode = o.Mode.String()
	}
	if of.keys != nil {
		view.Kind, view.Key = v.mask.show(of.key, of.state.KeyName)
		view.ID = v.rows.id(row{of.name, of.state.Name, of.key, o.Limit}, time.Now())
	}
	return view
}

// overrideTag returns the entity tag of an override in force (RFC 9110, section 8.8.3).
func overrideTag(o *core.Override) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s %d %s", overrideText(o), o.Until.UnixNano(), o.Why)))
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

// precondition returns an error unless the If-Match and If-None-Match of r suit the override in force
// (RFC 9110, section 13.1).
func precondition(r *http.Request, o *core.Override) error {
	isThere := !o.Until.IsZero()
	matches := func(field string) (set, matches bool) {
		lines := r.Header.Values(field)
		for tag := range strings.SplitSeq(strings.Join(lines, ","), ",") {
			if tag = strings.TrimSpace(tag); isThere && (tag == "*" || tag == overrideTag(o)) {
				return true, true
			}
		}
		return lines != nil, false
	}
	if set, ok := matches("If-Match"); set && !ok {
		return &failure{http.StatusPreconditionFailed,
			"the override has changed, or there is none: GET it, and send its ETag in If-Match"}
	}
	if set, ok := matches("If-None-Match"); set && ok {
		return &failure{http.StatusPreconditionFailed, "there is such an override: leave If-None-Match out to replace it"}
	}
	return nil
}

// read answers with all overrides in force, or with that of a path.
func (v *overrider) read(w http.ResponseWriter, path string) {
	if path == "" || path == "/" {
		answer(w, struct{ Overrides []overrideView }{v.list()})
		return
	}
	of, err := v.named(path)
	if err != nil {
		refuseFor(w, err)
		return
	}
	if of.keys == nil || v.findKey(of) {
		if o := of.current(); !o.Until.IsZero() {
			w.Header().Set("ETag", overrideTag(&o))
			answer(w, v.view(of, &o))
			return
		}
	}
	refuseFor(w, errNoOverride)
}

var errNoOverride = &failure{
	http.StatusNotFound, "there is no such override in force: GET api/overrides lists them. The digest of a key has 32 " +
		"characters: " + toDigest,
}

// list returns all overrides in force: those of a rule before those of its keys, which end first.
func (v *overrider) list() []overrideView {
	views := []overrideView{}
	for _, name := range v.limiters.names {
		limiter := v.limiters.byName[name]
		keys, _ := limiter.(KeyOverrider)
		for _, state := range limiter.State().Rules {
			of := &overridden{name: name, limiter: limiter, state: state}
			if o := &state.Override; !o.Until.IsZero() {
				views = append(views, v.view(of, o))
			}
			if keys == nil {
				continue
			}
			of.keys = keys
			var some []overrideView
			for key, o := range keys.KeyOverrides(state.Name) {
				of.key = key
				some = append(some, v.view(of, &o))
			}
			slices.SortFunc(some, func(a, b overrideView) int {
				return cmp.Or(strings.Compare(a.Until, b.Until), strings.Compare(a.ID, b.ID))
			})
			views = append(views, some...)
		}
	}
	return views
}

// put sets the override of a path.
func (v *overrider) put(w http.ResponseWriter, r *http.Request, who Person, path string) {
	var q overrideRequest
	if !decode(w, r, &q) {
		return
	}
	of, err := v.named(path)
	switch {
	case err != nil:
	case of.keys != nil:
		err = v.chooseKey(of, q.Key)
	case q.Key != nil:
		err = &failure{http.StatusBadRequest, "the path of one key ends with its digest: " + toDigest}
	}
	var until time.Time
	if err == nil {
		until, err = parseUntil(q.Until)
	}
	if err != nil {
		refuseFor(w, err)
		return
	}
	c := v.change(of, who, [2]string{"override", "override-key"})
	c.Until, c.Why, c.To = until, shortened(q.Why), shortened(strings.TrimSpace(q.Mode+" "+q.Limit))
	var before, after core.Override
	unchanged := false
	c.Err = v.changer.attempt(r.Context(), func() error {
		v.changer.mu.Lock()
		defer v.changer.mu.Unlock()
		before = of.current()
		c.From = overrideText(&before)
		if err := precondition(r, &before); err != nil {
			return err
		}
		var err error
		if after, err = q.override(c); err != nil {
			return err
		}
		c.To = overrideText(&after)
		if unchanged = !before.Until.IsZero() && overrideTag(&before) == overrideTag(&after); unchanged {
			return nil
		}
		return of.set(after)
	})
	if !unchanged {
		v.changer.record(r.Context(), c)
	}
	if c.Err != nil {
		refuseFor(w, c.Err)
		return
	}
	w.Header().Set("ETag", overrideTag(&after))
	if before.Until.IsZero() {
		answerWith(w, http.StatusCreated, v.view(of, &after))
		return
	}
	answer(w, v.view(of, &after))
}

// override returns the override that q asks for.
func (q *overrideRequest) override(c *Change) (o core.Override, err error) {
	o.Until, o.Why = c.Until, c.reason()
	if q.Mode != "" {
		mode, err := core.ParseMode(q.Mode)
		if err != nil {
			return o, err
		}
		o.Mode = &mode
	}
	if q.Limit != "" {
		if o.Limit, err = limits.Parse(q.Limit); err != nil {
			return o, err
		}
	}
	if o.Mode == nil && q.Limit == "" {
		return o, &failure{http.StatusBadRequest, "say what changes: Limit, or Mode of a rule"}
	}
	return o, nil
}

// parseUntil returns the end of an override: a time, or a duration from now. "" is an hour from now.
func parseUntil(text string) (time.Time, error) {
	now := time.Now()
	if text == "" {
		return now.Add(defaultTime), nil
	}
	until, err := time.Parse(time.RFC3339, text)
	if lasts, isDuration := time.ParseDuration(text); isDuration == nil {
		until, err = now.Add(lasts), nil
	}
	if err != nil || !until.After(now) || until.Sub(now) > maxTime {
		return until, &failure{http.StatusBadRequest, "until: must be a time within the next 24 hours, as in " +
			"2026-11-30T18:00:00Z, or a duration such as 90m: for longer, change the rules"}
	}
	return until, nil
}

// remove ends the override of a path.
func (v *overrider) remove(w http.ResponseWriter, r *http.Request, who Person, path string) {
	of, err := v.named(path)
	if err == nil && of.keys != nil && !v.findKey(of) {
		err = errNoOverride
	}
	if err != nil {
		refuseFor(w, err)
		return
	}
	c := v.change(of, who, [2]string{"clear", "clear-key"})
	c.To = overrideText(&core.Override{})
	isThere := false
	c.Err = v.changer.attempt(r.Context(), func() error {
		v.changer.mu.Lock()
		defer v.changer.mu.Unlock()
		before := of.current()
		if isThere = !before.Until.IsZero(); !isThere {
			return errNoOverride
		}
		c.From = overrideText(&before)
		if err := precondition(r, &before); err != nil {
			return err
		}
		return of.set(core.Override{})
	})
	if isThere {
		v.changer.record(r.Context(), c)
	}
	if c.Err != nil {
		refuseFor(w, c.Err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
