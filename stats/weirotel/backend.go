package weirotel

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/weir-go/weir/stats"
)

const (
	backendName = attribute.Key("weir.backend.name")
	operation   = attribute.Key("weir.backend.operation")
	errorType   = attribute.Key("error.type") // as the semantic conventions have it
	breakerName = attribute.Key("weir.breaker.name")
	changedTo   = attribute.Key("weir.breaker.state")
	memoryName  = attribute.Key("weir.memory.name")
	policyName  = attribute.Key("weir.policy.name")
)

var (
	backendDuration = &instrument{"weir.backend.operation.duration", "s", "How long calls of a backend took."}
	backendErrors   = &instrument{"weir.backend.operation.errors", "{error}", "Calls of a backend that failed, by reason."}
	breakerOpen     = &instrument{"weir.breaker.open", "1", "1 while the circuit breaker is open, so that its backend is not asked."}
	breakerChanges  = &instrument{"weir.breaker.changes", "{change}", "How often the circuit breaker changed to a state."}
	memoryKeys      = &instrument{"weir.memory.keys", "{key}", "Keys with live state in a memory, counted every 10 s at most."}
	memoryMaxKeys   = &instrument{"weir.memory.max_keys", "{key}", "Keys that a memory has room for."}
	memoryDisplaced = &instrument{"weir.memory.displaced", "{key}", "Keys whose place others took, because the memory was full."}
	leaseHeld       = &instrument{"weir.lease.held", "{unit}", "Units of a backend that this process has taken in advance and may spend now."}
	leaseKeys       = &instrument{"weir.lease.keys", "{key}", "Keys of which this process holds units."}
	leaseBlocks     = &instrument{"weir.lease.blocks", "{block}", "Blocks of units that were asked for: taken, denied because too little remained, or failed because the backend did not answer."}
	leaseUnits      = &instrument{"weir.lease.units", "{unit}", "Units of blocks: taken; returned to the backend; void, that is neither spent nor returned."}
	policyLoads     = &instrument{"weir.policy.loads", "{load}", "Loads of a policy file: applied, or failed, so that the policy of before stayed in force."}
	policyFailing   = &instrument{"weir.policy.failing", "1", "1 while the file is not the policy in force."}
)

func (b *batch) backend(s *stats.BackendSnapshot) {
	of := backendName.String(s.Name)
	for i := range s.Operations {
		op := &s.Operations[i]
		name := operation.String(op.Name)
		b.histogram(backendDuration, &op.Succeeded, of, name, result.String("success"))
		b.histogram(backendDuration, &op.Failed, of, name, result.String("failure"))
		b.counter(backendErrors, op.Errors.Timeout, of, name, errorType.String("timeout"))
		b.counter(backendErrors, op.Errors.Canceled, of, name, errorType.String("canceled"))
		b.counter(backendErrors, op.Errors.Unsupported, of, name, errorType.String("unsupported"))
		b.counter(backendErrors, op.Errors.Other, of, name, errorType.String("_OTHER"))
	}
}

func (b *batch) breaker(s *stats.BreakerSnapshot) {
	of := breakerName.String(s.Name)
	closed := s.Opened
	if s.Open {
		closed = max(0, closed-1)
	}
	b.gauge(breakerOpen, oneIf(s.Open), of)
	b.counter(breakerChanges, s.Opened, of, changedTo.String("open"))
	b.counter(breakerChanges, closed, of, changedTo.String("closed"))
}

func (b *batch) memory(s *stats.MemorySnapshot) {
	of := memoryName.String(s.Name)
	b.gauge(memoryKeys, float64(s.Keys), of)
	b.gauge(memoryMaxKeys, float64(s.MaxKeys), of)
	b.counter(memoryDisplaced, s.Displaced, of)
}

func (b *batch) leases(s *stats.LeaseSnapshot) {
	of := backendName.String(s.Name)
	b.gauge(leaseHeld, float64(s.Held), of)
	b.gauge(leaseKeys, float64(s.Keys), of)
	b.counter(leaseBlocks, s.BlocksTaken, of, result.String("taken"))
	b.counter(leaseBlocks, s.BlocksDenied, of, result.String("denied"))
	b.counter(leaseBlocks, s.BlocksFailed, of, result.String("failed"))
	b.counter(leaseUnits, s.UnitsTaken, of, kind.String("taken"))
	b.counter(leaseUnits, s.UnitsReturned, of, kind.String("returned"))
	b.counter(leaseUnits, s.UnitsVoid, of, kind.String("void"))
}

func (b *batch) policy(s *stats.PolicySnapshot) {
	of := policyName.String(s.Name)
	b.counter(policyLoads, s.Applied, of, result.String("applied"))
	b.counter(policyLoads, s.Failed, of, result.String("failed"))
	b.gauge(policyFailing, oneIf(s.Failure != ""), of)
}
