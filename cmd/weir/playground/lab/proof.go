package lab

import (
	"time"

	"github.com/weir-go/weir/core"
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

// arm starts a proof for a denial of a request, whose Retry-After ends at an instant. It returns
// false if that proof is pending already.
func (p *proof) arm(at int64, denied request) bool {
	if p.armed && p.at == at && p.request == denied {
		return false
	}
	*p = proof{serial: p.serial + 1, at: at, request: denied, armed: true}
	return true
}

// see notes the next verdict.
func (p *proof) see(v core.Verdict) {
	if p.asked++; p.asked == 1 {
		p.early = v
	} else {
		p.due, p.armed = v, false
	}
}

// left returns the microseconds until the end of a pending Retry-After, or −1.
func (p *proof) left(now int64) int64 {
	if !p.armed {
		return -1
	}
	return p.at - now
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
