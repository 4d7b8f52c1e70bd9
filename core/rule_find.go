package core

import (
	"errors"
	"fmt"

	"github.com/weir-go/weir/internal/bounds"
	"github.com/weir-go/weir/limits"
)

// find calls the functions of rule on r and fills in ch.
func (rule *compiledRule[R]) find(r R, ch *limits.Charge) (err error) {
	ch.Key, err = rule.key(r)
	if err == nil && rule.varies {
		ch.Limit, err = rule.limitFor(r, ch.Key)
	}
	if err == nil && rule.Cost != nil {
		ch.Cost, err = rule.cost(r)
	}
	return err
}

// key calls rule.Key. A request without the key has the reserved key "".
func (rule *compiledRule[R]) key(r R) (key string, err error) {
	returned := false
	defer func() {
		if !returned {
			err = fmt.Errorf("key: panic: %v", recover())
		}
	}()
	key, err = rule.Key(r)
	returned = true
	if err != nil {
		return keyError(err)
	}
	return key, nil
}

func keyError(err error) (string, error) {
	switch {
	case errors.Is(err, ErrAbsent):
		return "", nil
	case errors.Is(err, ErrDoesNotApply):
		return "", err
	}
	return "", fmt.Errorf("key: %w", err)
}

func (rule *compiledRule[R]) limitFor(r R, key string) (limit limits.Limit, err error) {
	returned := false
	defer recovered("limit", &returned, &err)
	if rule.LimitForKey != nil {
		limit, err = rule.LimitForKey(r, key)
	} else {
		limit, err = rule.LimitFor(r)
	}
	returned = true
	if err == nil {
		err = limit.Validate()
	}
	if err == nil && limit.Algorithm() == limits.AlgorithmConcurrent {
		err = errors.New("LimitFor must not return a concurrency limit: give each its own rule, with When")
	}
	if err == nil && limit.Algorithm() > limits.AlgorithmSlidingLog && !limits.Supports(rule.backend, limit) {
		err = fmt.Errorf("the backend, a %T, does not decide %v limits", rule.backend, limit.Algorithm())
	}
	if err != nil {
		return limit, fmt.Errorf("limit: %w", err)
	}
	return limit, nil
}

func (rule *compiledRule[R]) cost(r R) (cost int64, err error) {
	returned := false
	defer recovered("cost", &returned, &err)
	cost = rule.Rule.Cost(r)
	returned = true
	if cost < 0 {
		return 0, fmt.Errorf("cost: must not be negative (got %d)", cost)
	}
	if cost > bounds.HeldCost && rule.isConcurrent() {
		return 0, fmt.Errorf("cost: must be at most %d under a concurrency limit (got %d)", bounds.HeldCost, cost)
	}
	return cost, nil
}

// recovered, deferred around a call of a rule's function, makes a panic in it
// an error like any other.
func recovered(function string, returned *bool, err *error) {
	if !*returned {
		*err = fmt.Errorf("%s: panic: %v", function, recover())
	}
}
