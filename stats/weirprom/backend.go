package weirprom

import (
	"strings"

	"github.com/weir-go/weir/stats"
)

var (
	backendDuration = family("backend_duration_seconds",
		"How long calls of a backend took.", "backend", "operation", "result")
	backendErrors = family("backend_errors_total",
		"Calls of a backend that failed, by reason.", "backend", "operation", "reason")
	breakerOpen = family("breaker_open",
		"1 while the circuit breaker is open, so that its backend is not asked.", "breaker")
	breakerChanges = family("breaker_changes_total",
		"How often the circuit breaker changed to a state.", "breaker", "to")
	memoryKeys = family("memory_keys",
		"Keys with live state in a memory, counted every 10 s at most.", "memory")
	memoryMaxKeys = family("memory_max_keys",
		"Keys that a memory has room for.", "memory")
	memoryDisplaced = family("memory_displaced_total",
		"Keys whose place others took, because the memory was full.", "memory")
	leaseHeld = family("lease_held_units",
		"Units of a backend that this process has taken in advance and may spend now.", "backend")
	leaseKeys = family("lease_keys",
		"Keys of which this process holds units.", "backend")
	leaseBlocks = family("lease_blocks_total",
		"Blocks of units that were asked for: taken, denied because too little remained, or failed because the backend did not answer.", "backend", "result")
	leaseUnits = family("lease_units_total",
		"Units of blocks: taken; returned to the backend; void, that is neither spent nor returned.", "backend", "kind")
	policyLoads = family("policy_loads_total",
		"Loads of a policy file: applied, or failed, so that the policy of before stayed in force.", "policy", "result")
	policyApplied = family("policy_applied_timestamp_seconds",
		"When the policy in force was applied.", "policy")
	policyFailing = family("policy_failing",
		"1 while the file is not the policy in force.", "policy")
	policyInfo = family("policy_info",
		"1, with the digest of the policy in force.", "policy", "digest")
)

func (w writer) backend(b *stats.BackendSnapshot) {
	for i := range b.Operations {
		op := &b.Operations[i]
		w.histogram(backendDuration, &op.Succeeded, b.Name, op.Name, "success")
		w.histogram(backendDuration, &op.Failed, b.Name, op.Name, "failure")
		w.counter(backendErrors, op.Errors.Timeout, b.Name, op.Name, "timeout")
		w.counter(backendErrors, op.Errors.Canceled, b.Name, op.Name, "canceled")
		w.counter(backendErrors, op.Errors.Unsupported, b.Name, op.Name, "unsupported")
		w.counter(backendErrors, op.Errors.Other, b.Name, op.Name, "other")
	}
}

func (w writer) breaker(b *stats.BreakerSnapshot) {
	closed := b.Opened
	if b.Open {
		closed = max(0, closed-1)
	}
	w.gauge(breakerOpen, oneIf(b.Open), b.Name)
	w.counter(breakerChanges, b.Opened, b.Name, "open")
	w.counter(breakerChanges, closed, b.Name, "closed")
}

func (w writer) memory(m *stats.MemorySnapshot) {
	w.gauge(memoryKeys, float64(m.Keys), m.Name)
	w.gauge(memoryMaxKeys, float64(m.MaxKeys), m.Name)
	w.counter(memoryDisplaced, m.Displaced, m.Name)
}

func (w writer) leases(l *stats.LeaseSnapshot) {
	w.gauge(leaseHeld, float64(l.Held), l.Name)
	w.gauge(leaseKeys, float64(l.Keys), l.Name)
	w.counter(leaseBlocks, l.BlocksTaken, l.Name, "taken")
	w.counter(leaseBlocks, l.BlocksDenied, l.Name, "denied")
	w.counter(leaseBlocks, l.BlocksFailed, l.Name, "failed")
	w.counter(leaseUnits, l.UnitsTaken, l.Name, "taken")
	w.counter(leaseUnits, l.UnitsReturned, l.Name, "returned")
	w.counter(leaseUnits, l.UnitsVoid, l.Name, "void")
}

func (w writer) policy(p *stats.PolicySnapshot) {
	w.counter(policyLoads, p.Applied, p.Name, "applied")
	w.counter(policyLoads, p.Failed, p.Name, "failed")
	w.gauge(policyApplied, seconds(p.AppliedAt), p.Name)
	w.gauge(policyFailing, oneIf(p.Failure != ""), p.Name)
	w.gauge(policyInfo, 1, p.Name, strings.ToValidUTF8(p.Digest[:min(12, len(p.Digest))], ""))
}
