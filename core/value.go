package core

import (
	"errors"
	"fmt"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/failure"
	"github.com/weir-go/weir/limits"
)

// value calls rule.Value. A request without the value has the value "".
func (rule *compiledRule[R]) value(r R) (value string, err error) {
	returned := false
	defer rule.recovered(failure.Key, &returned, &err)
	value, err = rule.Value(r)
	returned = true
	switch {
	case err == nil:
		return value, nil
	case errors.Is(err, ErrAbsent):
		return "", nil
	case errors.Is(err, ErrDoesNotApply):
		return "", err
	}
	return "", rule.failed(failure.Key, fmt.Errorf("value: %w", err))
}

// countsValues reports whether rule counts the different values of a key.
func (rule *Rule[R]) countsValues() bool { return countsValues(rule.Limit) }

func countsValues(l limits.Limit) bool { return algorithm.Of(l.Algorithm()).Values }

const noCost = "a distinct limit has none: a new value takes one unit; remove "

// validateValue reports the mistakes of rule about values. A rule with a LimitFor has a Value if
// its limits count values.
func (rule *Rule[R]) validateValue() error {
	var errs []error
	switch {
	case rule.Value == nil && !rule.countsValues():
		return nil
	case rule.Value == nil:
		errs = append(errs, errors.New("value: is nil: "+
			"a distinct limit counts different values, and Value says which: set it"))
	case !rule.varies() && !rule.countsValues():
		return errors.New("value: only a distinct limit counts values: " +
			"remove Value, or set Limit to a limits.Distinct")
	}
	if rule.Cost != nil {
		errs = append(errs, errors.New("cost: "+noCost+"Cost"))
	}
	if rule.FinalCost != nil {
		errs = append(errs, errors.New("final cost: "+noCost+"FinalCost"))
	}
	if rule.Unit != Requests {
		errs = append(errs, errors.New("unit: a distinct limit counts values: remove Unit"))
	}
	return errors.Join(errs...)
}
