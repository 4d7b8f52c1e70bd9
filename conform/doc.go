// Package conform asks a server over HTTP whether its rate limiter does what it promises. The server may
// be written in any language. The command weir conform is its front.
//
// A [Profile] says how the server is started and what it promises. [Run] starts it and makes every
// [Check] that applies. A [Report] has a line for each check:
//
//	profile, err := conform.Parse("profile.yaml", text)
//	report, err := conform.Run(ctx, profile, conform.Options{})
//	report.Text(os.Stdout)
//
// # How it judges
//
// Checks judge by counts and intervals, never by latency. Every request has two instants: when it was
// sent, and when its answer had arrived. The server decided it in between. A check says that
// something does not hold only if no instants in between explain the answers. A slow machine makes a
// check blind, not wrong: it then says that it does not apply.
//
// Checks run in real time, so a server under test is set up with a short period, such as two
// seconds. All checks that need no server of their own run at once, each with keys of its own.
//
// Counts that depend on the instant of a request are taken three times. The report states the bound
// and the highest count.
package conform
