// Package limitstest checks that a [backends.Backend] keeps its contract: which charges fit, which
// units are taken, and which waits are reported, for every algorithm, under any concurrency, to the
// microsecond.
//
// An implementation runs the suite from a test of its own:
//
//	func TestMemoryKeepsTheContract(t *testing.T) {
//		limitstest.Run(t, limitstest.Harness{
//			Open: func(t testing.TB, now func() time.Time) backends.Backend {
//				return memory.MustNew(memory.Options{Clock: now})
//			},
//		})
//	}
//
// The suite passes a clock of its own to the backend. It moves the clock forward and back and never
// sleeps, so no result depends on the speed of the machine.
//
// Expected decisions come from two sources that share no code with any backend: tables of literal
// decisions in files of text, of which a failure names the line, and [Exact], a slow backend that
// keeps everything for ever, computes with rational numbers and follows the definitions to the
// letter. If a random run disagrees with Exact, the suite prints the shortest sequence of calls it
// finds that still does.
//
// On failure, each case prints the statement that it shows, and the section of the design that
// makes it.
//
// # What a backend is free to do
//
// A backend may drop fresh state at once, later or never: the suite does not step the clock back
// past the instant at which a key became fresh and then ask for that key. A call whose context has
// ended may be answered or refused. A denial may be marked Transient. A backend need not be a
// [backends.Peeker], [backends.Resetter] or [backends.Counter]; if it is one, the suite checks it.
// A wrapper returns [errors.ErrUnsupported] for a method that the inner backend lacks.
//
// A backend need not decide every algorithm; one is enough. It says by [backends.Supporter] which
// it decides; one that says nothing must decide those that [backends.Supports] assumes. The suite
// never charges a limit that the backend does not support. A case that needs another algorithm is
// skipped, and a case logs which algorithms it left out (go test -v shows it). A backend that
// supports no limit fails, and so does one that supports only some limits of such an algorithm.
//
// # What it proves, and what it cannot
//
// After a deadlock the test does not end. Concurrent cases see only the interleavings that happen:
// run them often, and with -race. Tests of the suite itself run it on broken backends and check
// that it fails.
//
// References such as DESIGN 5 are to sections of docs/DESIGN.md.
package limitstest
