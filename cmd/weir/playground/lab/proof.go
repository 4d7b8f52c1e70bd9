package lab

import (
	"context"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// proof proves that Retry-After is the shortest wait that works. After a denial, it repeats the
// request, without taking units, a microsecond before Retry-After and at it.
type proof struct {
	serial int64 // number of the latest denial
	at     int64 // its time plus Retry-After
	request
	armed      bool
	early, due core.Verdict // verdicts a microsecond early and in time
	asked      int          // number of verdicts: 0 to 2
}

// disarm drops a pending proof, because units were taken in the meantime.
func (p *proof) disarm() {
	if p.armed {
		*p = proof{serial: p.serial + 1}
	}
}

// arm starts a proof for a denial. Concurrency limits get no proof: the end of a request is unknown,
// so their wait is a guess.
func (p *panel) arm(o *core.Outcome, denied request) {
	wait := o.RetryAfter()
	if wait <= 0 || wait == limits.Never {
		return
	}
	for _, r := range p.rules {
		if r.limit.Algorithm().Holds() {
			return
		}
	}
	at := p.lab.now + wait.Microseconds()
	if p.proof.armed && p.proof.at == at && p.proof.request == denied {
		return
	}
	p.proof = proof{serial: p.proof.serial + 1, at: at, request: denied, armed: true}
	for _, t := range [...]int64{at - 1, at} {
		p.lab.agenda.add(task{at: t, kind: taskProbe, panel: p, serial: p.proof.serial})
	}
}

// probe repeats the denied request.
func (p *panel) probe(t task) {
	if t.serial != p.proof.serial || !p.proof.armed {
		return
	}
	o := p.limiter.Explain(context.Background(), p.proof.request)
	if p.proof.asked++; p.proof.asked == 1 {
		p.proof.early = o.Verdict()
	} else {
		p.proof.due, p.proof.armed = o.Verdict(), false
	}
	p.lab.events = append(p.lab.events, Event{
		Kind: Probe, Panel: p.index, At: p.lab.now, Verdict: o.Verdict(), Cost: p.proof.cost,
		Retry: o.RetryAfter(),
	})
}

// armed returns the microseconds until the Retry-After of a panel's latest denial, or −1.
func (l *Lab) armed(panel int) int64 {
	if panel < 0 || panel >= len(l.panels) || !l.panels[panel].proof.armed {
		return -1
	}
	return l.panels[panel].proof.at - l.now
}

// text returns the state of the proof in words.
func (p *proof) text(now int64) string {
	switch {
	case p.serial == 0 || p.at == 0:
		return ""
	case p.asked == 0:
		return "Retry-After is in " + Duration(time.Duration(p.at-now)*time.Microsecond) + "."
	case p.asked == 1:
		return "One microsecond early: " + p.early.String() + "."
	}
	return "One microsecond early: " + p.early.String() + ". In time: " + p.due.String() + "."
}
