package core

import (
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/bounds"
	"github.com/weir-go/weir/internal/ground/failure"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// compiledRule is a rule of a [ruleSet].
type compiledRule[R any] struct {
	ruleIdentity              // for keys for which the rule is enforced
	shadowed     ruleIdentity // for the other keys
	Rule[R]
	backend  backends.Backend
	digester backends.Digester       // nil: see valueSeed
	byKey    map[string]limits.Limit // of overridden keys; nil: none
	varies   bool                    // whether limitFor finds the limit
}

// find calls the functions of rule on r, and fills in ch.
func (rule *compiledRule[R]) find(r R, ch *backends.Charge) (err error) {
	ch.Key, err = rule.key(r)
	if err == nil && rule.varies {
		ch.Limit, err = rule.limitFor(r, ch.Key)
	}
	if err == nil && rule.Value != nil {
		ch.Value, err = rule.value(r, ch.Key)
	}
	if err == nil && rule.Cost != nil {
		ch.Cost, err = rule.cost(r)
	}
	return err
}

// key calls rule.Key. A request without the key gets the reserved key "".
func (rule *compiledRule[R]) key(r R) (key string, err error) {
	returned := false
	defer func() {
		if !returned {
			err = rule.failed(failure.Key, &failure.Panic{Value: recover()})
		}
	}()
	key, err = rule.Key(r)
	returned = true
	if err != nil {
		return rule.keyError(err)
	}
	return key, nil
}

func (rule *compiledRule[R]) keyError(err error) (string, error) {
	switch {
	case errors.Is(err, ErrAbsent):
		return "", nil
	case errors.Is(err, ErrDoesNotApply):
		return "", err
	}
	return "", rule.failed(failure.Key, err)
}

// failed returns the error of an outcome in which a part of rule failed with err.
func (rule *compiledRule[R]) failed(part failure.Part, err error) error {
	return &failure.Error{Rule: rule.name, Part: part, Closed: rule.OnFailure == FailClosed, Err: err}
}

func (rule *compiledRule[R]) limitFor(r R, key string) (limit limits.Limit, err error) {
	if limit, ok := rule.byKey[key]; ok {
		return limit, nil
	}
	if rule.LimitFor == nil {
		return rule.Limit, nil
	}
	returned := false
	defer rule.recovered(failure.Limit, &returned, &err)
	limit, err = rule.LimitFor(r, key)
	returned = true
	if err != nil {
		return limit, rule.failed(failure.Limit, err)
	}
	if err := rule.validateFound(limit); err != nil {
		return limit, rule.failed(failure.Limit, &failure.Safe{Err: err})
	}
	return limit, nil
}

// validateFound reports a mistake in a limit that LimitFor returned.
func (rule *compiledRule[R]) validateFound(limit limits.Limit) error {
	switch err := limit.Validate(); {
	case err != nil:
		return err
	case algorithm.Of(limit.Algorithm()).Held:
		return errors.New("LimitFor must not return a concurrency limit: give each its " +
			"own rule, with When")
	case countsValues(limit) != (rule.Value != nil):
		return errors.New("LimitFor must return distinct limits if the rule has a Value, and " +
			"otherwise none")
	case !backends.Supports(rule.backend, limit):
		return fmt.Errorf("the backend, a %T, does not decide %v limits", rule.backend, limit.Algorithm())
	}
	return nil
}

func (rule *compiledRule[R]) cost(r R) (cost int64, err error) {
	returned := false
	defer rule.recovered(failure.Cost, &returned, &err)
	cost = rule.Rule.Cost(r)
	returned = true
	switch {
	case cost < 0:
		err = fmt.Errorf("must not be negative (got %d)", cost)
	case cost > bounds.HeldCost && rule.holds():
		err = fmt.Errorf("must be at most %d under a concurrency limit (got %d)", bounds.HeldCost, cost)
	}
	if err != nil {
		return 0, rule.failed(failure.Cost, &failure.Safe{Err: err})
	}
	return cost, nil
}

// recovered turns a panic in a function of rule into an error. Defer it before the call.
func (rule *compiledRule[R]) recovered(part failure.Part, returned *bool, err *error) {
	if !*returned {
		*err = rule.failed(part, &failure.Panic{Value: recover()})
	}
}

// as returns the identity of rule for a key: enforced or shadow.
func (rule *compiledRule[R]) as(key string) *ruleIdentity {
	if rule.Mode == Enforce || rule.Mode > 0 && rule.Mode.enforces(shareHash(rule.name, key)) {
		return &rule.ruleIdentity
	}
	return &rule.shadowed
}

// valueSeed makes the numbers of values, unless a [backends.Digester] does. It is secret, so a client
// cannot choose values that collide.
var valueSeed = maphash.MakeSeed()

// value calls rule.Value and returns the number of the result. A request without the value has the
// value "".
func (rule *compiledRule[R]) value(r R, key string) (number uint64, err error) {
	returned := false
	defer rule.recovered(failure.Key, &returned, &err)
	value, err := rule.Value(r)
	switch {
	case err == nil:
	case errors.Is(err, ErrAbsent):
		value, err = "", nil
	case !errors.Is(err, ErrDoesNotApply):
		err = rule.failed(failure.Key, fmt.Errorf("value: %w", err))
	}
	switch {
	case err != nil:
	case rule.digester == nil:
		number = maphash.String(valueSeed, value)
	default:
		number = rule.digester.Digest(rule.scope, key, value)
	}
	returned = true
	return number, err
}
