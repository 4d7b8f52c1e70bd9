package wire

import "github.com/weir-go/weir/limits"

// maxNumber is the highest number in a reply: scripts compute with doubles.
const maxNumber = 1<<53 - 1

// take.lua replies the states that a request found, and whether it was allowed. Package family
// computes from them what remains and how long to wait, as package memory does. That also checks
// whether the request was rightly allowed.

// Taking is what one step decides: accounts that one partition keeps. It writes the arguments of
// take.lua, and reads the reply. Decisions reuse its memory.
type Taking struct {
	Accounts []Account
	Mode     Mode

	HasLogs bool
	Weight  int // how much work it is for Redis, in keys
	Width   int // how many numbers its reply has

	statesEnd int // index in its reply behind the states: the waits of logs follow
	waitsEnd  int // index behind the waits: the serials follow

	// Set by Read.
	Allowed bool
	Results []Result // one for each account
}

// Begin makes t the taking of accounts in a mode.
func (t *Taking) Begin(accounts []Account, m Mode) {
	t.Accounts, t.Mode, t.statesEnd = accounts, m, 1
	waits, serials := 0, 0
	for i := range accounts {
		a := &accounts[i]
		t.HasLogs = t.HasLogs || a.Encoded.Lists
		t.statesEnd += a.Encoded.width
		waits += a.waits()
		if a.settles {
			serials++
		}
		t.Weight += a.weight()
	}
	t.waitsEnd = t.statesEnd + waits
	t.Width = t.waitsEnd + serials
}

// Reset empties t for reuse.
func (t *Taking) Reset() { *t = Taking{Results: t.Results[:0]} }

// Form returns a text that is equal for takings that differ only in their keys.
func (t *Taking) Form() string {
	a := &t.Accounts[0]
	if len(t.Accounts) == 1 && !t.Mode.Peeks && a.Enforced == 1 && !a.HasShadow && !a.settles &&
		!a.Encoded.Values {
		return a.Encoded.takesOne
	}
	text := append(make([]byte, 0, 64*len(t.Accounts)), t.Mode.Verb()...)
	for i := range t.Accounts {
		a := &t.Accounts[i]
		text = append(append(append(text, ' '), a.Encoded.text.(string)...), '=')
		text = a.appendUnits(text)
	}
	return string(text)
}

// AppendArguments appends the arguments of take.lua about the accounts.
func (t *Taking) AppendArguments(to []any, ids *IDs) []any {
	for i := range t.Accounts {
		a := &t.Accounts[i]
		to = append(to, a.Encoded.text, a.units(t.Mode, ids))
	}
	return to
}

// Read describes the decisions at an instant from the numbers of the reply. It returns false if the
// script never replies them.
func (t *Taking) Read(now int64, numbers []int64) bool {
	t.Allowed, t.Results = numbers[0] == 1, t.Results[:0]
	for _, n := range numbers {
		if n < 0 || n > maxNumber {
			return false
		}
	}
	rest := unread{
		now: now, allowed: t.Allowed, takes: t.Allowed && !t.Mode.Peeks,
		states: numbers[1:t.statesEnd], waits: numbers[t.statesEnd:t.waitsEnd],
		serials: numbers[t.waitsEnd:],
	}
	allFit := true
	for i := range t.Accounts {
		a := &t.Accounts[i]
		f, ok := a.readState(&rest)
		if !ok {
			return false
		}
		r, fits, ok := a.decisions(&f)
		if !ok {
			return false
		}
		allFit = allFit && (fits || !a.Enforces)
		t.Results = append(t.Results, r)
	}
	return allFit == t.Allowed && (t.Allowed || numbers[0] == 0)
}

// Deny denies t by the decision d on account i. The others are marked as not asked.
func (t *Taking) Deny(i int, d limits.Decision) {
	t.Allowed, t.Results = false, t.Results[:0]
	for range t.Accounts {
		t.Results = append(t.Results, NotAsked)
	}
	t.Results[i].Enforced = d
}

// GiveBacks returns the endings that give back what t took.
func (t *Taking) GiveBacks() (all []Ending) {
	for i := range t.Accounts {
		if e, ok := t.Accounts[i].giveBack(&t.Results[i]); ok {
			all = append(all, e)
		}
	}
	return all
}
