package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend/internal/wire"
)

// takings decides requests: in one step if one partition keeps all keys, otherwise group by group.
type takings struct {
	servers    *servers
	holds      *holds
	giveBacks  *giveBacks
	returnable scopeSet  // scopes whose units may be given back
	requests   sync.Pool // of *request
}

func newTakings(g *giveBacks) *takings {
	t := &takings{servers: g.servers, holds: g.holds, giveBacks: g}
	t.requests.New = func() any { return new(request) }
	return t
}

// request is the memory of a decision. Decisions reuse it.
type request struct {
	accounts wire.Accounts
	job      takeJob
}

func (t *takings) recycle(r *request) {
	r.accounts.Clear()
	r.job.reset()
	t.requests.Put(r)
}

var errLengths = errors.New("redisbackend: charges and decisions differ in length")

// decide decides charges. If a server's clock is in another calendar period than it was sent, it
// decides them a second time.
func (t *takings) decide(
	ctx context.Context, charges []backends.Charge, out []limits.Decision, peeks bool,
) error {
	if len(charges) != len(out) {
		return errLengths
	}
	if len(charges) == 0 {
		return nil
	}
	m := wire.Mode{Peeks: peeks, Instant: t.servers.instant()}
	r := t.requests.Get().(*request)
	owned, err := t.decideRequest(ctx, r, charges, out, m)
	if owned {
		t.recycle(r)
		if err != nil && t.servers.encoder.Learn(err) {
			r = t.requests.Get().(*request)
			if owned, err = t.decideRequest(ctx, r, charges, out, m); owned {
				t.recycle(r)
			}
		}
	}
	return err
}

// decideRequest decides charges in the memory of r. owned is false if a call may still use r.
func (t *takings) decideRequest(
	ctx context.Context, r *request, charges []backends.Charge, out []limits.Decision, m wire.Mode,
) (owned bool, err error) {
	if err := r.accounts.Charge(t.servers.encoder, charges, m); err != nil {
		return true, err
	}
	results, owned, err := t.decideAccounts(ctx, r, m)
	if err != nil {
		return owned, fmt.Errorf("redisbackend: %w", err)
	}
	r.accounts.Decide(charges, results, out)
	if t.servers.lines.Partition() != nil {
		t.returnable.markTransient(charges, out)
	}
	if r.accounts.HasHeld && !m.Peeks {
		t.noteHeld(&r.accounts, charges, out)
	}
	return true, nil
}

// decideAccounts decides the accounts of r. owned is false if a call may still use r.
func (t *takings) decideAccounts(
	ctx context.Context, r *request, m wire.Mode,
) (results []wire.Result, owned bool, err error) {
	accounts := r.accounts.All
	if locate := t.servers.lines.Partition(); locate != nil && len(accounts) > 1 {
		groups, err := groupsOf(accounts, locate)
		if err != nil {
			return nil, true, err
		}
		if len(groups) > 1 {
			results, err := t.decideGroups(ctx, groups, accounts, m)
			return results, true, err
		}
	}
	owned, err = t.step(ctx, &r.job, accounts, m)
	crosses := owned && len(accounts) > 1 && redis.HasErrorPrefix(err, "CROSSSLOT")
	if crosses && t.servers.lines.LearnSlots() {
		r.job.reset()
		return t.decideAccounts(ctx, r, m)
	}
	if err != nil {
		return nil, owned, err
	}
	return r.job.taking.Results, true, nil
}

// step decides accounts that one partition keeps. owned is false if a call may still use j and
// accounts.
func (t *takings) step(
	ctx context.Context, j *takeJob, accounts []wire.Account, m wire.Mode,
) (owned bool, err error) {
	lines := t.servers.lines
	if err := ctx.Err(); err != nil && !lines.MayBeLate(err) {
		return true, err
	}
	l, err := lines.LineOf(ctx, accounts[0].Name)
	if err != nil {
		return true, err
	}
	j.prepare(ctx, t.giveBacks, accounts, m)
	if owned, err = l.Decide(ctx, &j.Job); err != nil {
		return owned, lines.Blame(explained(l.WithoutTLS(err), accounts), l)
	}
	return true, nil
}

// decideGroups decides groups of accounts, and sets the tickets of accounts.
func (t *takings) decideGroups(
	ctx context.Context, groups []*group, accounts []wire.Account, m wire.Mode,
) ([]wire.Result, error) {
	decide := t.takeGroups
	if m.Peeks {
		decide = t.peekGroups
	}
	if err := decide(ctx, groups, m); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(groups, (*group).isDenied) {
		for _, g := range groups { // a denied request does not queue
			for i := range g.results {
				g.results[i].Enforced.Delay, g.results[i].Shadow.Delay = 0, 0
			}
		}
	}
	results := make([]wire.Result, len(accounts))
	for _, g := range groups {
		for i, index := range g.indexes {
			results[index], accounts[index].Ticket = g.results[i], g.accounts[i].Ticket
		}
	}
	return results, nil
}

func (t *takings) peekGroups(ctx context.Context, groups []*group, m wire.Mode) error {
	for _, g := range groups {
		if _, err := t.step(ctx, &g.job, g.accounts, m); err != nil {
			return err
		}
		copy(g.results, g.job.taking.Results)
	}
	return nil
}

// takeGroups takes groups one after the other until one denies. It then gives back what the
// earlier ones took, and the waits of the others stay unknown.
func (t *takings) takeGroups(ctx context.Context, groups []*group, m wire.Mode) error {
	for _, g := range groups[:len(groups)-1] { // the last group is never given back
		for i := range g.accounts {
			t.returnable.add(g.accounts[i].Scope)
		}
	}
	for i, g := range groups {
		if _, err := t.step(ctx, &g.job, g.accounts, m); err != nil {
			t.giveBack(ctx, groups[:i])
			return err
		}
		copy(g.results, g.job.taking.Results)
		if g.isDenied() {
			t.giveBack(ctx, groups[:i])
			for _, taken := range groups[:i] {
				taken.markNotAsked()
			}
			return nil
		}
	}
	return nil
}

// giveBack sends back what groups took. It does not wait for the answers.
func (t *takings) giveBack(ctx context.Context, groups []*group) {
	for _, g := range groups {
		t.giveBacks.send(ctx, &g.job.taking, maxGiveBacks)
		t.holds.releaseLater(g.job.ids, false)
	}
}

// noteHeld sets the tickets of a decided request, and starts to renew the units that it holds.
func (t *takings) noteHeld(
	accounts *wire.Accounts, charges []backends.Charge, out []limits.Decision,
) {
	allowed := true
	for i := range charges {
		allowed = allowed && (charges[i].Shadow || out[i].Allowed)
	}
	for i, at := range accounts.Of {
		a, cost, d := &accounts.All[at], charges[i].Cost, &out[i]
		if allowed && d.Allowed && cost > 0 && a.Encoded.Held && d.Source != limits.SourceNotAsked {
			d.Ticket = accounts.TicketOf(i, charges)
			if a.Loan.Lends == 0 {
				t.holds.add(idRange{key: a.Name, first: d.Ticket, count: cost})
			}
		}
	}
}
