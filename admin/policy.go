package admin

import (
	"net/http"
	"time"

	"github.com/weir-go/weir/internal/http/operator"
)

// Policy is the source of the rules: the Status of package policy, or another type that follows a
// source of rules. Its methods must be safe for concurrent use, and their texts must not contain
// keys.
type Policy interface {
	Source() string        // such as the name of a file
	Digest() string        // digest of the content in force
	Applied() time.Time    // when the content in force was applied
	Differences() []string // changes that it made, in lines for people
	// why newer content is not in force; nil if none
	Failure() (since time.Time, err error)
}

// reasoner is a [Policy] that knows why a rule does not apply to a request. It returns "" if it
// does not.
type reasoner interface {
	WhyNot(rule string, r *http.Request) string
}

// viewPolicy returns what the page shows of a policy. Without a policy it returns nil.
func viewPolicy(policy Policy) *operator.Policy {
	if policy == nil {
		return nil
	}
	v := &operator.Policy{
		Source: policy.Source(), Digest: policy.Digest(), Applied: operator.Millis(policy.Applied()),
		Differences: policy.Differences(),
	}
	if since, err := policy.Failure(); err != nil {
		v.FailingSince, v.Failure = operator.Millis(since), err.Error()
	}
	return v
}
