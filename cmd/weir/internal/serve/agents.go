package serve

import (
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"sync/atomic"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
)

// replays is the name of the rule by which a signature counts once.
const replays = "agent-replays"

// signers verify the signatures of agents, as the policy in force says.
type signers struct {
	logger  *slog.Logger
	read    verifying // of the file that was read last
	inForce atomic.Pointer[agents.Verifier]
}

// verifying is a verifier, and the section of the file that it is made of.
type verifying struct {
	section  policy.Agents
	verifier *agents.Verifier // nil: no file had such a section
}

// key implements Agents of [policy.Names]. A section that has not changed keeps its verifier, and
// with it the keys that were fetched.
func (s *signers) key(section policy.Agents) (func(*http.Request) (string, error), error) {
	if s.read.verifier == nil || !reflect.DeepEqual(section, s.read.section) {
		verifier, err := agents.New(s.config(section))
		if err != nil {
			return nil, err
		}
		s.read = verifying{section, verifier}
	}
	return s.read.verifier.Key, nil
}

func (s *signers) config(section policy.Agents) agents.Config {
	config := agents.Config{
		Authorities: section.Authorities, MaxLifetime: section.MaxLifetime, Unlisted: section.Unlisted,
		Previous: s.inForce.Load(),
		OnFetch: func(url string, keys int, err error) {
			if err != nil {
				s.logger.Warn("serve: a directory of an agent cannot be fetched", "url", url, "error", err)
				return
			}
			s.logger.Info("serve: a directory of an agent was fetched", "url", url, "keys", keys)
		},
	}
	for _, d := range section.Directories {
		directory := agents.Directory{URL: d.URL, Name: d.Name}
		if d.Keys != nil {
			directory.Keys = agents.KeySet(d.Keys...)
		}
		config.Directories = append(config.Directories, directory)
	}
	return config
}

// rules returns the rules of p, and the one by which a signature counts once.
func (s *signers) rules(p *policy.Policy[*http.Request]) []nethttp.Rule {
	rules := p.Rules()
	if _, ok := p.Agents(); ok {
		v := s.read.verifier
		rules = append(rules, nethttp.Rule{
			Name: replays, Limit: v.Once(), Key: v.Nonce, KeyName: "signature", OnFailure: core.FailClosed,
			Hidden: true,
		})
	}
	return rules
}

// suits returns an error if p begins or ends to verify signatures, which only a restart can do: a
// limiter keeps what answers its denials.
func (s *signers) suits(p *policy.Policy[*http.Request]) error {
	if _, ok := p.Agents(); ok != (s.inForce.Load() != nil) {
		return errors.New("the section agents has come or gone: start weir serve again, which reads it at its start")
	}
	return nil
}

// apply has denials ask for the signatures that p takes.
func (s *signers) apply(p *policy.Policy[*http.Request]) {
	if _, ok := p.Agents(); ok {
		s.inForce.Store(s.read.verifier)
	}
}

// denied answers a request that is denied, and asks it for a signature.
func (s *signers) denied(w http.ResponseWriter, r *http.Request, o core.Outcome) {
	s.inForce.Load().Challenge(nil)(w, r, o)
}
