package admin

import (
	"net/http"
	"time"
)

// Policy is where rules come from: the Status of package policy, or something else that
// follows a source of rules. Its methods must be safe for concurrent use, and their texts
// must not name keys.
type Policy interface {
	Source() string                        // such as the name of a file
	Digest() string                        // of the content in force
	Applied() time.Time                    // since when it is in force
	Differences() []string                 // what it changed, in lines for people
	Failure() (since time.Time, err error) // why newer content is not in force; nil: there is none
}

// reasoner is a [Policy] that says why a rule does not apply to a request; "" if it does
// not know.
type reasoner interface {
	WhyNot(rule string, r *http.Request) string
}
