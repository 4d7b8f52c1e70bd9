package core

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/internal/ground/isnil"
	"github.com/weir-go/weir/internal/ground/perbackend"
	"github.com/weir-go/weir/internal/ground/turns"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// Override changes one rule of one process until an instant. A nil or zero field changes nothing.
// The zero Override ends the override in force.
type Override struct {
	Mode  *Mode        `json:",omitzero"` // nil: the rule's mode
	Limit limits.Limit `json:",omitzero"` // for all rules of the scope; zero: the rule's limit
	Until time.Time    `json:",omitzero"` // when it ends; required
	Why   string       `json:",omitzero"` // for people who read it
}

// target is what an override changes.
type target struct {
	rule  string
	isKey bool   // false: the rule, for all keys
	key   string // of the rule, if isKey is set
}

// maxKeyOverrides is how many overrides of keys a limiter has at most. Each change of them copies all.
const maxKeyOverrides = 1000

// override is an Override in force.
type override struct {
	Override
	timer *time.Timer
}

// clone returns a copy of o that shares no pointer with it.
func (o Override) clone() Override {
	if o.Mode != nil {
		mode := *o.Mode
		o.Mode = &mode
	}
	return o
}

// rulebook is the rules of a limiter, which may change. It owns the rule set in force, the
// overrides, and what outlives a change: the ledger, the memory of Local rules and the fallback.
type rulebook[R any] struct {
	current atomic.Pointer[ruleSet[R]]
	backend backends.Backend
	prepare preparer[R]  // nil: the Observer is no preparer
	observe Observer     // nil: none
	turns   *turns.Table // nil: denied requests are promised nothing

	mu        sync.Mutex // guards the fields below
	config    Config[R]  // with the Rules of New or the last Replace
	revision  int32      // of the latest ruleSet
	overrides map[target]*override
	ledger    *ledger // nil: no rule had an end so far
	// for Local rules; nil: no rule was Local so far, or backend is in this process
	local    *memory.Memory
	fallback func() backends.Backend // nil: no rule fell back so far
	uses     *uses                   // of all limiters on backend; nil: there is no other limiter
}

// open puts the first rules into force, or reports every mistake in config.
func (book *rulebook[R]) open(config Config[R]) error {
	err := config.validate()
	if book.backend = config.Backend; book.backend == nil {
		book.backend = memory.MustNew(memory.Options{})
	}
	if !isnil.Of(config.Backend) {
		book.uses = usesOf.Of(book.backend)
		err = errors.Join(err, book.uses.validate(usedBy(config.Rules, book.backend)))
	}
	if err != nil {
		return err
	}
	book.config = config
	book.turns = turns.New(config.MaxPromise)
	book.prepare, book.observe = prepares[R](config.Observer)
	rules, err := book.compile(config.Rules, nil)
	if err != nil {
		return err
	}
	book.config.Rules = slices.Clone(config.Rules)
	if book.uses != nil {
		if err := book.uses.add(usedBy(config.Rules, book.backend)); err != nil {
			return err // another limiter was made meanwhile
		}
	}
	book.current.Store(rules)
	return nil
}

// replace is [Limiter.Replace].
func (book *rulebook[R]) replace(rules []Rule[R]) error {
	book.mu.Lock()
	defer book.mu.Unlock()
	rules = slices.Clone(rules)
	overrides := maps.Clone(book.overrides)
	maps.DeleteFunc(overrides, func(of target, _ *override) bool { return indexOf(rules, of.rule) < 0 })
	return book.install(rules, overrides)
}

// install puts rules with overrides into force. If it fails, it changes nothing. The caller holds
// book.mu.
func (book *rulebook[R]) install(rules []Rule[R], overrides map[target]*override) error {
	config := book.config
	config.Rules = rules
	if err := config.validate(); err != nil { // without overrides, since they end
		return err
	}
	if len(overrides) > 0 {
		config.Rules = overridden(rules, overrides)
		if err := config.validate(); err != nil {
			return prefixEach("with the overrides in force: ", err)
		}
	}
	byScope, err := book.keyLimits(config.Rules, overrides)
	if err != nil {
		return prefixEach("with the overrides in force: ", err)
	}
	set, err := book.compile(config.Rules, byScope)
	if err != nil {
		return err
	}
	book.current.Store(set)
	if book.uses != nil {
		before := usedBy(overridden(book.config.Rules, book.overrides), book.backend)
		book.uses.replace(before, usedBy(config.Rules, book.backend))
	}
	for of, o := range book.overrides {
		if overrides[of] != o {
			o.timer.Stop()
		}
	}
	book.config.Rules, book.overrides = rules, overrides
	return nil
}

// overridden returns rules with overrides applied. It does not override the limit of a rule with a
// LimitFor.
func overridden[R any](rules []Rule[R], overrides map[target]*override) []Rule[R] {
	if len(overrides) == 0 {
		return rules
	}
	rules = slices.Clone(rules)
	for i := range rules {
		o := overrides[target{rule: rules[i].Name}]
		if o == nil {
			continue
		}
		if o.Mode != nil {
			rules[i].Mode = *o.Mode
		}
		if o.Limit == (limits.Limit{}) || rules[i].varies() {
			continue
		}
		for j := range rules {
			if rules[j].scopeOrName() == rules[i].scopeOrName() {
				rules[j].Limit = o.Limit
			}
		}
	}
	return rules
}

var errNoRule = errors.New("there is no rule of this name")

func indexOf[R any](rules []Rule[R], name string) int {
	return slices.IndexFunc(rules, func(rule Rule[R]) bool { return rule.Name == name })
}

// keyLimits returns the limits of overridden keys by scope and key.
func (book *rulebook[R]) keyLimits(
	rules []Rule[R], overrides map[target]*override,
) (byScope map[string]map[string]limits.Limit, err error) {
	for of, o := range overrides {
		if !of.isKey {
			continue
		}
		rule := &rules[indexOf(rules, of.rule)]
		if err := rule.validateKeyLimit(o.Limit, book.backendOf(rule)); err != nil {
			return nil, fmt.Errorf("core: rule %q: limit of a key: %w", of.rule, err)
		}
		scope := rule.scopeOrName()
		if byScope == nil {
			byScope = make(map[string]map[string]limits.Limit)
		}
		if byScope[scope] == nil {
			byScope[scope] = make(map[string]limits.Limit)
		}
		if other, ok := byScope[scope][of.key]; ok && other != o.Limit {
			return nil, fmt.Errorf(
				"core: rule %q: scope: a key has another override under a rule of %q: end that one first", of.rule, scope)
		}
		byScope[scope][of.key] = o.Limit
	}
	return byScope, nil
}

// compile returns the ruleSet of rules, which are valid and include overrides. byScope has the limits
// of overridden keys.
func (book *rulebook[R]) compile(
	rules []Rule[R], byScope map[string]map[string]limits.Limit,
) (*ruleSet[R], error) {
	has := func(f func(rule Rule[R]) bool) bool { return slices.ContainsFunc(rules, f) }
	set := &ruleSet[R]{
		backend:   book.backend,
		fallback:  book.fallbackFor(has(func(rule Rule[R]) bool { return rule.OnFailure == FallBack })),
		instances: book.config.Instances,
		observe:   book.observe,
		turns:     book.turns,
	}
	if !backends.IsInProcess(book.backend) && has(func(rule Rule[R]) bool { return rule.Local }) {
		if book.local == nil {
			book.local = memory.MustNew(memory.Options{})
		}
		set.local = book.local
	}
	if has(func(rule Rule[R]) bool { return rule.hasEnd() }) {
		if book.ledger == nil {
			book.ledger = newLedger(book.backend, book.fallbackFor(true), book.observe)
		}
		// Never nil again: requests of former Local rules may be in flight.
		book.ledger.local.Store(book.local)
		set.ledger = book.ledger
	}
	set.endings = book.ledger
	book.revision++
	set.revision = book.revision
	if book.prepare != nil {
		if err := book.prepare.Prepare(set.revision, rules); err != nil {
			return nil, err
		}
	}
	for i, rule := range rules {
		if rule.Mode == Disabled {
			continue
		}
		enforced := rule.identity(i)
		shadowed := enforced
		shadowed.mode = Shadow
		b := book.backendOf(&rule)
		digester, _ := backends.As[backends.Digester](b)
		byKey := byScope[rule.scopeOrName()]
		set.rules = append(set.rules, compiledRule[R]{
			enforced, shadowed, rule, b, digester, byKey, rule.varies() || byKey != nil,
		})
	}
	n := len(set.rules)
	set.fast = set.findFastPath()
	set.scratch.New = func() any {
		s := newScratch(n)
		if set.local != nil {
			s.local = newScratch(n)
		}
		return s
	}
	return set, nil
}

// fallbackFor returns the function that returns the fallback, or nil if no rule needs one. It never
// changes once it is set.
func (book *rulebook[R]) fallbackFor(needed bool) func() backends.Backend {
	if !needed || book.fallback != nil {
		return book.fallback
	}
	if fallback := book.config.Fallback; fallback != nil {
		book.fallback = func() backends.Backend { return fallback }
	} else {
		book.fallback = fallbacks.Of(book.backend).backend
	}
	return book.fallback
}

// backendOf returns the backend that decides rule.
func (book *rulebook[R]) backendOf(rule *Rule[R]) backends.Backend {
	if rule.Local && book.local != nil {
		return book.local
	}
	return book.backend
}

// override is [Limiter.Override].
func (book *rulebook[R]) override(rule string, o Override) error {
	book.mu.Lock()
	defer book.mu.Unlock()
	if err := book.validateOverride(rule, &o); err != nil {
		return prefixEach(fmt.Sprintf("core: override of rule %q: ", rule), err)
	}
	return book.setOverride(target{rule: rule}, o)
}

// overrideKey is [Limiter.OverrideKey].
func (book *rulebook[R]) overrideKey(rule, key string, o Override) error {
	book.mu.Lock()
	defer book.mu.Unlock()
	of := target{rule, true, key}
	if err := book.validateKeyOverride(of, &o); err != nil {
		return prefixEach(fmt.Sprintf("core: override of a key of rule %q: ", rule), err)
	}
	return book.setOverride(of, o)
}

// setOverride puts o into force until its end. The zero Override ends the one in force.
func (book *rulebook[R]) setOverride(of target, o Override) error {
	overrides := maps.Clone(book.overrides)
	if o == (Override{}) {
		delete(overrides, of)
		return book.install(book.config.Rules, overrides)
	}
	if overrides == nil {
		overrides = make(map[target]*override)
	}
	added := &override{Override: o.clone()}
	overrides[of] = added
	if err := book.install(book.config.Rules, overrides); err != nil {
		return err
	}
	weakly := weak.Make(book) // the timer must not keep an unused limiter alive
	added.timer = time.AfterFunc(time.Until(o.Until), func() {
		if book := weakly.Value(); book != nil {
			book.endOverride(of, added)
		}
	})
	return nil
}

// validateUntil returns an error if o has no end, or one that has passed.
func (o *Override) validateUntil() error {
	switch {
	case o.Until.IsZero():
		return errors.New("until: is not set: say when it ends")
	case !o.Until.After(time.Now()):
		return fmt.Errorf("until: must be in the future (got %v)", o.Until.UTC().Format(time.RFC3339))
	}
	return nil
}

func (book *rulebook[R]) validateOverride(rule string, o *Override) error {
	i := indexOf(book.config.Rules, rule)
	if i < 0 {
		return errNoRule
	}
	if *o == (Override{}) {
		return nil
	}
	errs := []error{o.validateUntil()}
	if o.Mode != nil {
		if err := o.Mode.validate(); err != nil {
			errs = append(errs, fmt.Errorf("mode: %w", err))
		}
	}
	if o.Limit != (limits.Limit{}) {
		if err := o.Limit.Validate(); err != nil {
			errs = append(errs, prefixEach("limit: ", err))
		} else if book.config.Rules[i].varies() {
			errs = append(errs, errors.New(
				"limit: LimitFor, or a policy file's plan, finds it: override the mode"))
		} else if other := book.otherLimit(i, o.Limit); other != "" {
			errs = append(errs, fmt.Errorf(
				"limit: rule %q has the same scope and another override: clear that one first", other))
		}
	}
	return errors.Join(errs...)
}

func (book *rulebook[R]) validateKeyOverride(of target, o *Override) error {
	i := indexOf(book.config.Rules, of.rule)
	if i < 0 {
		return errNoRule
	}
	if *o == (Override{}) {
		return nil
	}
	errs := []error{o.validateUntil()}
	if o.Mode != nil {
		errs = append(errs, errors.New("mode: is that of all keys: leave it out, or override the rule"))
	}
	rule := &book.config.Rules[i]
	if err := rule.validateKeyLimit(o.Limit, book.backendOf(rule)); err != nil {
		errs = append(errs, prefixEach("limit: ", err))
	}
	count := 0
	for other, before := range book.overrides {
		if !other.isKey || other == of {
			continue
		}
		count++
		if other.key == of.key && before.Limit != o.Limit &&
			book.config.Rules[indexOf(book.config.Rules, other.rule)].scopeOrName() == rule.scopeOrName() {
			errs = append(errs, fmt.Errorf(
				"limit: rule %q has the same scope and another override of this key: end that one first", other.rule))
		}
	}
	if count >= maxKeyOverrides {
		errs = append(errs, fmt.Errorf(
			"%d keys have overrides, and no more may: end one, or change the rules", maxKeyOverrides))
	}
	return errors.Join(errs...)
}

// otherLimit returns the name of a rule that has the scope of rule i and is overridden with another
// limit, or "".
func (book *rulebook[R]) otherLimit(i int, limit limits.Limit) string {
	rules := book.config.Rules
	for j := range rules {
		o := book.overrides[target{rule: rules[j].Name}]
		if j != i && o != nil && o.Limit != (limits.Limit{}) && o.Limit != limit &&
			rules[j].scopeOrName() == rules[i].scopeOrName() {
			return rules[j].Name
		}
	}
	return ""
}

// endOverride ends an override if it is still in force.
func (book *rulebook[R]) endOverride(of target, ended *override) {
	book.mu.Lock()
	defer book.mu.Unlock()
	if book.overrides[of] != ended {
		return
	}
	overrides := maps.Clone(book.overrides)
	delete(overrides, of)
	if err := book.install(book.config.Rules, overrides); err != nil { // Prepare failed: try again
		ended.timer.Reset(time.Minute)
	}
}

// state returns the part of [State] that tells of rules and their ends.
func (book *rulebook[R]) state() State {
	book.mu.Lock()
	ledger, rules := book.ledger, book.rulesLocked()
	book.mu.Unlock()
	counted, _ := call.Instances(book.backend) // a panic is an error of the next fallback
	s := State{Rules: rules, Instances: max(book.config.Instances, counted)}
	if ledger != nil {
		s.Held, s.HeldSince = ledger.held()
	}
	return s
}

// rulesLocked returns the rules in force, in the order of [Config].Rules, with disabled rules.
func (book *rulebook[R]) rulesLocked() []RuleState {
	var states []RuleState
	for i, rule := range overridden(book.config.Rules, book.overrides) {
		given := &book.config.Rules[i]
		state := RuleState{
			Name: rule.Name, Scope: rule.scopeOrName(), KeyName: rule.KeyName, Limit: rule.Limit,
			Mode:  rule.Mode,
			Local: rule.Local, DenyAs503: rule.DenyAs503, Hidden: rule.Hidden,
			GivenLimit: given.Limit, GivenMode: given.Mode,
		}
		if o := book.overrides[target{rule: rule.Name}]; o != nil {
			state.Override = o.Override.clone()
		}
		states = append(states, state)
	}
	return states
}

// keyOverrides is [Limiter.KeyOverrides].
func (book *rulebook[R]) keyOverrides(rule string) map[string]Override {
	book.mu.Lock()
	defer book.mu.Unlock()
	found := make(map[string]Override)
	for of, o := range book.overrides {
		if of.isKey && of.rule == rule {
			found[of.key] = o.Override
		}
	}
	return found
}

// stateOf returns the backend and the scope of the state of a rule.
func (book *rulebook[R]) stateOf(rule string) (b backends.Backend, scope string, err error) {
	book.mu.Lock()
	defer book.mu.Unlock()
	rules := overridden(book.config.Rules, book.overrides)
	i := indexOf(rules, rule)
	switch {
	case i < 0:
		return nil, "", errNoRule
	case rules[i].holds():
		return nil, "", errors.New(
			"a concurrency limit has nothing to reset: its units are released when the requests end")
	}
	return book.backendOf(&rules[i]), rules[i].scopeOrName(), nil
}

// fallbacks has the default fallback of each backend. All limiters on the backend share it, so
// rules of one scope count together also while the backend fails.
var fallbacks = perbackend.Shared[*fallback]{New: func() *fallback { return new(fallback) }}

// fallback makes its Memory when it is first used.
type fallback struct {
	once   sync.Once
	memory *memory.Memory
}

func (f *fallback) backend() backends.Backend {
	f.once.Do(func() { f.memory = memory.MustNew(memory.Options{}) })
	return f.memory
}
