package policy

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Names holds the functions that a program supplies to its policy files, by the names that files
// declare under program and use in rules. A file may use only some of them. The zero value supplies
// nothing; it is enough for net/http and chi with files that count by address, header or cookie. R
// is the request type of the framework.
type Names[R any] struct {
	// Request returns the net/http form of a request. nil: R is *http.Request.
	Request func(R) *http.Request

	// Route returns the pattern that the framework routed a request by, such as "/users/:id"; ""
	// before routing. Rules with route and the key route use it. nil: the Pattern
	// of an http.Request if R is *http.Request; otherwise files cannot use route.
	Route func(R) string

	// Keys holds key functions: see package keyfuncs.
	Keys map[string]func(R) (string, error)

	// Plans holds functions that return the plan of a request, such as "pro". A plan must depend on
	// the key alone. For [core.ErrAbsent], an empty plan and a plan that the rule does not list,
	// the default limit applies. Any other error counts as a failure of the rule, like an error of
	// a key function.
	Plans map[string]func(R) (string, error)

	// Costs holds functions that return how many units a request takes: see [core.Rule].
	Costs map[string]func(R) int64

	// Agents returns the key function of agent for the agents section of a file: the name of the agent
	// that has signed a request, or [core.ErrAbsent]. It is called each time that a file with this
	// section is parsed, and its error is a mistake of the file. Package keyfuncs/agents verifies
	// signatures. nil: files have no such section.
	Agents func(Agents) (func(R) (string, error), error)

	// Address returns the address of the client, and replaces the client section of the file. It is
	// for tools that know addresses from elsewhere, such as a log. nil: the file decides.
	Address func(R) (netip.Addr, error)

	// Now returns the current time for a request, which decides whether overrides have ended. It is
	// for tools that replay requests of another day. nil: the system clock.
	Now func(R) time.Time

	// AnyServer reads a file that says nothing of paths as if it said paths: any-server. It is for
	// services in front of programs that may not be written in Go.
	AnyServer bool

	agent func(R) (string, error) // what Agents has returned for the file
}

// complete returns names with defaults for requests of net/http.
func (names Names[R]) complete() Names[R] {
	if own, ok := any(&names).(*Names[*http.Request]); ok {
		if own.Request == nil {
			own.Request = func(r *http.Request) *http.Request { return r }
		}
		if own.Route == nil {
			own.Route = func(r *http.Request) string { return r.Pattern }
		}
	}
	return names
}

// missing reports the functions that f uses and names does not supply.
func (names *Names[R]) missing(f *fileText) (mistakes []*Mistake) {
	d := &decoder{file: f.name}
	supplied := func(kind string, words []word, keys []string, isNil func(string) bool) {
		for _, w := range words {
			if !isNil(w.text) {
				continue
			}
			slices.Sort(keys)
			has := "it supplies " + strings.Join(keys, ", ")
			if len(keys) == 0 {
				has = "it supplies none"
			}
			d.in("program."+kind, func() {
				d.mistake(w.at, "the program does not supply %s: remove it, or add it to %s of "+
					"policy.Names (%s)", quote(w.text), strings.ToUpper(kind[:1])+kind[1:], has)
			})
		}
	}
	supplied("keys", f.declared.keys.words, namesOf(names.Keys),
		func(s string) bool { return names.Keys[s] == nil })
	supplied("plans", f.declared.plans.words, namesOf(names.Plans),
		func(s string) bool { return names.Plans[s] == nil })
	supplied("costs", f.declared.costs.words, namesOf(names.Costs),
		func(s string) bool { return names.Costs[s] == nil })
	for _, r := range f.rules {
		d.rule = r.name
		if n := r.needsRequest(); n != nil && names.Request == nil {
			d.mistake(n, "reads the request of net/http, and the program has no Request in "+
				"policy.Names")
		}
		if n := r.needsRoute(); n != nil && names.Route == nil {
			d.mistake(n, "reads the route of the framework, and the program has no Route in "+
				"policy.Names")
		}
	}
	d.rule = ""
	if mistake := names.findAgents(f); mistake != "" {
		d.in("agents", func() { d.mistake(f.agentsAt, "%s", mistake) })
	}
	if all := f.shed.conditions(); len(all) > 0 && names.Request == nil {
		d.in("shed", func() {
			d.mistake(all[0].at, "reads the request of net/http, and the program has no Request in "+
				"policy.Names")
		})
	}
	return d.mistakes
}

// findAgents calls Agents for a file with such a section. It returns a mistake, or "".
func (names *Names[R]) findAgents(f *fileText) (mistake string) {
	if f.agents == nil {
		return ""
	}
	if names.Agents == nil {
		return "the program verifies no signatures: it has no Agents in policy.Names"
	}
	agent, err := names.Agents(*f.agents)
	if err != nil {
		return strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	names.agent = agent
	return ""
}

func namesOf[F any](functions map[string]F) (names []string) {
	for name := range functions {
		names = append(names, name)
	}
	return names
}

// places returns how to find out where requests lead.
func (names *Names[R]) places() places[R] { return places[R]{names.Request, names.Route} }

// addressOf returns the function that finds the address of a client for the lists of a file.
func (names *Names[R]) addressOf(f *fileText) func(R) (netip.Addr, error) {
	if names.Address != nil {
		return names.Address
	}
	return lift(names, func(r *http.Request) (netip.Addr, error) { return f.client.source(r) })
}

// lift turns a function of an http.Request into one of R.
func lift[R, T any](names *Names[R], f func(*http.Request) (T, error)) func(R) (T, error) {
	if direct, ok := any(f).(func(R) (T, error)); ok {
		return direct
	}
	request := names.Request
	return func(r R) (T, error) { return f(request(r)) }
}
