package policy

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/files/follow"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/shed"
)

// Policy is a policy file for requests of type R. It is immutable and safe for concurrent use. Make
// one with [Load] or [Parse].
type Policy[R any] struct {
	file   *fileText
	names  Names[R]
	places places[R]
	rules  []core.Rule[R]
}

// Load reads the policy file at path. Its error reports every mistake of the file (see [Mistakes]),
// or why the file cannot be read.
func Load[R any](path string, names Names[R]) (*Policy[R], error) {
	text, err := follow.Read(path, maxSize)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return Parse(path, text, names)
}

// Parse is [Load] for a text. name is the file name in mistakes, and [Watch] reads the file of that
// name.
func Parse[R any](name string, text []byte, names Names[R]) (*Policy[R], error) {
	f, err := readFile(name, text)
	if err != nil {
		return nil, err
	}
	names = names.complete()
	if mistakes := names.missing(f); len(mistakes) > 0 {
		return nil, collect(mistakes)
	}
	f.readPaths(names.AnyServer)
	return &Policy[R]{f, names, names.places(), build(f, names)}, nil
}

// Check checks a file without the functions of the program: it assumes that the program supplies
// all names declared under program. Its error is that of [Parse].
func Check(name string, text []byte) error {
	_, err := readFile(name, text)
	return err
}

// Rules returns the rules of p for a limiter's Config, including rules of mode disabled. Overrides
// look up the key that the rule's Key returns: a program that wraps Key must pass the original key
// to LimitFor. The caller owns the slice.
func (p *Policy[R]) Rules() []core.Rule[R] { return slices.Clone(p.rules) }

// Agents returns the agents section of the file, and whether it has one.
func (p *Policy[R]) Agents() (section Agents, ok bool) {
	if p.file.agents == nil {
		return Agents{}, false
	}
	return *p.file.agents, true
}

// Digest returns the SHA-256 of the file in hexadecimal. Compare it to see whether all servers use
// the same file.
func (p *Policy[R]) Digest() string { return p.file.digest }

// Expired returns one line for each override of p that ended before now. Such an override has no
// effect and can be removed from the file. The lines contain no key.
func (p *Policy[R]) Expired(now time.Time) []string { return p.file.expired(time.Time{}, now) }

// Changes returns the differences between old and p, in the order of the file. Comments and names
// under program do not count. If old is nil, every rule is new.
func (p *Policy[R]) Changes(old *Policy[R]) []Change {
	if old == nil {
		return changes(&fileText{}, p.file)
	}
	return changes(old.file, p.file)
}

// Shed returns the options of a shedder from the shed section of p, and whether p has one. Pass
// them to [shed.New] or to Replace of a shedder; the program may set further fields each time.
// Without a shed section, Mode is [core.Disabled]: removing the section from the file switches the
// shedder off.
//
// A request belongs to the first class that it certainly matches, otherwise to the last class. It
// is exempt only if it certainly matches. No spelling of a path makes a request more important.
func (p *Policy[R]) Shed() (options shed.Options[R], ok bool) {
	return shedOptions(p.file.shed, p.places), p.file.shed != nil
}

// Status returns a new Status. It records that p came into force now.
func (p *Policy[R]) Status() *Status {
	s := &Status{}
	put(s, p, nil)
	return s
}

// WhyNot returns, in words for people, why the named rule does not apply to r: the patterns that r
// does not match, the exception that it meets, or that the rule is disabled. It returns "" if the
// rule applies, if there is no such rule, or if a function of [Names] panics.
func (p *Policy[R]) WhyNot(rule string, r R) (why string) {
	defer func() {
		if recover() != nil {
			why = ""
		}
	}()
	for _, found := range p.file.rules {
		if found.name == rule {
			return p.whyNot(found, r)
		}
	}
	return ""
}

func (p *Policy[R]) whyNot(rule *rule, r R) string {
	if rule.mode == core.Disabled {
		return "the rule is disabled"
	}
	if len(rule.match) > 0 && !p.places.match(rule.match, r) {
		return "matches none of " + several(rule.match)
	}
	for i := range rule.except {
		c := rule.except[i : i+1]
		if c[0].list != "" && p.onList(c[0].list, r) || c[0].agent && p.isSigned(r) ||
			c[0].isPlace() && p.places.except(c, r) {
			return "is excepted by " + c[0].text
		}
	}
	if rule.absent == skip {
		source := func(k *key) func(R) (string, error) {
			return buildSource(k, &p.names, p.file.client)
		}
		if _, err := buildKey(rule.key, source)(r); errors.Is(err, core.ErrAbsent) {
			return "has no " + rule.key.name()
		}
	}
	return ""
}

// isSigned reports whether an agent has signed r.
func (p *Policy[R]) isSigned(r R) bool {
	_, err := p.names.agent(r)
	return err == nil
}

// onList reports whether the address of r is on a list. A request without an address is on no list.
func (p *Policy[R]) onList(name string, r R) bool {
	inside, err := keyfuncs.Inside(p.names.addressOf(p.file), p.file.lists.byName[name].ranges,
		keyfuncs.Constant[R](""))
	if err != nil {
		return false
	}
	_, err = inside(r)
	return err == nil
}

// maxNamed is the number of conditions that a text names. A rule may have thousands.
const maxNamed = 8

func several(conditions []condition) string {
	if len(conditions) <= maxNamed {
		return describeConditions(conditions)
	}
	named := describeConditions(conditions[:maxNamed])
	return fmt.Sprintf("%s and %d more", named, len(conditions)-maxNamed)
}
