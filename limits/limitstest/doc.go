// Package limitstest checks that a [backends.Backend] keeps the contract: what
// fits, what is taken, which waits are reported and what happens at the edges,
// for every algorithm, under any concurrency, to the microsecond.
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
// Time is set by hand. The suite passes its clock to the backend, moves it
// forward and back and never sleeps, so that nothing depends on how fast the
// machine is.
//
// What is expected comes from two sources that share nothing with any backend:
// tables of literal decisions, and [Exact], a backend that is slow, keeps
// everything for ever, computes with rational numbers and follows the
// definitions to the letter. A random run that disagrees with Exact is cut down
// to the shortest sequence that still does, and printed.
//
// Each case prints on failure what it shows, and where that comes from: a section of
// the design, by number.
//
// # What a backend is free to do
//
// State that has become fresh may be dropped at once, later or never: the suite
// does not step the clock back past the instant at which a key became fresh and
// then ask for that key. A call whose context has ended may be answered or
// refused. A denial may be marked Transient. A backend need not be a [backends.Peeker], [backends.Resetter] or
// [backends.Counter]; the suite checks those that it is. A wrapper returns
// [errors.ErrUnsupported] for what the backend inside lacks.
//
// A backend need not decide every algorithm; one is enough. It says by [backends.Supporter] which
// it decides; one that says nothing must decide those that [backends.Supports] assumes. The suite
// never charges a limit that the backend does not support. A case that needs another algorithm is
// skipped, and a case logs which algorithms it left out (go test -v shows it). A backend that
// supports no limit fails, and so does one that supports only some limits of such an algorithm.
//
// # What it proves, and what it cannot
//
// A deadlock shows as a test that does not end. Concurrent cases can only see
// the interleavings that happen: run them with -race, and often. The suite has
// tests of its own that hand it broken backends and demand that it notices.
//
// References such as DESIGN 5 are to sections of docs/DESIGN.md.
package limitstest
